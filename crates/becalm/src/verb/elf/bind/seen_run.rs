//! A run whose loads are bound: one that is made now, or one that was recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cure::SeenStarts;
use launch::Ended;
use loader::bind::UnboundFile;
use recording::Recording;
use watch::Finished;

use super::ElfBindArgs;
use crate::exit::Failure;
use crate::{load, recorded};

/// What was seen of a run.
pub struct SeenRun {
    /// How its programs started and went on.
    pub starts: SeenStarts,
    /// What they loaded that is there and not the system's.
    pub loaded: Vec<PathBuf>,
}

/// The run that is asked for; none, where none is.
pub fn of(args: &ElfBindArgs) -> Result<Option<SeenRun>, Failure> {
    let recording = match &args.recording {
        Some(file) => load::load(file)?,
        None if args.run => {
            // The command may take hours.
            for path in args.paths() {
                path.metadata().with_context(|| term::quoted_path(&path))?;
            }
            let (recording, finished) = recorded::and_read(&recorded::RecordRequest {
                calls: watch::WatchedCalls::MetadataOnly,
                ..recorded::RecordRequest::of(&args.command)
            })?;
            recorded::say_what_is_missing(&finished);
            was_not_interrupted(&finished)?;
            recording
        }
        None => return Ok(None),
    };
    Ok(Some(SeenRun::of(&recording)))
}

/// Nothing is bound because of a command that somebody has stopped, or that has crashed: who presses
/// Ctrl-C means both.
fn was_not_interrupted(finished: &Finished) -> Result<(), Failure> {
    let (status, how) = match finished.ended {
        Ended::Exited(0) => return Ok(()),
        Ended::Exited(status @ (SIGHUP_STATUS | SIGINT_STATUS | SIGTERM_STATUS)) => {
            (status, format!("with status {status}"))
        }
        Ended::Exited(status) => {
            term::warn(&format!(
                "the command ended with status {status}; what it opened until then is bound"
            ));
            return Ok(());
        }
        Ended::Signaled(signal) => (128 + signal as u8, format!("by signal {signal}")),
    };
    Err(Failure { status, error: anyhow!("the command ended {how}: nothing is bound") })
}

/// With what shells end that SIGHUP, SIGINT or SIGTERM has ended, and programs that catch these.
const SIGHUP_STATUS: u8 = 128 + 1;
const SIGINT_STATUS: u8 = 128 + 2;
const SIGTERM_STATUS: u8 = 128 + 15;

impl SeenRun {
    fn of(recording: &Recording) -> SeenRun {
        SeenRun { starts: cure::seen_starts(recording), loaded: cure::loaded_files(recording) }
    }

    /// Programs of which it is not known what they opened.
    pub fn left_out(&self) -> impl Iterator<Item = UnboundFile> {
        self.starts.unexplained.iter().map(|(path, why)| UnboundFile {
            path: path.clone(),
            reason: format!("what it opened while it ran is not bound: {why}"),
        })
    }
}

/// The trees that files lie in, few of them, with how many lie in each: what a run loaded may lie where
/// nobody thinks of, as an interpreter's own files do.
pub fn trees(files: &[&Path]) -> Vec<(PathBuf, usize)> {
    const MOST: usize = 6;
    let deepest = files.iter().map(|file| file.components().count()).max().unwrap_or_default();
    let by_depth = (1..deepest).map(|depth| {
        let mut trees: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for file in files {
            let directory = file.parent().unwrap_or(file);
            *trees.entry(directory.components().take(depth).collect()).or_default() += 1;
        }
        trees
    });
    // Deeper, there are as many or more.
    let few = by_depth.take_while(|trees| trees.len() <= MOST).last();
    few.unwrap_or_default().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_the_few_trees_that_they_lie_in() {
        let files = ["/opt/py/bin/python", "/opt/py/lib/a.so", "/home/me/venv/lib/b.so"];
        let files = files.map(Path::new);
        let told = trees(&files);
        let expected = [("/home/me/venv/lib", 1), ("/opt/py/bin", 1), ("/opt/py/lib", 1)];
        assert_eq!(told, expected.map(|(tree, count)| (PathBuf::from(tree), count)));
        let many: Vec<PathBuf> =
            (0..20).map(|number| format!("/venv/lib/{number}/it.so").into()).collect();
        let many: Vec<&Path> = many.iter().map(PathBuf::as_path).collect();
        assert_eq!(trees(&many), [(PathBuf::from("/venv/lib"), 20)]);
        assert_eq!(trees(&[]), []);
    }
}
