//! The whole as JSON: docs/schema/becalm.fix.md.

use cost::PredictedWait;
use cure::{Cure, CurePrediction, RefusedCure};
use explain::WaitModel;
use prove::{Harm, Proof};
use recording::shown_name;
use schemars::JsonSchema;
use serde::Serialize;

use super::view::{EnvironmentImage, FixAnswer};
use crate::verb::elf::bind::data::ElfBind;
use crate::verb::elf::bind::view::Bound;

/// What `becalm fix --json` answers.
#[derive(Serialize, JsonSchema)]
pub struct FixData<'a> {
    /// `becalm.fix/1`.
    schema: &'static str,
    /// What is done, in this order: at most one a storm.
    cures: &'a [Cure],
    /// The start before and after all of it.
    predicted: Option<&'a CurePrediction>,
    /// Cures that somebody else must do, or that are done by hand.
    others: Vec<&'a Cure>,
    /// What one might think of, and why it is not done.
    not_chosen: Vec<&'a RefusedCure>,
    /// The calm file that is written; null where nothing is done at launch, or nothing of it was
    /// kept.
    calm_file: Option<String>,
    /// Why nobody else can use the calm file; null where everyone can.
    only_you: Option<&'a String>,
    /// The files that are bound in place.
    binding: ElfBind<'a>,
    /// The image of a Python environment that is built.
    image: Option<BuiltImage>,
    /// Why no image is built of an environment that would gain from one.
    no_image: Option<&'a str>,
    /// How the command ended, in words, where it failed: the plan is of what it did up to there.
    failed: Option<&'a str>,
    /// How a wait is predicted.
    model: &'a WaitModel,
    /// What the start waits for the shared filesystem as it is.
    predicted_wait: Option<PredictedWait>,
    /// The same without the calls that the plan takes away; null where there is nothing to do, or
    /// where it cannot be told which calls these are.
    predicted_wait_after: Option<PredictedWait>,
    /// The name in the journal, for `becalm undo`: of files and launch together.
    applied: Option<&'a str>,
    /// The cures that were taken back where others were kept; null without `--apply`.
    dropped: Option<Vec<DroppedCure>>,
    /// Whether all was taken back at once, because of a harm.
    taken_back: bool,
    /// Which; null where it was kept.
    harm: Option<Harm>,
    /// With `--apply`: what was measured.
    proof: Option<&'a Proof>,
}

/// A cure that was taken back.
#[derive(Serialize, JsonSchema)]
struct DroppedCure {
    /// Its number in `cures`, from 0.
    cure: usize,
    /// Why.
    harm: Harm,
}

/// An image of an environment.
#[derive(Serialize, JsonSchema)]
struct BuiltImage {
    /// What it is built of.
    directories: Vec<String>,
    /// The image's file.
    file: String,
    /// Metadata operations of the start that lie below the directories, and that it serves.
    metadata_ops: u64,
    /// Of those, failed lookups.
    enoent: u64,
    /// Files, directories and links in it.
    entries: u64,
    /// Files in it: each once, however many names it has.
    files: u64,
    /// The sum of the files' sizes.
    bytes: u64,
    /// The image's size; null without `--apply`.
    image_bytes: Option<u64>,
    /// Modules whose bytecode was compiled into it; null without `--apply`.
    compiled_modules: Option<u64>,
    /// Programs and libraries that are bound in it; null without `--apply`.
    bound_files: Option<u64>,
}

impl FixAnswer<'_> {
    /// The whole as data.
    pub fn data(&self) -> FixData<'_> {
        let plan = self.plan;
        let harm = self.tried.and_then(|tried| tried.harm);
        let calm = plan
            .calm
            .as_ref()
            .filter(|_| self.tried.is_none_or(|tried| plan.launches(&tried.kept)));
        let all = || plan.cures.storms.iter().map(|(_, cures)| cures);
        let is_other = |cure: &&Cure| !cure.is_appliable() && !cure.goes_further();
        let others = all().flat_map(|all| &all.cures).filter(is_other);
        let others = others.chain(&plan.cures.further);
        FixData {
            schema: "becalm.fix/1",
            cures: &plan.cures.chosen,
            predicted: plan.cures.predicted.as_ref(),
            others: others.collect(),
            not_chosen: all().flat_map(|all| &all.not_chosen).collect(),
            calm_file: calm.map(|calm| shown_name(&calm.shown)),
            only_you: self.only_you(),
            binding: Bound::of(&plan.binding, self.bound()).data(),
            image: plan.image.as_ref().map(BuiltImage::of),
            no_image: plan.no_image.as_deref(),
            failed: plan.failed.as_deref(),
            model: &plan.wait.model,
            predicted_wait: plan.wait.now,
            predicted_wait_after: plan.wait.after,
            applied: self.applied,
            dropped: self.tried.map(|tried| {
                let each = tried.dropped.iter();
                each.map(|&(cure, harm)| DroppedCure { cure, harm }).collect()
            }),
            taken_back: harm.is_some(),
            harm,
            proof: self.tried.map(|tried| &tried.proof),
        }
    }
}

impl BuiltImage {
    fn of(built: &EnvironmentImage) -> BuiltImage {
        BuiltImage {
            directories: built.directories.iter().map(shown_name).collect(),
            file: shown_name(&built.image),
            metadata_ops: built.taken.metadata_ops,
            enoent: built.taken.enoent,
            entries: built.entries,
            files: built.files,
            bytes: built.bytes,
            image_bytes: built.image_bytes,
            compiled_modules: built.healed.as_ref().map(|it| it.bytecode.len() as u64),
            bound_files: built.healed.as_ref().map(|it| it.libraries.len() as u64),
        }
    }
}
