//! The command measured before and after, and whether what was changed may stay.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use prove::{
    Conditions, CountChange, Harm, Proof, ProofBench, ProofPlan, ProofProgress, Side, Subject,
    interleaved,
};
use recording::Recording;

use super::{AppliedChanges, FixArgs, ResolvedPlan, image};
use crate::again;
use crate::exit::Failure;

/// What measures.
pub(super) struct Trial<'a> {
    pub args: &'a FixArgs,
    pub bench: ProofBench,
    /// The command as it was given.
    pub subject: Subject,
}

impl Trial<'_> {
    /// The command as it is, warmed up and recorded, the first time to this file.
    pub fn recorded(&self, file: &Path) -> Result<Side, Failure> {
        self.waiting(|progress| self.bench.measure(&self.subject, 0, Some(file), progress))
    }

    /// Applies the cures, and measures.
    ///
    /// An image leaves the files as they are, so that runs with and without it come in pairs. Files
    /// that are bound in place are measured before and after.
    pub fn measured(
        &self,
        before: Side,
        plan: &mut ResolvedPlan,
        recording: &Recording,
        done: &mut AppliedChanges,
    ) -> Result<Proof, Failure> {
        let mut proof = match plan.binding.is_empty() {
            true => self.in_pairs(done.build(self.args, plan, recording)?)?,
            false => self.apart(before, plan, recording, done)?,
        };
        if let Some(built) = &plan.image {
            proof.verdict = image::verdict(&proof, built);
        }
        Ok(proof)
    }

    fn in_pairs(&self, after: Subject) -> Result<Proof, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let pairs = ProofPlan {
            before: self.subject.clone(),
            after,
            bench: self.bench.clone(),
            runs: Some(self.runs()),
            warm_ups: 1,
            seed: now.subsec_nanos().into(),
            keep: None,
            ignore_output: false,
        };
        self.waiting(|progress| interleaved(&pairs, progress))
    }

    /// First all of before, then all of after. Where that says that it takes longer, the machine
    /// may have become busier meanwhile: the command as it was is measured once more, and only what
    /// took longer than both is slower.
    fn apart(
        &self,
        mut before: Side,
        plan: &mut ResolvedPlan,
        recording: &Recording,
        done: &mut AppliedChanges,
    ) -> Result<Proof, Failure> {
        self.time(&mut before)?;
        done.bind(self.args, plan)?;
        let subject = done.build(self.args, plan, recording)?;
        let after =
            self.waiting(|progress| self.bench.measure(&subject, self.runs(), None, progress))?;
        let proof = Proof::of(before.clone(), after.clone(), self.conditions());
        // The image holds the files as they are bound: it would not go with them as they were.
        if harm(&proof, plan) != Some(Harm::Slower) || plan.image.is_some() {
            return Ok(proof);
        }
        done.unbind()?;
        self.time(&mut before)?;
        let again = Proof::of(before, after, self.conditions());
        if harm(&again, plan).is_none() {
            done.bind(self.args, plan)?;
        }
        Ok(again)
    }

    fn time(&self, side: &mut Side) -> Result<(), Failure> {
        self.waiting(|progress| self.bench.time(&self.subject, side, self.runs(), progress))
    }

    fn runs(&self) -> usize {
        self.args.runs as usize
    }

    fn conditions(&self) -> Conditions {
        let surroundings = self.bench.elsewhere.as_ref().map(|elsewhere| elsewhere.words());
        let warm = surroundings.is_none();
        Conditions { surroundings, warm, ..Conditions::apart() }
    }

    /// Measures while somebody waits.
    fn waiting<T>(
        &self,
        measure: impl FnOnce(&mut dyn FnMut(ProofProgress)) -> Result<T, prove::ProofError>,
    ) -> Result<T, Failure> {
        let waiting = term::ProgressBar::new();
        let measured = measure(&mut |step| {
            waiting.tell("running", step.done as u64, step.of as u64);
        });
        measured.map_err(|error| Failure { status: error.exit_status(), error: error.into() })
    }

    /// What to do once all was taken back. A warm local disk hides what an image saves.
    pub fn next(&self, harm: Harm, plan: &ResolvedPlan) -> String {
        match (harm, &plan.image) {
            (Harm::Slower, Some(_)) if self.bench.elsewhere.is_none() => {
                again::with(1, &["--rehearse", "nfs"])
            }
            _ => format!("becalm check -- {}", term::shell_line(&self.args.command)),
        }
    }
}

/// Why what was changed must not stay; none if it may.
pub(super) fn harm(proof: &Proof, plan: &ResolvedPlan) -> Option<Harm> {
    // In an image the command makes the calls that it made, and `becalm run` its own.
    let operations = match (proof.counts.rpcs, &plan.image) {
        (None, Some(_)) => CountChange::Unclear,
        _ => proof.counts.judged_by(),
    };
    proof.harm(operations)
}
