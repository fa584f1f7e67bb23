//! Where a hot part lies on a node, what it is called, and what removes it.
//!
//! It lies in memory of the node, under a name that says whose it is, of which image's file, and of
//! which job: `becalm-hot-UID-IDENTITY-JOB`. Where a site runs nothing after a job, what a job has
//! left is removed by the next becalm of its user on that node.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proc::FilesystemKind;
use rustix::fs::statvfs;

use super::error::{HotPartError, file};
use super::identity::identity;
use super::part::HotPart;
use crate::mount::asked::JOBS;

/// Before everything that is made here.
const NAME: &str = "becalm-hot-";
/// Ends the name of what is no hot part yet.
pub(super) const UNFINISHED: char = '~';
/// Of what there is in all, one in so many bytes is left alone.
const LEFT_ALONE: u64 = 20;
/// Between two steps a job may have no process on a node: what it left is old only after this.
const LEFT_FOR: Duration = Duration::from_secs(3600);
/// The same, where nothing tells which processes are the job's.
const LEFT_FOR_NO_JOB: Duration = Duration::from_secs(86_400);

/// A directory of the node for hot parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotPlace {
    /// /dev/shm: memory.
    Shm,
    /// `$TMPDIR`, else /tmp.
    Tmpdir,
}

impl HotPlace {
    /// All, the best first.
    pub const ALL: [HotPlace; 2] = [HotPlace::Shm, HotPlace::Tmpdir];

    /// Its path.
    pub fn directory(self) -> PathBuf {
        match self {
            HotPlace::Shm => "/dev/shm".into(),
            HotPlace::Tmpdir => {
                let told = std::env::var_os("TMPDIR").map(PathBuf::from);
                told.filter(|path| path.is_absolute()).unwrap_or_else(|| "/tmp".into())
            }
        }
    }

    /// The first of these with so much room, in which nobody else has the name of this job's hot part.
    pub(super) fn with_room(
        among: &[HotPlace],
        needed: u64,
        identity: &str,
    ) -> Result<PathBuf, HotPartError> {
        let mut why = Vec::new();
        for place in among {
            let directory = place.directory();
            let is_free = is_free(&directory.join(name(identity)));
            match is_free.and_then(|()| has_room(&directory, needed)) {
                Ok(()) => return Ok(directory),
                Err(no) => why.push(format!("{} {no}", directory.display())),
            }
        }
        Err(HotPartError::NoRoom { needed, why: why.join("; ") })
    }
}

/// In a directory of all, only its owner can replace a file.
fn is_free(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.uid() != user() && user() != 0 => {
            let name = path.file_name().unwrap_or_default().display();
            Err(format!("has a {name} of another user ({})", there.uid()))
        }
        _ => Ok(()),
    }
}

fn has_room(directory: &Path, needed: u64) -> Result<(), String> {
    let there = fs::metadata(directory).map_err(|error| format!("cannot be used ({error})"))?;
    if !there.is_dir() {
        return Err("is no directory".to_owned());
    }
    access::keeps_names(directory)
        .map_err(|why| format!("is no directory in which a file stays its owner's ({why})"))?;
    if is_shared(directory) {
        return Err("is on a filesystem that nodes share".to_owned());
    }
    let room = statvfs(directory).map_err(|error| format!("cannot be used ({error})"))?;
    let bytes = |blocks: u64| blocks.saturating_mul(room.f_frsize);
    let free = bytes(room.f_bavail).saturating_sub(bytes(room.f_blocks) / LEFT_ALONE);
    match free >= needed {
        true => Ok(()),
        false => Err(format!("has {free} bytes free")),
    }
}

fn is_shared(directory: &Path) -> bool {
    FilesystemKind::of(directory).is_some_and(|kind| kind.of_other_machines().is_some())
}

/// The job that this process is of, as names have it; `none` where there is none.
pub fn job() -> String {
    let told = job_variables().find_map(|name| std::env::var(name).ok());
    let name: String = told.unwrap_or_default().chars().take(64).map(plain).collect();
    if name.is_empty() { NO_JOB.to_owned() } else { name }
}

const NO_JOB: &str = "none";

/// A step is none: what is spread is for all of a job.
fn job_variables() -> impl Iterator<Item = &'static str> {
    JOBS.into_iter().filter(|name| *name != "SLURM_STEP_ID")
}

fn plain(letter: char) -> char {
    if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '_' }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn prefix(identity: &str) -> String {
    format!("{NAME}{}-{identity}-", user())
}

/// What the hot part of an image is called in this job.
pub(super) fn name(identity: &str) -> String {
    prefix(identity) + &job()
}

/// The same, for what is no hot part, or not yet.
pub(super) fn unfinished(identity: &str) -> String {
    format!("{}{UNFINISHED}", name(identity))
}

/// The hot part that this job has of an image on this node, if what is noted of it says that it was
/// brought to all nodes in the same way: all of it is as it was.
pub fn brought(image: &Path, how: &str) -> Option<HotPart> {
    let there = fs::metadata(image).ok()?;
    let name = name(&identity(&there));
    HotPlace::ALL.into_iter().map(HotPlace::directory).find_map(|directory| {
        let part = HotPart::open(&directory.join(&name)).ok().filter(|part| part.is_of(&there))?;
        let noted = fs::read_to_string(note(&part)).ok()?;
        (noted == noted_of(&part, how) && part.check().is_ok()).then_some(part)
    })
}

/// Notes beside a hot part that it was brought to all nodes of the job, and how.
///
/// # Errors
/// Those of writing a file.
pub fn note_brought(part: &Path, how: &str) -> Result<(), HotPartError> {
    let part = HotPart::open(part)?;
    let path = note(&part);
    let _ = fs::remove_file(&path);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written = made.and_then(|mut note| note.write_all(noted_of(&part, how).as_bytes()));
    written.map_err(file(&path, "write"))
}

fn note(part: &HotPart) -> PathBuf {
    let mut path = part.path().as_os_str().to_owned();
    path.push(format!("{UNFINISHED}brought"));
    path.into()
}

fn noted_of(part: &HotPart, how: &str) -> String {
    format!("{} {how}\n", part.digest())
}

/// A hot part of this image's file on this node, of whatever job; and what is wrong with the first
/// one that cannot be used.
pub(crate) fn find(image: &Metadata) -> (Option<HotPart>, Option<String>) {
    let identity = identity(image);
    let mut wrong = None;
    for path in candidates(&identity) {
        match HotPart::open(&path) {
            Ok(part) if part.is_of(image) => return (Some(part), None),
            Ok(_) => wrong = Some(format!("{}: is of another image", path.display())),
            // Not there, or removed meanwhile.
            Err(HotPartError::File { error, .. }) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => wrong = Some(error.to_string()),
        }
    }
    (None, wrong)
}

fn candidates(identity: &str) -> Vec<PathBuf> {
    let shm = HotPlace::Shm.directory();
    let prefix = prefix(identity);
    let mut paths: Vec<PathBuf> = own(&shm)
        .filter(|name| name.starts_with(&prefix) && !name.contains(UNFINISHED))
        .map(|name| shm.join(name))
        .collect();
    // To list a directory of many users costs more than to ask for one name.
    let other = HotPlace::Tmpdir.directory();
    if !is_shared(&other) {
        paths.push(other.join(name(identity)));
    }
    paths
}

/// Names in a directory that hot parts of this user have.
fn own(directory: &Path) -> impl Iterator<Item = String> + use<> {
    let begin = format!("{NAME}{}-", user());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(move |name| name.starts_with(&begin))
}

/// Whether a name is of a job; what is unfinished is, too.
fn is_of_job(name: &str, job: &str) -> bool {
    let finished = name.split(UNFINISHED).next().unwrap_or_default();
    finished.rsplit('-').next() == Some(job)
}

/// Removes what this job has on this node; says how many files that were.
///
/// # Errors
/// The first that stays.
pub fn remove_of_job() -> Result<u64, HotPartError> {
    let job = job();
    let mut removed = 0;
    for place in HotPlace::ALL {
        let directory = place.directory();
        for name in own(&directory).filter(|name| is_of_job(name, &job)) {
            let path = directory.join(name);
            fs::remove_file(&path).map_err(file(&path, "remove"))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes what jobs of this user that have ended left on this node.
pub fn remove_ended() {
    let (own_job, shm) = (job(), HotPlace::Shm.directory());
    for name in own(&shm).filter(|name| !is_of_job(name, &own_job)) {
        let path = shm.join(&name);
        let job = name.split(UNFINISHED).next().and_then(|name| name.rsplit('-').next());
        let age = fs::symlink_metadata(&path).ok().and_then(|there| there.modified().ok());
        let age = age.and_then(|then| SystemTime::now().duration_since(then).ok());
        if let (Some(job), Some(age)) = (job, age)
            && has_ended(job, age)
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn has_ended(job: &str, age: Duration) -> bool {
    match job {
        NO_JOB => age > LEFT_FOR_NO_JOB,
        job => age > LEFT_FOR && !has_process(job),
    }
}

/// Whether a process on this node is of a job of this user.
fn has_process(job: &str) -> bool {
    let is_ones = |environ: Vec<u8>| {
        environ.split(|byte| *byte == 0).any(|entry| {
            let entry = String::from_utf8_lossy(entry);
            let told =
                entry.split_once('=').filter(|(name, _)| job_variables().any(|it| it == *name));
            told.is_some_and(|(_, value)| value.chars().take(64).map(plain).eq(job.chars()))
        })
    };
    proc::process_ids()
        .filter(|pid| fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == user()))
        .any(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(is_ones))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_job_whether_it_is_finished_or_not() {
        assert!(is_of_job("becalm-hot-0-abc-77", "77") && is_of_job("becalm-hot-0-abc-77~x", "77"));
        assert!(!is_of_job("becalm-hot-0-77-7", "77") && !is_of_job("becalm-hot-0-abc-77", "7"));
    }

    #[test]
    fn a_job_has_ended_when_nothing_of_it_runs_here_and_not_between_two_steps() {
        assert!(!has_ended("no-such-job", Duration::from_secs(60)));
        assert!(has_ended("no-such-job", LEFT_FOR * 2));
        assert!(!has_ended(NO_JOB, LEFT_FOR * 2) && has_ended(NO_JOB, LEFT_FOR_NO_JOB * 2));
        let mut sleeper = std::process::Command::new("sleep");
        let mut running = sleeper.arg("100").env("PBS_JOBID", "12.a-b").spawn().unwrap();
        // Its environment is its own from its exec on.
        let seen = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            has_process("12.a_b")
        });
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(seen);
    }
}
