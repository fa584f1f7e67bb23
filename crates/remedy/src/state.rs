//! becalm's state directory: journals by id, and the lock that keeps two becalms apart.
//!
//! `journals/20261121-1/journal` is the first application of that day (UTC).

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use access::{ForeignPath, ForeignReason, OwnDirectory};
use rustix::fs::{Access, FlockOperation};
use rustix::io::Errno;

use crate::journal::{self, sync_directory};
use crate::{Error, Options};

const BECALM: &str = "becalm";
const JOURNALS: &str = "journals";
const LOCK: &str = "lock";

/// becalm's state directory: `$XDG_STATE_HOME/becalm`, by default `~/.local/state/becalm`. Of root,
/// it is root's own, whoever's variables it has (`su`, `sudo -E`).
///
/// # Errors
/// If the environment names no absolute path, or one where somebody else can put or change something.
pub fn state_directory() -> Result<PathBuf, Error> {
    obeyed(named()?, is_root())
}

/// A state directory, or root's own in the place of one that is below another user's.
fn obeyed(state: PathBuf, is_root: bool) -> Result<PathBuf, Error> {
    match own(&state) {
        Err(Error::Foreign { why, .. }) if is_root && is_below_anothers(&why, &state) => {
            let state = below(home_of_root());
            own(&state).map(|_| state)
        }
        asked => asked.map(|_| state),
    }
}

/// The same for what is believed only where each file shows that it is this user's: one look at whose the directory is, for
/// root, and none at the way there.
///
/// # Errors
/// If the environment names no absolute path.
pub fn unasked_state_directory() -> Result<PathBuf, Error> {
    let state = named()?;
    let is_roots = !is_root() || owner(&state) == Some(0);
    Ok(if is_roots { state } else { below(home_of_root()) })
}

/// The owner of a path, or of the nearest directory above that is there.
fn owner(path: &Path) -> Option<u32> {
    path.ancestors().find_map(|directory| fs::metadata(directory).ok()).map(|found| found.uid())
}

/// The one that the environment names.
fn named() -> Result<PathBuf, Error> {
    // A relative path is to be ignored: XDG Base Directory Specification.
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_home = || home(absolute("HOME"), is_root()).map(below);
    let named = absolute("XDG_STATE_HOME").map(|base| base.join(BECALM));
    named.or_else(of_home).ok_or(Error::NoState)
}

fn below(home: PathBuf) -> PathBuf {
    home.join(".local/state").join(BECALM)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a directory or link on the way to a path is another user's, rather than what is there.
fn is_below_anothers(why: &ForeignPath, path: &Path) -> bool {
    matches!(why.reason, ForeignReason::Owner(_)) && why.path != path
}

/// The same, made if it is not there.
///
/// # Errors
/// Those of [`state_directory`], and of making it.
pub fn made_state_directory() -> Result<PathBuf, Error> {
    let state = state_directory()?;
    make_directory(&state)?;
    // Another may have made it first.
    own(&state)?;
    Ok(state)
}

/// The state directory, as nobody but this user and root can change it. Where it is not there yet, whoever makes it
/// asks again.
fn own(state: &Path) -> Result<OwnDirectory, Error> {
    OwnDirectory::at(state).map_err(foreign(state))
}

fn own_journals(state: &Path) -> Result<OwnDirectory, Error> {
    own(state)?.below(JOURNALS).map_err(foreign(state))
}

/// The directory of a journal, of which all that is obeyed is this user's or root's.
fn own_journal(journals: &OwnDirectory, state: &Path, id: &str) -> Result<PathBuf, Error> {
    let asked = journals.below(id).and_then(|journal| {
        journal.file(journal::FILE)?;
        journal.below(journal::KEPT)
    });
    asked.map(|_| journals.path().join(id)).map_err(foreign(state))
}

fn foreign(state: &Path) -> impl FnOnce(ForeignPath) -> Error {
    let state = state.to_owned();
    move |why| Error::Foreign { state, why: Box::new(why) }
}

/// The home that the variable names, where it is there: none is made for an account that is to have
/// none (`/nonexistent`). A service of systemd's may have no HOME.
fn home(named: Option<PathBuf>, is_root: bool) -> Option<PathBuf> {
    let there = named.filter(|home| home.is_dir());
    there.or_else(|| is_root.then(home_of_root))
}

fn home_of_root() -> PathBuf {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = users.lines().find_map(|line| {
        let fields: Vec<_> = line.split(':').collect();
        (fields.get(2) == Some(&"0")).then(|| fields.get(5).map(PathBuf::from))?
    });
    home.filter(|home| home.is_absolute()).unwrap_or_else(|| "/root".into())
}

/// The state directory, and this process the only becalm that may change anything by it. Other
/// processes can until it is dropped, or this process ends in whatever way.
pub(crate) struct Locked {
    state: PathBuf,
    _lock: File,
}

/// Opens the state directory, made if it is not there. Waits for another becalm that has it where
/// [`Options::waits`] says so; else for a second: somebody who only asks whether it is locked has it for a moment, too.
///
/// # Errors
/// If another becalm has it, or its filesystem has no locks; if it is asked to end meanwhile.
pub(crate) fn lock(options: &Options) -> Result<Locked, Error> {
    let state = &options.state;
    own(state)?;
    make_directory(&journals(state))?;
    // Another may have made it first.
    own_journals(state)?;
    let path = own(state)?.file(LOCK).map_err(foreign(state))?;
    let file = File::options().create(true).append(true).mode(0o600).open(&path);
    let file = file.map_err(|error| Error::at("open", &path, error))?;
    let (began, mut has_told) = (Instant::now(), false);
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Locked { state: state.clone(), _lock: file }),
            Err(Errno::WOULDBLOCK) => {}
            // Of NFS without a lock daemon, and of Lustre mounted without flock.
            Err(error @ (Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS)) => {
                return Err(Error::NoLock { state: state.clone(), error: error.into() });
            }
            Err(error) => return Err(Error::at("flock", &path, error)),
        }
        options.may_go_on()?;
        if !has_told && began.elapsed() >= PATIENCE {
            let tell = options.waits.ok_or_else(|| Error::Busy { state: state.clone() })?;
            tell(state);
            has_told = true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How long one waits for a lock without a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether another becalm is applying or undoing now.
pub(crate) fn is_busy(state: &Path) -> bool {
    let Ok(Ok(lock)) = own(state).map(|state| state.file(LOCK)) else { return false };
    let Ok(file) = File::open(lock) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

impl Locked {
    /// A new id, and the empty directory for its journal.
    pub(crate) fn new_journal(&self) -> Result<(String, PathBuf), Error> {
        let today = date(now());
        let used = ids(&self.state)?;
        let last = used.iter().filter(|(day, _)| *day == today).map(|(_, number)| *number).max();
        let id = format!("{today:08}-{}", last.unwrap_or(0).saturating_add(1));
        let directory = journals(&self.state).join(&id);
        // A directory that may not come to stay is not begun with.
        make_directory(&directory).inspect_err(|_| drop(fs::remove_dir(&directory)))?;
        Ok((id, directory))
    }
}

/// The directories of all journals, the oldest first.
pub(crate) fn journal_directories(state: &Path) -> Result<Vec<PathBuf>, Error> {
    let journals = own_journals(state)?;
    let mut ids = ids(state)?;
    ids.sort_unstable();
    let directory = |(day, number)| own_journal(&journals, state, &format!("{day:08}-{number}"));
    ids.into_iter().map(directory).collect()
}

/// The directory of the journal with that id.
///
/// # Errors
/// If there is none, or somebody else can change it.
pub(crate) fn journal_directory(state: &Path, id: &str) -> Result<PathBuf, Error> {
    let unknown = || Error::Unknown { id: id.to_owned() };
    parse(id).ok_or_else(unknown)?;
    let directory = own_journal(&own_journals(state)?, state, id)?;
    if directory.is_dir() { Ok(directory) } else { Err(unknown()) }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The day of a moment as a number that reads as a date: 20261121.
fn date(seconds: u64) -> u64 {
    let (year, month, day) = civil(seconds / 86400);
    year * 10000 + month * 100 + day
}

/// Year, month and day (UTC) of a count of days since 1970-01-01: civil_from_days of
/// <https://howardhinnant.github.io/date_algorithms.html>.
pub(crate) fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day - (153 * march + 2) / 5 + 1)
}

fn journals(state: &Path) -> PathBuf {
    state.join(JOURNALS)
}

/// Day and number of each journal.
fn ids(state: &Path) -> Result<Vec<(u64, u64)>, Error> {
    let directory = journals(state);
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Error::at("list", &directory, error))?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| Error::at("list", &directory, error))?.file_name();
        ids.extend(name.to_str().and_then(parse));
    }
    Ok(ids)
}

/// Day and number of an id; none, if it is not exactly how one is written.
fn parse(id: &str) -> Option<(u64, u64)> {
    let (day, number) = id.split_once('-')?;
    let parsed = (day.parse().ok()?, number.parse().ok()?);
    (format!("{:08}-{}", parsed.0, parsed.1) == id).then_some(parsed)
}

/// Whether the state directory is there and can be written to, or can be made. Writes nothing.
pub(crate) fn can_be_written(state: &Path) -> Result<(), Error> {
    let journals = own_journals(state)?.path().to_owned();
    let there = journals.ancestors().find(|directory| directory.exists()).unwrap_or(Path::new("/"));
    rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| Error::at("write into the directory", there, error))
}

/// Makes a directory for this user alone, and those above it; all of them are on the disk then.
pub(crate) fn make_directory(directory: &Path) -> Result<(), Error> {
    let failed = |error| Error::at("create the directory", directory, error);
    match make_one(directory) {
        Ok(()) => directory.parent().map_or(Ok(()), sync_directory),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = directory.parent().ok_or(Error::NoState)?;
            make_directory(above)?;
            match make_one(directory) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                // In /proc, also where the one above is there.
                made => made.map_err(failed),
            }?;
            sync_directory(above)
        }
        Err(error) => Err(failed(error)),
    }
}

fn make_one(directory: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_keeps_nothing_in_the_home_of_another_user() {
        let directory = tempfile::tempdir().unwrap();
        let named = directory.path().to_owned();
        for is_root in [false, true] {
            assert_eq!(home(Some(named.clone()), is_root), Some(named.clone()));
            assert_eq!(obeyed(below(named.clone()), is_root).unwrap(), below(named.clone()));
        }
        // An ordinary user's is another's than root's already.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&named, Some(65534), None).unwrap();
            assert_eq!(obeyed(below(named.clone()), true).unwrap(), below(home_of_root()));
            assert!(matches!(obeyed(below(named.clone()), false), Err(Error::Foreign { .. })));
            // What another has put in a directory of root's is refused.
            let planted = directory.path().join("planted");
            std::fs::create_dir(&planted).unwrap();
            std::os::unix::fs::chown(&planted, Some(65534), None).unwrap();
            std::os::unix::fs::chown(&named, Some(0), None).unwrap();
            assert!(matches!(obeyed(planted, true), Err(Error::Foreign { .. })));
        }
        let gone = Some(directory.path().join("gone"));
        assert_eq!(home(gone.clone(), false), None);
        assert_eq!(home(gone, true), Some(home_of_root()));
        assert_eq!(home(None, true), Some(home_of_root()));
    }

    #[test]
    fn where_no_directory_can_be_made_that_is_said() {
        let error = make_directory(Path::new("/proc/none/becalm")).unwrap_err().to_string();
        assert!(error.starts_with("/proc/none: create the directory: "), "{error}");
        let scene = tempfile::tempdir().unwrap();
        make_directory(&scene.path().join("a/b/c")).unwrap();
        assert!(scene.path().join("a/b/c").is_dir());
    }

    #[test]
    fn a_moment_has_the_date_that_the_calendar_gives_it() {
        let dates = [(0, 19_700_101), (951_782_400, 20_000_229), (1_795_305_599, 20_261_121)];
        for (seconds, expected) in dates {
            assert_eq!(date(seconds), expected);
        }
    }
}
