//! Pages of mapped files: what a start touches is read ahead while it starts.
//!
//! What it waits for is the same bytes, in large requests of which several are on their way: what
//! the finding says could be spared.

use ahead::ReadAheadList;
use explain::{Finding, Storm};
use recording::ByteUnits;
use term::number::{bytes, counted};

use crate::cure::{Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::plan::PlanInput;
use crate::prediction::CureEffect;

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let mut all = StormCures::default();
    match cure(input, finding) {
        Ok(cure) => all.cures.push(cure),
        Err(why) => all.not_chosen.push(RefusedCure {
            storm: Storm::Data,
            text: "Read ahead what is touched".to_owned(),
            why,
        }),
    }
    all
}

fn cure(input: &PlanInput, finding: &Finding) -> Result<Cure, String> {
    // A calm file is text.
    let list = ReadAheadList::of(input.recording, |path| path.to_str().is_some());
    if list.parts.is_empty() {
        return Err("what it touched is not there now, or has changed since".to_owned());
    }
    let effect = CureEffect { waits_less: finding.avoidable_wait, ..CureEffect::default() };
    let predicted = input.predictor.predict(&effect);
    if !predicted.is_worth_it() {
        return Err("it would take away less than a tenth of the start's wait".to_owned());
    }
    let (files, size) = (list.files.len() as u64, list.bytes());
    Ok(Cure {
        storm: Storm::Data,
        text: format!(
            "Read ahead, while the command starts, the {} of {} that it touches; where this node \
             has them in memory already, as of a warm local disk, it gains nothing",
            bytes(ByteUnits(size)),
            counted(files, "file", "files"),
        ),
        // Not applied by `fix`: a rehearsal serves page faults from this node, so that no measurement
        // here could show the gain.
        command: Some(format!(
            "becalm record -o start.becalm -- {0} && becalm run --read-ahead start.becalm -- {0}",
            input.line
        )),
        actor: CureActor::You,
        owner: None,
        change: CureChange::ReadAhead { files, bytes: size },
        risk: Some("up to a quarter of the free memory holds what is read".to_owned()),
        predicted,
        effect,
    })
}
