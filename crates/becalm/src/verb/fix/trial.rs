//! The command measured before and after, and whether what was changed may stay.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use prove::{
    Conditions, CountChange, Harm, Proof, ProofBench, ProofPlan, ProofProgress, Side, Speed,
    Subject, interleaved,
};
use recording::Recording;

use super::applied::AppliedChanges;
use super::plan::ResolvedPlan;
use super::{FixArgs, image};
use crate::again;
use crate::asked_to_end::{not_asked_to_end, of_proof};
use crate::exit::Failure;

/// What measures.
pub(super) struct Trial<'a> {
    pub args: &'a FixArgs,
    pub bench: ProofBench,
    /// The command as it was given.
    pub subject: Subject,
    /// The start that the plan was made of.
    pub recording: &'a Recording,
    /// The command as it is, recorded.
    pub before: Side,
    /// Whether becalm is asked to end, which is looked at between two runs.
    pub asked: &'a launch::EndRequests,
}

/// What came of a trial.
pub(super) struct TrialResult {
    pub proof: Proof,
    /// The cures that are applied now, by their numbers: none where all was taken back.
    pub kept: Vec<usize>,
    /// Those that were taken back, and why.
    pub dropped: Vec<(usize, Harm)>,
    /// Why all was taken back.
    pub harm: Option<Harm>,
}

/// The command as it is, warmed up and recorded, the first time to this file.
pub(super) fn recorded(
    bench: &ProofBench,
    subject: &Subject,
    file: &Path,
) -> Result<Side, Failure> {
    waiting(|progress| bench.measure(subject, 0, Some(file), progress))
}

impl Trial<'_> {
    /// Does all, measures, and keeps what does no harm: where the whole does, each cure is measured
    /// by itself, and what is left is measured together.
    pub fn run(
        &self,
        plan: &mut ResolvedPlan,
        done: &mut AppliedChanges,
    ) -> Result<TrialResult, Failure> {
        let all = plan.parts();
        let (proof, harm) = self.measured(&all, plan, done)?;
        let Some(harm) = harm else {
            return Ok(TrialResult { proof, kept: all, dropped: Vec::new(), harm: None });
        };
        done.take_back()?;
        let taken_back =
            |proof| TrialResult { proof, kept: Vec::new(), dropped: Vec::new(), harm: Some(harm) };
        if all.len() < 2 {
            return Ok(taken_back(proof));
        }
        let (mut kept, mut dropped, mut last) = (Vec::new(), Vec::new(), proof);
        for part in all {
            let (proof, harm) = self.measured(&[part], plan, done)?;
            done.take_back()?;
            match harm {
                None => {
                    kept.push(part);
                    last = proof;
                }
                Some(harm) => dropped.push((part, harm)),
            }
        }
        if kept.is_empty() || dropped.is_empty() {
            return Ok(taken_back(last));
        }
        let (proof, again) = self.measured(&kept, plan, done)?;
        match again {
            None => Ok(TrialResult { proof, kept, dropped, harm: None }),
            Some(_) => {
                done.take_back()?;
                Ok(taken_back(proof))
            }
        }
    }

    /// Does these cures, and measures.
    ///
    /// What is done at launch leaves the files as they are, so that runs with and without it come
    /// in pairs. Files that are bound in place are measured before and after.
    fn measured(
        &self,
        parts: &[usize],
        plan: &mut ResolvedPlan,
        done: &mut AppliedChanges,
    ) -> Result<(Proof, Option<Harm>), Failure> {
        let mut proof = match plan.binds(parts) {
            false => self.in_pairs(done.make(self.args, plan, parts, self.recording)?)?,
            true => self.apart(parts, plan, done)?,
        };
        not_asked_to_end(self.asked)?;
        let harm = self.harm(&proof, plan, parts);
        if let Some(built) = plan.image.as_ref().filter(|_| plan.mounts(parts)) {
            proof.verdict = image::verdict(&proof, built);
        }
        Ok((proof, harm))
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
        waiting(|progress| interleaved(&pairs, progress))
    }

    /// First all of before, then all of after. Where that says that it takes longer, the machine
    /// may have been busier meanwhile: both are timed once more, and only what took longer each
    /// time is slower.
    fn apart(
        &self,
        parts: &[usize],
        plan: &mut ResolvedPlan,
        done: &mut AppliedChanges,
    ) -> Result<Proof, Failure> {
        let mut before = self.before.clone();
        self.time(&self.subject, &mut before)?;
        let subject = done.make(self.args, plan, parts, self.recording)?;
        let mut after =
            waiting(|progress| self.bench.measure(&subject, self.runs(), None, progress))?;
        let proof = Proof::of(before.clone(), after.clone(), self.conditions());
        if self.harm(&proof, plan, parts) != Some(Harm::Slower) || plan.launches(parts) {
            return Ok(proof);
        }
        done.take_back()?;
        self.time(&self.subject, &mut before)?;
        let subject = done.make(self.args, plan, parts, self.recording)?;
        let again = Proof::of(before.clone(), after.clone(), self.conditions());
        if self.harm(&again, plan, parts).is_none() {
            return Ok(again);
        }
        self.time(&subject, &mut after)?;
        Ok(Proof::of(before, after, self.conditions()))
    }

    fn time(&self, subject: &Subject, side: &mut Side) -> Result<(), Failure> {
        waiting(|progress| self.bench.time(subject, side, self.runs(), progress))
    }

    fn runs(&self) -> usize {
        self.args.runs as usize
    }

    fn conditions(&self) -> Conditions {
        let surroundings = self.bench.elsewhere.as_ref().map(|elsewhere| elsewhere.words());
        let warm = surroundings.is_none();
        Conditions { surroundings, warm, ..Conditions::apart() }
    }

    /// What to do once all was taken back. A warm local disk hides what is saved.
    pub fn next(&self, harm: Harm, plan: &ResolvedPlan) -> String {
        match harm {
            Harm::Slower if self.bench.elsewhere.is_none() && plan.launches(&plan.parts()) => {
                again::with(1, &["--rehearse", "nfs"])
            }
            _ => format!("becalm check -- {}", term::shell_line(&self.args.command)),
        }
    }

    /// Why what was changed must not stay; none if it may.
    fn harm(&self, proof: &Proof, plan: &ResolvedPlan, parts: &[usize]) -> Option<Harm> {
        // In an image the command makes the calls that it made, and `becalm run` its own.
        let operations = match (proof.counts.rpcs, plan.mounts(parts)) {
            (None, true) => CountChange::Unclear,
            _ => proof.counts.judged_by(),
        };
        match proof.harm(operations) {
            Some(Harm::Slower) if is_made_up_for(proof, plan, parts) => match operations {
                CountChange::More => Some(Harm::MoreOperations),
                _ => None,
            },
            harm => harm,
        }
    }
}

/// Whether what `becalm run` takes on this machine, warm, is less than what the start is predicted
/// to wait less for the shared filesystem: no local disk shows that.
pub(super) fn is_made_up_for(proof: &Proof, plan: &ResolvedPlan, parts: &[usize]) -> bool {
    proof.counts.rpcs.is_none()
        && plan.launches(parts)
        && proof.times.speed == Speed::Slower
        && longer(proof).is_some_and(|longer| longer < plan.saved_seconds(parts))
}

/// The seconds that the middle run takes more.
pub(super) fn longer(proof: &Proof) -> Option<f64> {
    let (before, after) = (proof.times.before.as_ref()?, proof.times.after.as_ref()?);
    Some(after.median - before.median)
}

/// Measures while somebody waits.
fn waiting<T>(
    measure: impl FnOnce(&mut dyn FnMut(ProofProgress)) -> Result<T, prove::ProofError>,
) -> Result<T, Failure> {
    let waiting = term::ProgressBar::new();
    let measured = measure(&mut |step| {
        waiting.tell("running", step.done as u64, step.of as u64);
    });
    measured.map_err(of_proof)
}
