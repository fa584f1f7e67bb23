//! What `becalm fix` says.

use std::path::PathBuf;

use cure::{Cure, CureActor, TakenAway};
use explain::WaitModel;
use image::squash::Healed;
use prove::Harm;
use recording::ByteUnits;
use term::number::{bytes, count, counted};
use term::{plain, style, width};

use super::plan::{PlannedWait, ResolvedPlan};
use super::trial::{self, TrialResult};
use crate::predicted_wait::{seconds, wait_sentence};
use crate::verb::elf::bind::view::Bound;

/// A fix, planned or applied.
pub(super) struct FixAnswer<'a> {
    /// What is to be done, or was.
    pub plan: &'a ResolvedPlan,
    /// Its name in the journal, once it was applied.
    pub applied: Option<&'a str>,
    /// What came of it.
    pub tried: Option<&'a TrialResult>,
}

/// An image of an environment.
#[derive(Clone, Debug)]
pub struct EnvironmentImage {
    /// The directories.
    pub directories: Vec<PathBuf>,
    /// The image's file.
    pub image: PathBuf,
    /// Metadata operations of the start that lie below the directory: the image serves them.
    pub taken: TakenAway,
    /// Files, directories and links in it.
    pub entries: u64,
    /// Files in it.
    pub files: u64,
    /// The sum of the files' sizes.
    pub bytes: u64,
    /// The image's size, once it is built.
    pub image_bytes: Option<u64>,
    /// What was healed in it, once it is built.
    pub healed: Option<Healed>,
}

impl<'a> FixAnswer<'a> {
    /// When nothing has been done yet.
    pub fn planned(plan: &'a ResolvedPlan) -> FixAnswer<'a> {
        FixAnswer { plan, applied: None, tried: None }
    }

    /// What was planned or done, then what was measured.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let mut text = self.cures(columns);
        let Some(tried) = self.tried else {
            let next = if next.is_empty() { String::new() } else { style::next(next) };
            return text + "\n" + &self.wait(columns) + &next;
        };
        text.push('\n');
        for line in self.kept_or_not(tried) {
            let paint = if tried.harm.is_some() { style::MORE } else { style::WARNING };
            text.push_str(&style::paint(paint, width::wrap(&line, columns).trim_end()));
            text.push('\n');
        }
        // What counts there, no time on this machine tells.
        text + &match trial::is_made_up_for(&tried.proof, self.plan, &tried.kept) {
            true => super::super::prove::view::measured(&tried.proof, "Measured", columns, next),
            false => super::super::prove::view::proof(&tried.proof, columns, next),
        }
    }

    fn wait(&self, columns: usize) -> String {
        let PlannedWait { model, now, after } = &self.plan.wait;
        let Some(now) = now else {
            return "No wait is predicted: becalm check says why.\n".to_owned();
        };
        let after = after.map_or(String::new(), |after| {
            let (one, all) = (seconds(after.one_rank), seconds(after.all_ranks));
            format!("; with this plan {one}, and {all}")
        });
        width::wrap(&format!("{}{after}.", wait_sentence(model, now)), columns)
    }

    /// What each cure does, then what nobody or somebody else can do.
    fn cures(&self, columns: usize) -> String {
        let plan = self.plan;
        let mut text = String::new();
        match (&plan.image, &plan.no_image) {
            (Some(image), _) => text.push_str(&style::headline(&image.headline(), columns)),
            (None, Some(why)) => {
                text.push_str(&width::wrap(&format!("No image: {}", plain(why)), columns));
            }
            (None, None) => {}
        }
        if let Some(failed) = &plan.failed {
            let line = width::wrap(&format!("! {}", plain(failed)), columns);
            text.push_str(&style::paint(style::WARNING, line.trim_end()));
            text.push('\n');
        }
        if !plan.binding.is_empty() || plan.is_empty() {
            text.push_str(&Bound::of(&plan.binding, self.bound()).render(columns, ""));
        }
        let is_one = plan.cures.chosen.len() == 1;
        for cure in &plan.cures.chosen {
            if cure.change.is_of_launch() {
                text.push_str(&width::wrap(&format!("At launch: {}", plain(&cure.text)), columns));
            }
            // Of files that are bound, the table says it.
            if cure.change.is_of_launch() || !is_one {
                text.push_str(&width::wrap(&prediction(cure, &plan.wait.model), columns));
            }
        }
        if let Some(calm) = &plan.calm {
            let (verb, file) = (self.verb(), plain(&calm.shown.to_string_lossy()));
            let line = format!("{verb} {file}: what becalm run does at launch");
            text.push_str(&width::wrap(&line, columns));
        }
        if let Some(why) = self.only_you() {
            text.push_str(&width::wrap(&format!("Only you can use it: {why}"), columns));
        }
        for line in &plan.not_needed {
            text.push_str(&width::wrap(line, columns));
        }
        text + &self.others(columns)
    }

    /// The name in the journal, where files were bound under it.
    pub(super) fn bound(&self) -> Option<&str> {
        let is_dropped =
            |tried: &TrialResult| tried.harm.is_none() && !self.plan.binds(&tried.kept);
        self.applied.filter(|_| !self.tried.is_some_and(is_dropped))
    }

    /// Why nobody else can use the calm file, of copies that are kept.
    pub(super) fn only_you(&self) -> Option<&String> {
        let parts = self.tried.map_or_else(|| self.plan.parts(), |tried| tried.kept.clone());
        self.plan.only_you.as_ref().filter(|_| self.plan.shows_copies(&parts))
    }

    fn verb(&self) -> &'static str {
        match self.tried {
            None => "Would write",
            Some(tried) if self.plan.launches(&tried.kept) => "Wrote",
            Some(_) => "Not kept:",
        }
    }

    /// What somebody else can do where this user can do nothing, and why nothing else was chosen.
    fn others(&self, columns: usize) -> String {
        let plan = self.plan;
        let mut text = String::new();
        if let Some(cure) = plan.cures.further.as_ref().filter(|_| self.tried.is_none()) {
            let predicted = format!(": {}", prediction(cure, &plan.wait.model));
            text.push_str(&by_hand(cure, &predicted, columns));
        }
        for (storm, cures) in &plan.cures.storms {
            let is_done = plan.cures.chosen.iter().any(|cure| cure.storm == *storm);
            let is_other = |cure: &&Cure| !cure.is_appliable() && !cure.goes_further();
            for cure in cures.cures.iter().filter(is_other).filter(|_| !is_done) {
                text.push_str(&by_hand(cure, "", columns));
            }
            for refused in &cures.not_chosen {
                let (what, why) = (plain(&refused.text), plain(&refused.why));
                text.push_str(&width::wrap(&format!("Not chosen: {what}: {why}"), columns));
            }
        }
        text
    }

    /// What became of the changes, where it does not go without saying.
    fn kept_or_not(&self, tried: &TrialResult) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (part, harm) in &tried.dropped {
            let cure = &self.plan.cures.chosen[*part];
            lines.push(format!("Not kept: {}: {}", plain(&cure.text), with_it(*harm)));
        }
        match tried.harm {
            Some(harm) => lines.push(format!("Taken back: {}", with_it(harm))),
            None if trial::is_made_up_for(&tried.proof, self.plan, &tried.kept) => {
                let longer = trial::longer(&tried.proof).unwrap_or(0.0);
                let saved = self.plan.saved_seconds(&tried.kept);
                lines.push(format!(
                    "Kept, though it takes {} longer on this machine, warm: no local disk shows what \
                     it saves, {} of 1 rank's wait for a shared filesystem as {}.",
                    seconds(longer),
                    seconds(saved),
                    plain(&self.plan.wait.model.profile)
                ));
            }
            None if !tried.proof.verdict.proven => {
                lines.push("Kept, though no gain was proven: nothing speaks against it.".to_owned())
            }
            None => {}
        }
        if let (None, Some(id)) = (tried.harm, self.applied) {
            lines.push(format!("becalm undo {id} takes all of it back."));
        }
        lines
    }
}

/// What a cure changes in a start, for whom to do, at which risk.
fn prediction(cure: &Cure, model: &WaitModel) -> String {
    let (before, after) = (cure.predicted.before, cure.predicted.after);
    let mut text = format!(
        "{} metadata operations become {} (failed: {} become {})",
        count(before.metadata_ops),
        count(after.metadata_ops),
        count(before.enoent),
        count(after.enoent)
    );
    if let Some((before, after)) = before.wait.zip(after.wait) {
        let ranks = counted(model.ranks, "rank", "ranks");
        text.push_str(&format!(
            "; on {} 1 rank's wait of {} becomes {}, that of {ranks} {} becomes {}",
            plain(&model.profile),
            seconds(before.one_rank),
            seconds(after.one_rank),
            seconds(before.all_ranks),
            seconds(after.all_ranks)
        ));
    }
    if let Some(risk) = &cure.risk {
        text.push_str(&format!(". Risk: {}", plain(risk)));
    }
    text
}

/// What somebody can do, with what is to be said of it, and the line to paste.
fn by_hand(cure: &Cure, said: &str, columns: usize) -> String {
    let text = width::wrap(&format!("{}: {}{said}", who(cure), plain(&cure.text)), columns);
    let command = cure.command.as_ref();
    text + &command
        .map_or(String::new(), |command| format!("  {}\n", style::paint(style::COMMAND, command)))
}

/// Who must do it.
fn who(cure: &Cure) -> String {
    match (&cure.actor, &cure.owner) {
        (CureActor::You, _) => "For you".to_owned(),
        (CureActor::Owner, Some(name)) => format!("For {}", plain(name)),
        (CureActor::Owner, None) => "For the owner of the files".to_owned(),
        (CureActor::Root, _) => "For the administrator".to_owned(),
        (CureActor::Author, _) => "For who writes the script or program".to_owned(),
    }
}

fn with_it(harm: Harm) -> &'static str {
    match harm {
        Harm::Behaviour => "with these changes the command did not behave as before.",
        Harm::Slower => "with these changes the command took longer.",
        Harm::MoreOperations => "with these changes it made more metadata operations.",
    }
}

impl EnvironmentImage {
    fn headline(&self) -> String {
        let (did, size) = match self.image_bytes {
            None => ("Would build", String::new()),
            Some(size) => ("Built", format!(" ({})", bytes(ByteUnits(size)))),
        };
        format!(
            "{did} one image, {}{size}, of {} ({}, {}): it serves {} of this start",
            plain(&self.image.to_string_lossy()),
            plain(&term::shell_line(&self.directories)),
            counted(self.files, "file", "files"),
            bytes(ByteUnits(self.bytes)),
            counted(self.taken.metadata_ops, "metadata operation", "metadata operations"),
        ) + &self.healed()
    }

    /// What was healed in it, if anything was.
    fn healed(&self) -> String {
        let Some(healed) = &self.healed else { return String::new() };
        let (modules, files) = (healed.bytecode.len() as u64, healed.libraries.len() as u64);
        let modules = (modules > 0).then(|| {
            format!("bytecode of {} was compiled into it", counted(modules, "module", "modules"))
        });
        let files = (files > 0).then(|| {
            format!(
                "{} bound in it",
                counted(files, "program or library", "programs and libraries")
            )
        });
        [modules, files].into_iter().flatten().map(|part| format!("; {part}")).collect()
    }
}
