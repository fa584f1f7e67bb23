//! The module tool walks a modulepath: its own cache where it has one that can be trusted, else
//! becalm's index.
//!
//! What to do depends on the release of Modules, on who may write there and on what is private.
//! `load` walks nothing: a cache makes it slower, and the index leaves it alone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use explain::{Finding, ModuleTool, ModulesSource, SourcePath, Storm, StormSource};
use recording::query::clean;
use recording::{Attributor, Cause, Exec, PathId, Recording};
use term::{quoted, shell_line};

use crate::cure::{CloserLook, Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::machine::ModuleCure;
use crate::plan::PlanInput;
use crate::prediction::CureEffect;
use crate::python::to_path;

/// What becalm asks for itself when it answers from an index.
const ANSWER: u64 = 20;
/// What Modules looks at to take a cache.
const CACHE: u64 = 3;

pub(crate) fn cures(input: &PlanInput, finding: &Finding) -> StormCures {
    let is_lmod = finding.sources.iter().any(|source| {
        matches!(
            source,
            StormSource::Modules(ModulesSource::Modulefiles { tool: ModuleTool::Lmod, .. })
        )
    });
    let modulepaths = walked(finding);
    let mut all = StormCures::default();
    if is_lmod {
        all.not_chosen
            .push(refused("becalm modules calm", "it is of Environment Modules, and this is Lmod"));
        all.looks.push(CloserLook {
            storm: Storm::Modules,
            text: "Lmod reads a cache of its own where its lmodrc.lua names a directory for it; \
                   becalm modules cache build --lmod has it built and checked"
                .to_owned(),
            command: None,
        });
        return all;
    }
    let Some(worst) = modulepaths.first() else { return all };
    match cure(input, &modulepaths) {
        Some(cure) if cure.predicted.is_worth_it() => all.cures.push(cure),
        Some(cure) => all.not_chosen.push(RefusedCure {
            storm: Storm::Modules,
            text: "An index of the modulepath".to_owned(),
            why: cure.predicted.too_little(),
        }),
        None => {}
    }
    let builds_cache = |cure: &Cure| matches!(cure.change, CureChange::BuildModuleCache { .. });
    if !all.cures.iter().any(builds_cache) {
        all.not_chosen.push(refused(
            "module cachebuild",
            "it takes Modules 5.3, a modulepath that is yours to write, nothing in it that is private \
             (a cache shows all that its builder could read), and ignore_cache_subcmds: else load reads \
             all of it",
        ));
    }
    all.looks.push(CloserLook {
        storm: Storm::Modules,
        text: "See what commands cost there, and which steps would help (status 1: there are some)"
            .to_owned(),
        command: Some(format!("becalm modules status {}", quoted(worst.path()))),
    });
    all
}

/// The modulepaths, the worst first; those with next to nothing in them left out.
fn walked(finding: &Finding) -> Vec<&SourcePath> {
    let each = finding.sources.iter().filter_map(|source| match source {
        StormSource::Modules(ModulesSource::Modulepath { directory, metadata_ops, .. }) => {
            Some((directory, *metadata_ops))
        }
        _ => None,
    });
    let most = each.clone().map(|(_, metadata_ops)| metadata_ops).max().unwrap_or(0);
    let walked = each.filter(|(_, metadata_ops)| metadata_ops * 10 >= most);
    walked.map(|(directory, _)| directory).collect()
}

fn refused(text: &str, why: &str) -> RefusedCure {
    RefusedCure { storm: Storm::Modules, text: text.to_owned(), why: why.to_owned() }
}

fn cure(input: &PlanInput, modulepaths: &[&SourcePath]) -> Option<Cure> {
    let kind = |path: &SourcePath| (input.machine.module_cure)(path.path());
    let of = kind(modulepaths.first()?);
    let modulepaths = modulepaths.iter().filter(|path| kind(path) == of);
    let modulepaths: Vec<SourcePath> = modulepaths.map(|path| (*path).clone()).collect();
    let paths: Vec<PathBuf> = modulepaths.iter().map(|path| path.path().to_owned()).collect();
    let names = shell_line(&paths);
    let walks = AvailWalks::of(input.recording, &paths);
    let (text, command, change, risk, effect) = match of {
        ModuleCure::Unknown => return None,
        ModuleCure::Cache => (
            "Calm the modulepath: a cache of Modules, checked, which then reads one file in place of \
             the tree; becalm modules status says when it is stale",
            format!("becalm modules calm --apply {names}"),
            CureChange::BuildModuleCache { modulepaths },
            "a module that is added later is not seen until the cache is built anew, and module \
             load reads it, too",
            walks.with_cache(paths.len() as u64),
        ),
        ModuleCure::Index { shell } => (
            "Calm the modulepath, and have this shell ask its index first: what it cannot answer to \
             the byte is left to Modules",
            format!("becalm modules calm --apply {names} && {}", hook(shell)),
            CureChange::IndexModules { modulepaths },
            "none of what is shown changes; rc files and strays that only cost are moved, and a file \
             for shells is written, without --apply it says which; becalm undo takes all of it back; \
             a script that sets module up itself needs the hook after that line",
            walks.with_index(),
        ),
    };
    Some(Cure {
        storm: Storm::Modules,
        text: text.to_owned(),
        command: Some(command),
        actor: CureActor::You,
        owner: None,
        change,
        risk: Some(risk.to_owned()),
        predicted: input.predictor.predict(&effect),
        effect,
    })
}

/// What a shell evaluates to ask becalm first.
fn hook(shell: &str) -> String {
    match shell {
        "fish" => "becalm modules hook fish | source".to_owned(),
        "csh" => "eval \"`becalm modules hook csh`\"".to_owned(),
        shell => format!("eval \"$(becalm modules hook {shell})\""),
    }
}

/// The calls of every `module avail` of a start.
struct AvailWalks {
    /// Below the modulepaths, by path, in their order.
    below: Vec<(usize, Option<PathId>)>,
    /// What the tool reads for itself.
    own: Vec<usize>,
    /// How many times it is run.
    times: u64,
}

impl AvailWalks {
    fn of(recording: &Recording, modulepaths: &[PathBuf]) -> AvailWalks {
        let mut attributor = Attributor::new(recording);
        let mut walks = AvailWalks { below: Vec::new(), own: Vec::new(), times: 0 };
        let execs = recording.processes.iter().flat_map(|process| &process.execs);
        walks.times = execs.filter(|exec| is_avail(exec)).count() as u64;
        for (number, event) in recording.events.iter().enumerate() {
            if !event.is_metadata() || attributor.attribute(event).cause != Cause::ModuleTool {
                continue;
            }
            let exec = attributor.program(event.process, event.start);
            if !exec.is_some_and(is_avail) {
                continue;
            }
            let is_below = event.path.is_some_and(|path| {
                let path = clean(recording.path(path)).into_owned();
                modulepaths.iter().any(|modulepath| Path::starts_with(to_path(&path), modulepath))
            });
            match is_below {
                true => walks.below.push((number, event.path.filter(|_| !event.outcome.failed()))),
                false => walks.own.push(number),
            }
        }
        walks
    }

    /// Modules starts as before, and looks at one file a modulepath.
    fn with_cache(&self, modulepaths: u64) -> CureEffect {
        let added = self.times * modulepaths * CACHE;
        CureEffect { added, ..CureEffect::of(self.below.iter().map(|(number, _)| *number)) }
    }

    /// Modules does not start; each directory, rc file and modulefile is looked at once.
    fn with_index(&self) -> CureEffect {
        let mut seen = HashSet::new();
        let again = |(number, path): &(usize, Option<PathId>)| {
            let is_first = path.is_some_and(|path| seen.insert(path));
            (!is_first).then_some(*number)
        };
        let below = self.below.iter().filter_map(again);
        let taken = below.chain(self.own.iter().copied());
        CureEffect { added: self.times * ANSWER, ..CureEffect::of(taken) }
    }
}

fn is_avail(exec: &Exec) -> bool {
    exec.argv.iter().any(|word| word == "avail" || word == "av")
}
