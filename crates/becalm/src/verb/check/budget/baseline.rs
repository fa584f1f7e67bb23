//! What a start is compared with: what `becalm check --json=FILE` wrote, or a recording.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use recording::query::clean;
use recording::{Blind, ExitStatus, Name, shown_name};
use serde::Deserialize;
use serde_json::Value;

use super::counts::StartCounts;

/// No answer of `becalm check` is larger.
const LARGEST: u64 = 256 << 20;

/// No start has more of anything; sums of them fit into 64 bits.
const MOST: u64 = 1 << 40;

/// The warnings of an answer that was not counted to its end.
const NOT_WHOLE: [&str; 5] = ["cut", "io_uring", "own_filter", "lost", "request_failed"];

/// A start of before.
pub struct Baseline {
    /// The file that it is from.
    pub file: PathBuf,
    /// The command.
    pub command: Vec<Name>,
    /// The machine.
    pub host: String,
    /// Its kernel's release.
    pub kernel: String,
    /// Processes.
    pub processes: u64,
    /// How its command failed, in words; none where it ended with 0.
    pub failed: Option<String>,
    /// What else was counted.
    pub counts: StartCounts,
    /// Every path that was asked for; none where an answer does not have them.
    paths: Option<HashSet<Box<[u8]>>>,
}

#[derive(Deserialize)]
struct CheckedBefore {
    command: Vec<Name>,
    host: String,
    kernel: String,
    totals: TotalsBefore,
    warnings: Vec<Value>,
    counts: StartCounts,
}

#[derive(Deserialize)]
struct TotalsBefore {
    processes: u64,
    status: Option<ExitStatus>,
}

impl Baseline {
    /// Reads it.
    ///
    /// # Errors
    /// It is neither, or was not counted to its end; in one line.
    pub fn read(file: &Path) -> anyhow::Result<Baseline> {
        let named = || term::plain(&file.to_string_lossy());
        // A pipe would be waited for, and can be read only once.
        if file.metadata().is_ok_and(|there| !there.is_file()) {
            bail!(
                "{}: it is no regular file; give one that check --json=FILE or -o wrote",
                named()
            );
        }
        match is_object(file) {
            true => Baseline::of_answer(file).with_context(named),
            false => Baseline::of_recording(file),
        }
    }

    fn of_answer(file: &Path) -> anyhow::Result<Baseline> {
        let mut text = String::new();
        File::open(file)?.take(LARGEST).read_to_string(&mut text)?;
        let answer: Value = serde_json::from_str(&text).context("it is no JSON object")?;
        if answer["schema"] != "becalm.check/1" {
            bail!(
                "it is no answer of becalm check; make one with: becalm check --json=FILE -- CMD"
            );
        }
        if answer["counts"].is_null() {
            bail!(
                "it has no counts to compare with; make it anew: becalm check --json=FILE -- CMD"
            );
        }
        let before: CheckedBefore =
            serde_json::from_value(answer).context("it is damaged; make it anew")?;
        if before.counts.rows.iter().any(|row| row.number.max(row.failed) > MOST) {
            bail!("it is damaged: no start has so many; make it anew");
        }
        let flaws = before.warnings.iter().filter_map(|warning| warning["kind"].as_str());
        if let Some(flaw) = flaws.into_iter().find(|kind| NOT_WHOLE.contains(kind)) {
            bail!("it was not counted to its end ({flaw}): nothing can be compared with it");
        }
        Ok(Baseline {
            file: file.to_owned(),
            command: before.command,
            host: before.host,
            kernel: before.kernel,
            processes: before.totals.processes,
            failed: before.totals.status.and_then(ExitStatus::failure),
            counts: before.counts,
            paths: None,
        })
    }

    fn of_recording(file: &Path) -> anyhow::Result<Baseline> {
        let recording = crate::load::load(file)?;
        if recording.cut.is_some() || recording.blinds.iter().any(Blind::hides_calls) {
            let file = term::plain(&shown_name(file));
            bail!("{file}: it was not recorded to its end: nothing can be compared with it");
        }
        let asked = recording.events.iter().filter(|event| event.is_metadata());
        let mut is_asked = vec![false; recording.path_count()];
        asked.filter_map(|event| event.path).for_each(|path| is_asked[path.0 as usize] = true);
        let paths = recording.paths().zip(is_asked).filter(|(_, is_asked)| *is_asked);
        let paths: HashSet<Box<[u8]>> = paths.map(|(path, _)| clean(path).into()).collect();
        Ok(Baseline {
            file: file.to_owned(),
            command: recording.header.command(),
            host: recording.header.host.clone(),
            kernel: recording.header.kernel.clone(),
            processes: recording.processes.len() as u64,
            failed: recording.processes.first().and_then(|first| first.end?.status.failure()),
            counts: StartCounts::of(&recording),
            paths: Some(paths),
        })
    }

    /// That it is of this program: another has nothing in common with it. The same program may lie
    /// elsewhere, as that of another version does.
    ///
    /// # Errors
    /// It is of another.
    pub fn must_be_of(&self, command: &[OsString]) -> anyhow::Result<()> {
        let name = |word: Option<&OsStr>| {
            word.and_then(|word| Path::new(word).file_name().map(OsStr::to_owned))
        };
        let (before, now) = (
            name(self.command.first().map(AsRef::as_ref)),
            name(command.first().map(AsRef::as_ref)),
        );
        if before != now {
            let shown = |name: Option<OsString>| shown_name(name.unwrap_or_default());
            let file = term::plain(&shown_name(&self.file));
            bail!("{file}: it is of {}, not of {}", shown(before), shown(now));
        }
        Ok(())
    }

    /// Whether it knows each path that was asked for.
    pub fn has_paths(&self) -> bool {
        self.paths.is_some()
    }

    /// Whether a path is known to have been asked for by nobody.
    pub fn never_asked_for(&self, path: &[u8]) -> bool {
        self.paths.as_ref().is_some_and(|paths| !paths.contains(&*clean(path)))
    }
}

/// Whether a file begins as a JSON object does; one that cannot be read is left to who says why.
fn is_object(file: &Path) -> bool {
    let mut start = [0; 64];
    let read = File::open(file).and_then(|mut file| file.read(&mut start));
    let start = &start[..read.unwrap_or_default()];
    start.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}
