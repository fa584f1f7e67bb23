//! A campaign's log on the disk. A block is written whole, once it is done: of one that was
//! interrupted nothing is kept, since what ran hours apart is no block.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::plan::CampaignPlan;
use crate::aslr::log::{LoggedProcess, SCHEMA};

/// The log's name in its directory.
const NAME: &str = "campaign.jsonl";
/// No line is longer.
const LONGEST: u64 = 1 << 20;

/// A campaign's log, open to be written on.
#[derive(Debug)]
pub struct Logged {
    /// The plan that it began with.
    pub plan: CampaignPlan,
    /// How many blocks are done.
    pub blocks: u64,
    path: PathBuf,
    file: File,
}

/// Why a campaign cannot be logged there.
#[derive(Debug, thiserror::Error)]
pub enum LoggedError {
    /// A file operation.
    #[error("cannot {doing} {}: {error}", .path.display())]
    File {
        /// What failed.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It goes on in another process.
    #[error("{}: another becalm writes it at this moment", .0.display())]
    Busy(PathBuf),
    /// Another campaign's.
    #[error("{}: is another campaign's: its {what} is not the one given here; choose another directory", .path.display())]
    Other {
        /// The log.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// No log of a campaign.
    #[error("{}, line {line}: is none of a campaign's log; nothing was changed", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
    },
}

/// What is there of a log.
struct ExistingLog {
    plan: CampaignPlan,
    blocks: u64,
    /// Where the last whole block ends.
    end: u64,
}

impl Logged {
    /// Whether this campaign may be logged in a directory: nothing is there, or itself. Changes
    /// nothing.
    ///
    /// # Errors
    /// [`LoggedError`].
    pub fn check(directory: &Path, plan: &CampaignPlan) -> Result<(), LoggedError> {
        let path = directory.join(NAME);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(at("open", &path))?,
        };
        let found = found(&file, &path)?;
        match found.and_then(|found| plan.differs(&found.plan)) {
            Some(what) => Err(LoggedError::Other { path, what }),
            None => Ok(()),
        }
    }

    /// The log in a directory, which is made; one that is there goes on where its last whole block
    /// ends.
    ///
    /// # Errors
    /// [`LoggedError`]; a log that cannot go on is as it was.
    pub fn open(directory: &Path, plan: &CampaignPlan) -> Result<Logged, LoggedError> {
        fs::create_dir_all(directory).map_err(at("create", directory))?;
        let path = directory.join(NAME);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(at("open", &path))?;
        if !is_locked(&file) {
            return Err(LoggedError::Busy(path));
        }
        let found = found(&file, &path)?;
        let mut logged = match found {
            Some(found) => {
                if let Some(what) = plan.differs(&found.plan) {
                    return Err(LoggedError::Other { path, what });
                }
                file.set_len(found.end).map_err(at("shorten", &path))?;
                Logged { plan: found.plan, blocks: found.blocks, path, file }
            }
            None => {
                file.set_len(0).map_err(at("shorten", &path))?;
                Logged { plan: plan.clone(), blocks: 0, path, file }
            }
        };
        logged.file.seek(SeekFrom::End(0)).map_err(at("read", &logged.path))?;
        if logged.is_new()? {
            let line = serde_json::to_vec(&logged.plan).map_err(io::Error::from);
            logged.write(line.map_err(at("write", &logged.path))?)?;
        }
        Ok(logged)
    }

    fn is_new(&self) -> Result<bool, LoggedError> {
        Ok(self.file.metadata().map_err(at("read", &self.path))?.len() == 0)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a block, and waits until it is on the disk.
    ///
    /// # Errors
    /// Those of writing: a full disk.
    pub fn append(&mut self, block: &[LoggedProcess]) -> Result<(), LoggedError> {
        let lines = block.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let lines = lines.map_err(io::Error::from).map_err(at("write", &self.path))?;
        self.write(lines.join("\n").into_bytes())?;
        self.blocks += 1;
        Ok(())
    }

    fn write(&mut self, mut text: Vec<u8>) -> Result<(), LoggedError> {
        text.push(b'\n');
        let done = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        done.map_err(at("write", &self.path))
    }

    /// Writes the same in the published form, beside it: a file for each arm.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn publish(&self) -> Result<(), LoggedError> {
        let mut files = BTreeMap::new();
        for arm in &self.plan.arms {
            let path = self.path.with_file_name(format!("{}.log", arm.name()));
            let file = File::create(&path).map_err(at("create", &path))?;
            files.insert(arm.name().to_owned(), (path, BufWriter::new(file)));
        }
        let file = File::open(&self.path).map_err(at("read", &self.path))?;
        for line in BufReader::new(file).lines().skip(1) {
            let line = line.map_err(at("read", &self.path))?;
            let Ok(process) = serde_json::from_str::<LoggedProcess>(&line) else { continue };
            if let Some((path, out)) = files.get_mut(&process.arm) {
                writeln!(out, "{}", published(&process)).map_err(at("write", path))?;
            }
        }
        for (path, mut out) in files.into_values() {
            out.flush().map_err(at("write", &path))?;
        }
        Ok(())
    }
}

/// A process as the published test prints it.
fn published(process: &LoggedProcess) -> String {
    let LoggedProcess { rank, min, max, avg, stddev, job, .. } = process;
    let node = process.node.as_deref().unwrap_or("-");
    let mut line =
        format!("CT: {rank} {min:.9} {max:.9} {avg:.9} {stddev:.9} : job={job} node={node}");
    if let Some(last) = process.cpu {
        let first = process.first_cpu.map(|first| format!("{first},")).unwrap_or_default();
        line += &format!(" cpu={first}{last}");
    }
    line += &process.control.map(|control| format!(" control={control:.9}")).unwrap_or_default();
    line +=
        &process.dirty_upper.map(|dirty| format!(" dirty={}", u8::from(dirty))).unwrap_or_default();
    line
}

/// Reads a log; none where nothing is there, or no more than the start of a first line.
fn found(file: &File, path: &Path) -> Result<Option<ExistingLog>, LoggedError> {
    let mut lines = BufReader::new(file);
    let mut text = Vec::new();
    let mut next = |text: &mut Vec<u8>| {
        text.clear();
        lines.by_ref().take(LONGEST).read_until(b'\n', text).map_err(at("read", path))
    };
    let malformed = |line| LoggedError::Malformed { path: path.to_owned(), line };
    let mut offset = next(&mut text)? as u64;
    let start = format!("{{\"schema\":\"{SCHEMA}\"");
    if !text.ends_with(b"\n") {
        let common = text.len().min(start.len());
        let is_cut = text[..common] == start.as_bytes()[..common];
        return if is_cut { Ok(None) } else { Err(malformed(1)) };
    }
    let plan: CampaignPlan = serde_json::from_slice(&text).map_err(|_| malformed(1))?;
    let full = plan.arms.len() as u64 * u64::from(plan.ranks);
    let mut found = ExistingLog { plan, blocks: 0, end: offset };
    let mut here = 0;
    for number in 2.. {
        offset += next(&mut text)? as u64;
        if !text.ends_with(b"\n") {
            break;
        }
        let process: LoggedProcess =
            serde_json::from_slice(&text).map_err(|_| malformed(number))?;
        if process.block != Some(found.blocks) {
            return Err(malformed(number));
        }
        here += 1;
        if here == full {
            (found.blocks, found.end, here) = (found.blocks + 1, offset, 0);
        }
    }
    Ok(Some(found))
}

fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LoggedError {
    let path = path.to_owned();
    move |error| LoggedError::File { doing, path, error }
}

/// Whether no other process has it, for a fifth of a second: a process that was just forked has all
/// that its parent has open, until it executes its program.
fn is_locked(file: &File) -> bool {
    const TIMES: u32 = 20;
    for _ in 0..TIMES {
        if flock(file, FlockOperation::NonBlockingLockExclusive) != Err(rustix::io::Errno::AGAIN) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aslr::campaign::plan::{CampaignArm, TimedBy};

    fn plan() -> CampaignPlan {
        CampaignPlan {
            header: CampaignPlan::header("test".into(), vec!["kernel".into()], 1),
            launcher: Vec::new(),
            arms: vec![CampaignArm::On, CampaignArm::Off],
            ranks: 2,
            by: TimedBy::Cpu,
            is_kernel: true,
        }
    }

    fn block(number: u64) -> Vec<LoggedProcess> {
        let one = |(arm, rank): (&CampaignArm, u32)| LoggedProcess {
            arm: arm.name().to_owned(),
            block: Some(number),
            rank,
            avg: 0.5,
            ..LoggedProcess::default()
        };
        let arms = [CampaignArm::On, CampaignArm::Off];
        arms.iter().flat_map(|arm| [(arm, 0), (arm, 1)]).map(one).collect()
    }

    #[test]
    fn cut_anywhere_it_goes_on_after_its_last_whole_block() {
        let directory = tempfile::tempdir().unwrap();
        let mut logged = Logged::open(directory.path(), &plan()).unwrap();
        for number in 0..3 {
            logged.append(&block(number)).unwrap();
        }
        let path = logged.path().to_owned();
        drop(logged);
        let whole = fs::read(&path).unwrap();
        let line = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for length in (0..=whole.len()).step_by(7).chain([line + 1, whole.len()]) {
            fs::write(&path, &whole[..length]).unwrap();
            let mut logged = Logged::open(directory.path(), &plan()).unwrap();
            let missing = logged.blocks..3;
            assert!(length < whole.len() || missing.is_empty());
            for number in missing {
                logged.append(&block(number)).unwrap();
            }
            assert_eq!(fs::read(&path).unwrap(), whole, "cut at {length}");
        }
    }

    #[test]
    fn what_is_another_campaigns_or_no_log_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut logged = Logged::open(directory.path(), &plan()).unwrap();
        assert!(matches!(Logged::open(directory.path(), &plan()), Err(LoggedError::Busy(_))));
        logged.append(&block(0)).unwrap();
        let path = logged.path().to_owned();
        drop(logged);
        let other = CampaignPlan { ranks: 3, ..plan() };
        let error = Logged::open(directory.path(), &other).unwrap_err();
        assert!(matches!(error, LoggedError::Other { what: "number of ranks", .. }), "{error}");
        let whole = fs::read_to_string(&path).unwrap();
        let damaged = whole.replacen("\"rank\":1", "\"rank\":?", 1);
        for text in ["precious", "precious\n", &damaged] {
            fs::write(&path, text).unwrap();
            let error = Logged::open(directory.path(), &plan()).unwrap_err();
            assert!(matches!(error, LoggedError::Malformed { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
