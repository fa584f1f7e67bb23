//! `becalm check --html`: what can be done, as the picture has it.

use cure::Cure;
use picture::PicturedCure;
use term::shell_line;

use super::{CheckAnswer, gain};

impl CheckAnswer {
    /// What can be done, as a picture has it: what `becalm fix` does is first.
    pub fn pictured_cures(&self) -> Vec<PicturedCure> {
        let profile = &self.findings.model.profile;
        let fix = self.predicted.as_ref().map(|predicted| PicturedCure {
            text: self.chosen.iter().map(|cure| cure.text.as_str()).collect::<Vec<_>>().join("; "),
            command: Some(format!("becalm fix -- {}", shell_line(&self.findings.command))),
            gain: format!("{}; can be undone", gain(predicted, profile)),
        });
        let is_chosen = |cure: &Cure| self.chosen.iter().any(|known| known.change == cure.change);
        let others = self.cures.iter().filter(|cure| !is_chosen(cure)).map(|cure| PicturedCure {
            text: cure.text.clone(),
            command: cure.command.clone(),
            gain: gain(&cure.predicted, profile),
        });
        fix.into_iter().chain(others).collect()
    }
}
