//! The cures chosen for one command, this user and this machine: what `becalm check` names and
//! `becalm fix` applies.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use explain::{ExplainOptions, Finding, Findings, SourcePath, Storm};
use loader::bind::{BindOptions, BindProgress, Binding};
use recording::{Name, Recording};

use crate::binding::{belongs_to_the_system, loaded};
use crate::cure::{Cure, CureChange, RefusedCure, StormCures};
use crate::loader::BoundFiles;
use crate::machine::Machine;
use crate::prediction::{CureEffect, CurePrediction, StartPredictor};
use crate::{
    configuration, files, fork, loader as loader_storm, locale, modules, path, python, read_ahead,
    repeat, search_list, walk,
};

/// How cures are chosen.
pub struct CureOptions<'o> {
    /// The shared filesystem, and how many ranks start on it.
    pub explain: &'o ExplainOptions,
    /// How files are bound.
    pub bind: BindOptions,
    /// What is told while binding is simulated.
    pub progress: &'o (dyn Fn(BindProgress) + Sync),
}

impl<'o> CureOptions<'o> {
    /// Files are bound as `becalm fix` does by default, and nothing is told meanwhile.
    pub fn new(explain: &'o ExplainOptions) -> CureOptions<'o> {
        CureOptions { explain, bind: BindOptions::default(), progress: &|_| {} }
    }
}

/// What cures are made from.
pub(crate) struct PlanInput<'i> {
    pub recording: &'i Recording,
    pub findings: &'i Findings,
    pub machine: &'i Machine,
    pub options: &'i CureOptions<'i>,
    pub predictor: StartPredictor<'i>,
    /// The command as a shell takes it.
    pub line: String,
}

impl PlanInput<'_> {
    /// The command that does what must be done at launch, and remembers it in a calm file.
    pub(crate) fn fix_with_calm_file(&self) -> String {
        let name = calm_file_name(&self.findings.program);
        format!("becalm fix --apply -o {name} -- {}", self.line)
    }

    /// What a calm file would have to say for this cure, and cannot: it is text.
    fn no_text(&self, cure: &Cure) -> Option<Name> {
        let files: &[SourcePath] = match &cure.change {
            CureChange::ShowBoundCopies { files } => files,
            CureChange::MountImage { directories } => directories,
            change if change.is_of_launch() => &[],
            _ => return None,
        };
        let words = self.recording.header.command().into_iter();
        let mut all = words.chain(files.iter().map(|file| file.name.clone()));
        all.find(|name| std::str::from_utf8(name.bytes()).is_err())
    }

    /// The cures; those that no calm file can hold with the reason, and without the command that
    /// would write one.
    fn told_as_text(&self, mut cures: StormCures) -> StormCures {
        for cure in &mut cures.cures {
            let Some(name) = self.no_text(cure) else { continue };
            cures.not_chosen.push(RefusedCure {
                storm: cure.storm,
                text: cure.text.clone(),
                why: format!(
                    "{} is no UTF-8, which a calm file has to be",
                    term::quoted(OsStr::from_bytes(name.bytes()))
                ),
            });
            cure.command = cure.command.take().filter(|line| !line.starts_with("becalm fix"));
        }
        cures
    }
}

/// What the calm file of a program is called, where nothing else is said.
pub fn calm_file_name(program: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._+-".contains(char);
    let program = program.split(' ').next().unwrap_or_default();
    let is_name = !program.is_empty() && !program.starts_with(['-', '.']);
    match is_name && program.chars().all(is_plain) {
        true => format!("{program}.calm"),
        false => "command.calm".to_owned(),
    }
}

/// The cures chosen for one command, and all that there are.
#[derive(Debug, Default)]
pub struct CurePlan {
    /// What can be done about each storm, in the order of the findings.
    pub storms: Vec<(Storm, StormCures)>,
    /// What `becalm fix --apply` does for this user, in the order in which it is applied: of each
    /// storm one cure at most, and none twice.
    pub chosen: Vec<Cure>,
    /// What `becalm fix` does beyond that where it is told to, storm or not.
    pub further: Option<Cure>,
    /// The start before and after all of it; none where nothing is chosen.
    pub predicted: Option<CurePrediction>,
    /// How files are bound in place; empty where they are not.
    pub in_place: Binding,
    /// How copies of files are bound, to be shown in their place; empty where they are not.
    pub copies: Binding,
    /// Files of the operating system, which are left alone: its package manager would put them back.
    pub of_the_system: Vec<SourcePath>,
    /// What the image serves of this start.
    served: TakenAway,
}

/// Metadata operations of a start that something takes away from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenAway {
    /// Metadata operations.
    pub metadata_ops: u64,
    /// Of those, failed lookups.
    pub enoent: u64,
}

impl CurePlan {
    /// What would calm the start that was recorded. Files are bound where a tenth of the start is
    /// gained by it, storm or not.
    pub fn of(
        recording: &Recording,
        findings: &Findings,
        machine: &Machine,
        options: &CureOptions,
    ) -> CurePlan {
        let Some(line) = recording.header.command_line() else { return CurePlan::default() };
        let predictor = StartPredictor::new(recording, findings, options.explain);
        let input = PlanInput { recording, findings, machine, options, predictor, line };
        let bound = BoundFiles::of(&input);
        let cures =
            |finding: &Finding| (finding.storm, input.told_as_text(cures(&input, finding, &bound)));
        let storms: Vec<_> = findings.storms.iter().map(cures).collect();
        let (chosen, predicted) = chosen(&input, &storms, &bound);
        let further = bound.cures.iter().find(|cure| cure.goes_further()).cloned();
        let BoundFiles { mut in_place, copies, .. } = bound;
        let is_chosen = |is: fn(&CureChange) -> bool| chosen.iter().any(|cure| is(&cure.change));
        if !is_chosen(|change| matches!(change, CureChange::BindFiles { .. })) {
            // Why files are left out stays.
            let (left_out, barred) = (std::mem::take(&mut in_place.left_out), in_place.barred);
            in_place = Binding { left_out, barred, calm: in_place.calm, ..Binding::default() };
        }
        let shows = is_chosen(|change| matches!(change, CureChange::ShowBoundCopies { .. }));
        let mut plan = CurePlan {
            copies: if shows { copies } else { Binding::default() },
            storms,
            chosen,
            further,
            predicted,
            in_place,
            of_the_system: loaded(recording, belongs_to_the_system),
            served: TakenAway::default(),
        };
        let directories: Vec<PathBuf> =
            plan.image().map(|(directories, _)| directories).unwrap_or_default();
        let (metadata_ops, enoent) = python::served(recording, &directories);
        plan.served = TakenAway { metadata_ops, enoent };
        plan
    }

    /// Whether `becalm fix` has nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// Whether something of it is done each time the command is launched: a calm file holds it.
    pub fn changes_launch(&self) -> bool {
        self.chosen.iter().any(|cure| cure.change.is_of_launch())
    }

    /// What can be done about a storm.
    pub fn of_storm(&self, storm: Storm) -> Option<&StormCures> {
        self.storms.iter().find(|(known, _)| *known == storm).map(|(_, cures)| cures)
    }

    /// The directories that one image is built of, and what it serves of the start.
    pub fn image(&self) -> Option<(Vec<PathBuf>, TakenAway)> {
        let of_cure = |cure: &'_ Cure| match &cure.change {
            CureChange::MountImage { directories } => directories.clone(),
            _ => Vec::new(),
        };
        let mut paths: Vec<PathBuf> = Vec::new();
        for directory in self.chosen.iter().flat_map(of_cure) {
            // Of two storms' directories, one may lie in the other.
            let path = directory.path();
            if !paths.iter().any(|known| path.starts_with(known)) {
                paths.retain(|known| !known.starts_with(path));
                paths.push(path.to_owned());
            }
        }
        (!paths.is_empty()).then_some((paths, self.served))
    }

    /// Whether the command is launched with builtins for bash.
    pub fn runs_builtins(&self) -> bool {
        self.chosen.iter().any(|cure| matches!(cure.change, CureChange::RunBuiltins { .. }))
    }

    /// The environment variables that the command is launched with.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.chosen.iter().filter_map(|cure| match &cure.change {
            CureChange::SetVariable { variable, value } => Some((&**variable, &**value)),
            _ => None,
        })
    }
}

/// Of each storm the first cure that can be applied for this user, and the binding of files, storm
/// or not; the one that takes away most first. What the others have taken away already, none has to:
/// an image serves the libraries in it, bound or not.
fn chosen(
    input: &PlanInput,
    storms: &[(Storm, StormCures)],
    bound: &BoundFiles,
) -> (Vec<Cure>, Option<CurePrediction>) {
    let can_be = |cure: &&Cure| cure.is_appliable() && input.no_text(cure).is_none();
    let first = |cures: &[Cure]| cures.iter().find(can_be).cloned();
    let of_storms = storms.iter().filter_map(|(_, all)| first(&all.cures));
    let mut all: Vec<Cure> = of_storms.chain(first(&bound.cures)).collect();
    all.sort_by_key(|cure| std::cmp::Reverse(cure.predicted.spared()));
    let mut chosen: Vec<Cure> = Vec::new();
    let (mut effect, mut predicted) = (CureEffect::default(), None::<CurePrediction>);
    let mounts = |cure: &Cure| matches!(cure.change, CureChange::MountImage { .. });
    for cure in all {
        // A launch mounts one image.
        if mounts(&cure) && chosen.iter().any(mounts) {
            continue;
        }
        let mut both = effect.clone();
        both.join(&cure.effect);
        let with = input.predictor.predict(&both);
        let before = predicted.map_or(with.before, |so_far| so_far.after);
        let more = CurePrediction { before, ..with };
        if more.is_worth_it() {
            (effect, predicted) = (both, Some(with));
            chosen.push(cure);
        }
    }
    // Files are bound before an image of them is built.
    chosen.sort_by_key(|cure| cure.change.is_of_launch());
    (chosen, predicted)
}

fn cures(input: &PlanInput, finding: &Finding, bound: &BoundFiles) -> StormCures {
    match finding.storm {
        Storm::Loader | Storm::Dlopen => loader_storm::cures(input, finding, bound),
        Storm::Python => python::cures(input, finding),
        Storm::Modules => modules::cures(input, finding),
        Storm::Fork => fork::cures(input, finding),
        Storm::Locale => locale::cures(input, finding),
        Storm::Path => path::cures(input, finding),
        Storm::SearchList => search_list::cures(input, finding),
        Storm::Repeat => repeat::cures(input, finding),
        Storm::Walk => walk::cures(input, finding),
        Storm::Files => files::cures(input, finding),
        Storm::Configuration => configuration::cures(input, finding),
        Storm::Data => read_ahead::cures(input, finding),
    }
}
