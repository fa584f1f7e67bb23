//! Configuration cascades: the same configuration looked for in one place after the other, the
//! system's, the site's, the user's, the project's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use recording::{Cause, Kind, Name, ProcessId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey};
use crate::tally::{OpCount, OpTally};
use crate::words::{count, counted, operations};

/// A name that is looked for in fewer places is a file.
const PLACES: usize = 3;
/// How many configurations are named.
const NAMED: usize = 4;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ConfigurationSource {
    /// One configuration.
    Configuration {
        /// Its name, without the dot that a home directory's files begin with: `gitconfig`.
        configuration: Name,
        /// The program that looks for it most.
        program: String,
        /// How many directories it was looked for in.
        directories: u64,
        /// Where it is: each place once.
        found: Vec<SourcePath>,
        /// Metadata operations.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
    },
}

impl ConfigurationSource {
    pub(super) fn sentence(&self) -> String {
        let ConfigurationSource::Configuration {
            configuration,
            program,
            directories,
            found,
            metadata_ops,
            enoent,
        } = self;
        let found = match &found[..] {
            [] => "it is in none of them".to_owned(),
            [only] => format!("it is {only}"),
            [first, rest @ ..] => format!("it is {first} and {} more", count(rest.len() as u64)),
        };
        format!(
            "{program} looked for {configuration} in {}: {}, {} of these failed; {found}",
            counted(*directories, "directory", "directories"),
            operations(*metadata_ops),
            count(*enoent),
        )
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let found = Cascades::find(survey);
    let by_ops = found.by_ops();
    let (worst, first) = by_ops.first()?;
    let others = match by_ops.len() as u64 - 1 {
        0 => String::new(),
        others => format!(", and {} likewise", counted(others, "other", "others")),
    };
    Some(DetectedStorm {
        storm: Storm::Configuration,
        title: format!(
            "the configuration {} was looked for in {}{others}",
            recording::shown(worst),
            counted(first.directories.len() as u64, "directory", "directories"),
        ),
        cause: "a program looks for its configuration in each place that may have one, whether it \
                is there or not"
            .to_owned(),
        observed: format!(
            "names that configuration has, asked for in {PLACES} directories or more by one \
             process, in some of them in vain: inferred from the path"
        ),
        avoidable: found.avoidable,
        inferred: Some(found.claim.len() as u64),
        time: None,
        sources: found.sources(survey).into_iter().map(StormSource::Configuration).collect(),
        evidence: "prefix",
        claim: found.claim,
    })
}

/// One configuration and all lookups of it.
#[derive(Default)]
struct Cascade<'a> {
    directories: BTreeSet<&'a [u8]>,
    found: BTreeMap<&'a [u8], OpId>,
    counted: OpCount,
    ops: Vec<OpId>,
}

#[derive(Default)]
struct Cascades<'a> {
    claim: Vec<OpId>,
    /// Failed lookups.
    avoidable: u64,
    names: BTreeMap<&'a [u8], Cascade<'a>>,
}

impl<'a> Cascades<'a> {
    fn find(survey: &OpSurvey<'a>) -> Cascades<'a> {
        let mut groups: HashMap<(ProcessId, &[u8]), Cascade> = HashMap::new();
        for (id, op) in survey.free() {
            let Some(name) = configuration(&op) else { continue };
            let cascade = groups.entry((op.process(), name)).or_default();
            cascade.add(id, &op);
        }
        let mut all = Cascades::default();
        for ((_, name), cascade) in groups {
            if cascade.directories.len() < PLACES || cascade.counted.failed == 0 {
                continue;
            }
            all.avoidable += cascade.counted.failed;
            let known = all.names.entry(name).or_default();
            for id in cascade.ops {
                all.claim.push(id);
                known.add(id, &survey.op(id));
            }
        }
        all.claim.sort_unstable();
        all
    }

    fn by_ops(&self) -> Vec<(&'a [u8], &Cascade<'a>)> {
        let mut sorted: Vec<_> = self.names.iter().map(|(name, one)| (*name, one)).collect();
        sorted.sort_by_key(|(_, cascade)| std::cmp::Reverse(cascade.counted.ops));
        sorted
    }

    fn sources(&self, survey: &OpSurvey) -> Vec<ConfigurationSource> {
        let source = |(name, cascade): (&[u8], &Cascade)| {
            let mut programs = OpTally::default();
            cascade.ops.iter().for_each(|id| programs.add(survey.op(*id).program, false));
            let program = programs.top().map(|(program, _)| survey.full_name(program));
            let found = cascade.found.values().filter_map(|id| survey.op(*id).path_id);
            ConfigurationSource::Configuration {
                configuration: survey.name_of(name),
                program: program.unwrap_or("a process").to_owned(),
                directories: cascade.directories.len() as u64,
                found: found.map(|path| survey.source_clean_path(path)).collect(),
                metadata_ops: cascade.counted.ops,
                enoent: cascade.counted.failed,
            }
        };
        self.by_ops().into_iter().take(NAMED).map(source).collect()
    }
}

impl<'a> Cascade<'a> {
    fn add(&mut self, id: OpId, op: &MetadataOp<'a>) {
        self.directories.insert(op.split().0);
        self.counted.add(op.is_enoent());
        self.ops.push(id);
        if op.succeeded() {
            self.found.entry(op.path).or_insert(id);
        }
    }
}

/// The name of the configuration that an operation asks for; none where it asks for something else.
///
/// That it is configuration is said by the directory (XDG Base Directory Specification: `.config`,
/// `/etc/xdg`; FHS: `/etc`), or by the name: `…rc`, `….conf`, `….cfg`, `….ini`, `…config`.
fn configuration<'a>(op: &MetadataOp<'a>) -> Option<&'a [u8]> {
    let is_lookup =
        matches!(op.kind, Kind::Open | Kind::Stat | Kind::Access) && !op.event.is_listing();
    let is_others = matches!(op.why.cause, Cause::Nss | Cause::Locale | Cause::PythonImport);
    if !is_lookup || op.event.in_loader || is_others || op.event.is_change() {
        return None;
    }
    let (directory, name) = op.split();
    let plain = name.strip_prefix(b".").unwrap_or(name);
    (!plain.is_empty() && (is_configuration(plain) || is_of_xdg(directory))).then_some(plain)
}

fn is_configuration(name: &[u8]) -> bool {
    const ENDS: [&[u8]; 5] = [b"rc", b".conf", b".cfg", b".ini", b"config"];
    ENDS.iter().any(|end| name.ends_with(end))
}

fn is_of_xdg(directory: &[u8]) -> bool {
    let mut parts = directory.split(|byte| *byte == b'/');
    directory.starts_with(b"/etc/xdg") || parts.any(|part| part == b".config")
}
