//! Python modules searched over `sys.path`: an image of the environment.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use explain::{Finding, PythonSource, SourcePath, Storm, StormSource};
use recording::Recording;
use term::quoted;

use crate::cure::{CloserLook, Cure, CureActor, CureChange, StormCures, TakenAway};
use crate::machine::Machine;

pub(crate) fn cures(recording: &Recording, finding: &Finding, machine: &Machine) -> StormCures {
    let Some(line) = recording.header.command_line() else { return StormCures::default() };
    let mut all = StormCures::default();
    let look = |text: String, command| CloserLook { storm: Storm::Python, text, command };
    if let Some(image) = image(recording) {
        let text = format!(
            "Nothing to build: becalm ran the command in the image {}, so what lies in it is \
             served on this node; to the shared filesystem's server it is one file",
            recording::shown(image.as_bytes())
        );
        all.looks.push(look(text, None));
    } else if let Some(directory) = worth_an_image(finding, machine) {
        all.cures.push(mount_image(recording, directory, &line));
    }
    let text = "See which import does what, and why".to_owned();
    all.looks.push(look(text, Some(format!("becalm python scan -- {line}"))));
    all
}

/// The environment that an import storm's modules were searched in, if there is one.
pub(crate) fn environment(finding: &Finding) -> Option<(&SourcePath, u64)> {
    finding.sources.iter().find_map(|source| match source {
        StormSource::Python(PythonSource::Environment { directory, metadata_ops }) => {
            Some((directory, *metadata_ops))
        }
        _ => None,
    })
}

/// The environment, where an image of it would serve most of the operations, and can be had.
fn worth_an_image<'f>(finding: &'f Finding, machine: &Machine) -> Option<&'f SourcePath> {
    let (directory, metadata_ops) = environment(finding)?;
    let is_most = metadata_ops * 2 > finding.metadata_ops;
    (is_most && (machine.can_mount_image)(directory.path())).then_some(directory)
}

/// An image of an environment, mounted over it.
pub(crate) fn mount_image(recording: &Recording, directory: &SourcePath, line: &str) -> Cure {
    let prefix = quoted(directory.path());
    Cure {
        storm: Storm::Python,
        text: "Build one image of the environment, in the order of this start, and run the \
               command with it mounted over the directory: that is then one file to the server"
            .to_owned(),
        command: Some(format!(
            "becalm image build -o env.sqsh {prefix} -- {line} && becalm run --image env.sqsh -- \
             {line}"
        )),
        actor: CureActor::Launcher,
        change: CureChange::MountImage { directory: directory.clone() },
        predicted: Some(below(recording, directory)),
    }
}

/// The metadata operations below a directory, as numbers in [`Recording::events`]: with an image
/// mounted there, no server serves them.
pub fn events_below(recording: &Recording, directory: &Path) -> impl Iterator<Item = usize> {
    let path = |path| Path::new(OsStr::from_bytes(recording.path(path)));
    let events = recording.events.iter().enumerate();
    let below = events.filter(move |(_, event)| {
        event.is_metadata() && event.path.is_some_and(|id| path(id).starts_with(directory))
    });
    below.map(|(number, _)| number)
}

/// What an image of a directory takes away.
fn below(recording: &Recording, directory: &SourcePath) -> TakenAway {
    let (mut metadata_ops, mut enoent) = (0, 0);
    for event in events_below(recording, directory.path()) {
        metadata_ops += 1;
        enoent += u64::from(recording.events[event].is_missing());
    }
    TakenAway { metadata_ops, enoent: Some(enoent) }
}

/// The image that `becalm run` had a command of the recording see.
fn image(recording: &Recording) -> Option<&str> {
    let mut execs = recording.processes.iter().flat_map(|process| &process.execs);
    execs.find_map(|exec| {
        let [program, verb, options @ ..] = &exec.argv[..] else { return None };
        if program.rsplit('/').next() != Some("becalm") || verb != "run" {
            return None;
        }
        let mut words = options.iter().map(String::as_str).take_while(|word| *word != "--");
        words.find(|word| word.starts_with("--image") || word.starts_with("--sif")).and_then(
            |word| match word.split_once('=') {
                Some((_, image)) => Some(image),
                None => words.next(),
            },
        )
    })
}
