//! Whether what lies at a path is this user's own: whether anybody but the user and root can have put it
//! there, can change it, or can put something else in its place.
//!
//! As sshd(8) asks of the files that it obeys (`StrictModes` of sshd_config(5)), each directory above is
//! asked, too. Once all of them are as they should be, nobody else changes what a path leads to, so that it may be
//! opened by its name.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::unmapped::may_be_unmapped;

/// As many links on a way as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;
const STICKY: u32 = 0o1000;

/// What another user could change, or has put there.
#[derive(Debug)]
pub struct ForeignPath {
    /// The path itself, or a directory or link on the way to it.
    pub path: PathBuf,
    /// Why it is not this user's own.
    pub reason: ForeignReason,
}

/// Why something is not this user's own.
#[derive(Debug)]
pub enum ForeignReason {
    /// It belongs to this user, who is neither the one that asks nor root.
    Owner(u32),
    /// It belongs to this user or to root, and its permissions let others write to it.
    Mode {
        /// Its permissions.
        mode: u32,
        /// Whether it is this user's, who may change them.
        is_mine: bool,
    },
    /// It is nothing that becalm puts there.
    Kind,
    /// It cannot be looked at.
    Unseen(io::Error),
}

impl ForeignPath {
    /// The command by which this user closes it to others; none where it is another's.
    pub fn closing(&self) -> Option<String> {
        let is_mine = matches!(self.reason, ForeignReason::Mode { is_mine: true, .. });
        is_mine.then(|| format!("chmod go-w {}", self.path.display()))
    }
}

impl std::fmt::Display for ForeignPath {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let path = self.path.display();
        match &self.reason {
            ForeignReason::Owner(user) => write!(out, "{path}: belongs to user {user}"),
            ForeignReason::Mode { mode, .. } => {
                write!(out, "{path}: others than its owner may write to it (mode {mode:o})")
            }
            ForeignReason::Kind => write!(out, "{path}: is not what becalm makes there"),
            ForeignReason::Unseen(error) => write!(out, "{path}: cannot be looked at: {error}"),
        }
    }
}

impl std::error::Error for ForeignPath {}

/// A directory that is this user's own, or not there yet: nobody else makes names in it.
#[derive(Clone, Debug)]
pub struct OwnDirectory {
    path: PathBuf,
    is_closed: bool,
}

impl OwnDirectory {
    /// Of an absolute path. What is not there, or cannot be reached, cannot be obeyed either: it is nobody's.
    /// Whoever makes it then asks again.
    ///
    /// # Errors
    /// [`ForeignPath`]: it, or the first directory or link on the way, that somebody else can change.
    pub fn at(path: &Path) -> Result<OwnDirectory, ForeignPath> {
        let way = Way::to(path)?;
        if let Some(last) = &way.last {
            ask_own(&way.at, last, way.is_closed)?;
        }
        Ok(OwnDirectory { path: path.to_owned(), is_closed: way.is_closed })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory in it, as [`OwnDirectory::at`]; by one call, where it is no link.
    ///
    /// # Errors
    /// [`ForeignPath`].
    pub fn below(&self, name: impl AsRef<OsStr>) -> Result<OwnDirectory, ForeignPath> {
        let path = self.path.join(name.as_ref());
        let is_closed = match look(&path)? {
            None => self.is_closed,
            Some(about) if about.is_symlink() => return OwnDirectory::at(&path),
            Some(about) => {
                self.ask(&path, &about, about.is_dir())?;
                self.is_closed || !others_may(&about, 1)
            }
        };
        Ok(OwnDirectory { path, is_closed })
    }

    /// Asks the same of a regular file in it. Nobody else can put another there before it is opened.
    ///
    /// # Errors
    /// [`ForeignPath`].
    pub fn file(&self, name: impl AsRef<OsStr>) -> Result<PathBuf, ForeignPath> {
        let path = self.path.join(name.as_ref());
        if let Some(about) = look(&path)? {
            self.ask(&path, &about, about.is_file())?;
        }
        Ok(path)
    }

    fn ask(&self, path: &Path, about: &Metadata, is_kind: bool) -> Result<(), ForeignPath> {
        if is_ours(about) && !is_kind {
            return Err(foreign(path, ForeignReason::Kind));
        }
        ask_own(path, about, self.is_closed)
    }
}

/// Asks whether what this user makes in a directory stays under its name: it may be everybody's, with a sticky bit.
///
/// # Errors
/// [`ForeignPath`]: it, or the first directory or link on the way, that somebody else can change.
pub fn keeps_names(directory: &Path) -> Result<(), ForeignPath> {
    Way::to(directory).map(drop)
}

/// A way from the root on, gone name by name.
struct Way {
    /// How far it is gone, without links.
    at: PathBuf,
    /// Whether a directory on it lets nobody else pass, so that the permissions below matter less.
    is_closed: bool,
    /// What is at its end, if anything is.
    last: Option<Metadata>,
}

impl Way {
    /// Goes to the end, or to where there is nothing.
    fn to(path: &Path) -> Result<Way, ForeignPath> {
        let path = std::path::absolute(path)
            .map_err(|error| foreign(path, ForeignReason::Unseen(error)))?;
        let mut way = Way { at: "/".into(), is_closed: false, last: None };
        let mut links = 0;
        let mut rest = names(&path);
        rest.push("/".into());
        while let Some(name) = rest.pop() {
            if name == ".." {
                way.at.pop();
                way.last = look(&way.at)?;
                way.is_closed = false;
                continue;
            }
            // The root's name leads to the root, wherever the way is.
            let next = way.at.join(&name);
            let Some(about) = look(&next)? else { return Ok(Way { last: None, ..way }) };
            ask_owner(&next, &about)?;
            if about.is_symlink() {
                links += 1;
                let read = if links > MOST_LINKS { None } else { fs::read_link(&next).ok() };
                let Some(target) = read else { return Ok(Way { last: None, ..way }) };
                rest.extend(names(&target));
                if target.is_absolute() {
                    rest.push("/".into());
                    way.is_closed = false;
                }
                continue;
            }
            if lets_others_write(&about, way.is_closed) && about.mode() & STICKY == 0 {
                return Err(foreign(&next, mode_of(&about)));
            }
            way.is_closed |= about.is_dir() && !others_may(&about, 1);
            (way.at, way.last) = (next, Some(about));
        }
        Ok(way)
    }
}

/// Who owns `/` in a user namespace may have no number there, and then it cannot be told who it is.
fn ask_owner(path: &Path, about: &Metadata) -> Result<(), ForeignPath> {
    match is_ours(about) || may_be_unmapped(about.uid()) {
        true => Ok(()),
        false => Err(foreign(path, ForeignReason::Owner(about.uid()))),
    }
}

fn ask_own(path: &Path, about: &Metadata, is_closed: bool) -> Result<(), ForeignPath> {
    if !is_ours(about) {
        return Err(foreign(path, ForeignReason::Owner(about.uid())));
    }
    match lets_others_write(about, is_closed) {
        true => Err(foreign(path, mode_of(about))),
        false => Ok(()),
    }
}

/// What the group may do with what lies in a directory that it cannot enter, it cannot do.
fn lets_others_write(about: &Metadata, is_closed: bool) -> bool {
    about.mode() & 0o002 != 0 || !is_closed && others_may(about, 2)
}

/// The names of a path, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let names = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// What is at a path, whatever it is; none, where nothing is, or nothing that this user could open.
fn look(path: &Path) -> Result<Option<Metadata>, ForeignPath> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match fs::symlink_metadata(path) {
        Ok(about) => Ok(Some(about)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => {
            Ok(None)
        }
        Err(error) => Err(foreign(path, ForeignReason::Unseen(error))),
    }
}

fn foreign(path: &Path, reason: ForeignReason) -> ForeignPath {
    ForeignPath { path: path.to_owned(), reason }
}

fn mode_of(about: &Metadata) -> ForeignReason {
    let is_mine = about.uid() == rustix::process::geteuid().as_raw();
    ForeignReason::Mode { mode: about.mode() & 0o7777, is_mine }
}

fn is_ours(about: &Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&about.uid())
}

/// Whether others than the owner and the owner's own group have a right (2 to write, 1 to enter).
fn others_may(about: &Metadata, right: u32) -> bool {
    let group = if is_private_group(about) { 0 } else { about.mode() >> 3 };
    (about.mode() | group) & right != 0
}

/// Whether the group of a file is this user's alone: one that useradd(8) has made with the user, which has the user's
/// number then. With it comes a umask of 002 (pam_umask(8), `usergroups`). Who is in root's is root's to say, and
/// all the system's daemons that have no user of their own are nobody's.
fn is_private_group(about: &Metadata) -> bool {
    const NOBODY: u32 = 65534;
    let user = rustix::process::geteuid().as_raw();
    let is_usual = ![0, NOBODY].contains(&user) && rustix::process::getegid().as_raw() == user;
    is_usual && about.gid() == user && !has_other_members(user)
}

/// Whether the system's own list has members of a group, who may be others.
fn has_other_members(group: u32) -> bool {
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let id = group.to_string();
    groups.lines().any(|line| {
        let fields: Vec<_> = line.split(':').collect();
        let [name, _, number, members] = fields[..] else { return false };
        number == id && members.split(',').any(|member| !member.is_empty() && member != name)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    const NOBODY: u32 = 65534;

    struct OwnScene(tempfile::TempDir);

    impl OwnScene {
        /// Closed to nobody, so that permissions below count.
        fn new() -> OwnScene {
            let scene = OwnScene(tempfile::tempdir().unwrap());
            scene.set("", 0o755);
            scene
        }

        fn at(&self, name: &str) -> PathBuf {
            let top = self.0.path().canonicalize().unwrap();
            if name.is_empty() { top } else { top.join(name) }
        }

        fn directory(&self, name: &str, mode: u32) -> PathBuf {
            fs::create_dir_all(self.at(name)).unwrap();
            self.set(name, mode)
        }

        fn set(&self, name: &str, mode: u32) -> PathBuf {
            fs::set_permissions(self.at(name), Permissions::from_mode(mode)).unwrap();
            self.at(name)
        }
    }

    /// What is wrong with a directory, and with what is made in it.
    fn wrong(directory: &Path) -> [Option<String>; 2] {
        let own = OwnDirectory::at(directory).err();
        let keeps = keeps_names(directory).err();
        [own, keeps].map(|wrong| wrong.map(|wrong| wrong.to_string()))
    }

    fn says(path: &Path, what: &str) -> Option<String> {
        Some(format!("{}: {what}", path.display()))
    }

    #[test]
    fn a_directory_of_ones_own_and_what_is_not_there_are_nobody_elses() {
        let scene = OwnScene::new();
        let own = scene.directory("a/own", 0o755);
        for path in [own.clone(), own.join("none/below"), scene.at("a/own/../own/.")] {
            assert_eq!(wrong(&path), [None, None], "{path:?}");
        }
        fs::write(own.join("file"), "").unwrap();
        assert_eq!(wrong(&own.join("file/below")), [None, None], "nothing can be there");
    }

    #[test]
    fn where_others_may_write_is_not_ones_own_and_with_a_sticky_bit_it_keeps_names() {
        let scene = OwnScene::new();
        let open = scene.directory("open", 0o777);
        let why = says(&open, "others than its owner may write to it (mode 777)");
        assert_eq!(wrong(&open), [why.clone(), why.clone()]);
        scene.directory("open/own", 0o700);
        assert_eq!(wrong(&open.join("own")), [why.clone(), why.clone()]);
        assert_eq!(wrong(&open.join("none")), [why.clone(), why]);
        let error = OwnDirectory::at(&open).unwrap_err();
        assert_eq!(error.closing(), Some(format!("chmod go-w {}", open.display())));
        scene.set("open", 0o1777);
        let why = says(&open, "others than its owner may write to it (mode 1777)");
        assert_eq!(wrong(&open), [why, None]);
        assert_eq!(wrong(&open.join("own")), [None, None]);
    }

    #[test]
    fn roots_group_that_may_write_is_others_unless_it_cannot_come_there() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scene = OwnScene::new();
        let shared = scene.directory("above/shared", 0o770);
        let why = says(&shared, "others than its owner may write to it (mode 770)");
        assert_eq!(wrong(&shared), [why.clone(), why.clone()]);
        scene.set("above", 0o700);
        assert_eq!(wrong(&shared), [None, None]);
        // Whoever is led to it by another way does not pass there.
        symlink(&shared, scene.at("above/link")).unwrap();
        assert_eq!(wrong(&scene.at("above/link")), [None, None]);
        let elsewhere = scene.directory("elsewhere", 0o770);
        symlink(&elsewhere, scene.at("above/away")).unwrap();
        let away = says(&elsewhere, "others than its owner may write to it (mode 770)");
        assert_eq!(wrong(&scene.at("above/away")), [away.clone(), away.clone()]);
        assert_eq!(wrong(&scene.at("above/../elsewhere")), [away.clone(), away]);
        scene.set("above/shared", 0o777);
        assert!(wrong(&shared)[0].is_some(), "everybody may write there, whoever comes");
    }

    #[test]
    fn what_another_owns_on_the_way_is_his_to_exchange() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scene = OwnScene::new();
        let own = scene.directory("theirs/own", 0o700);
        let theirs = scene.at("theirs");
        chown(&theirs, Some(NOBODY), None).unwrap();
        let why = says(&theirs, "belongs to user 65534");
        assert_eq!(wrong(&own), [why.clone(), why.clone()]);
        assert_eq!(wrong(&theirs.join("none")), [why.clone(), why.clone()]);
        assert_eq!(OwnDirectory::at(&own).unwrap_err().closing(), None);
        // By a link of one's own, and by a link of theirs.
        symlink(&own, scene.at("link")).unwrap();
        assert_eq!(wrong(&scene.at("link")), [why.clone(), why]);
        let mine = scene.directory("mine", 0o700);
        symlink(&mine, scene.at("their-link")).unwrap();
        lchown(scene.at("their-link"), Some(NOBODY), None).unwrap();
        let why = says(&scene.at("their-link"), "belongs to user 65534");
        assert_eq!(wrong(&scene.at("their-link/none")), [why.clone(), why]);
        symlink("loop", scene.at("loop")).unwrap();
        assert_eq!(wrong(&scene.at("loop/below")), [None, None], "it leads nowhere");
    }

    #[test]
    fn what_lies_in_ones_own_directory_is_asked_too() {
        let scene = OwnScene::new();
        let own = OwnDirectory::at(&scene.directory("own", 0o755)).unwrap();
        fs::write(scene.at("own/file"), "").unwrap();
        scene.directory("own/directory", 0o755);
        assert_eq!(own.file("file").unwrap(), scene.at("own/file"));
        assert_eq!(own.file("none").unwrap(), scene.at("own/none"));
        assert_eq!(own.below("directory").unwrap().path(), scene.at("own/directory"));
        let kind = |failed: ForeignPath| matches!(failed.reason, ForeignReason::Kind);
        symlink("file", scene.at("own/link")).unwrap();
        assert!(own.file("link").is_err_and(kind) && own.file("directory").is_err_and(kind));
        assert!(own.below("file").is_err_and(kind));
        // A directory may be elsewhere, if it is one's own there.
        symlink("directory", scene.at("own/elsewhere")).unwrap();
        assert!(own.below("elsewhere").is_ok());
        scene.set("own/file", 0o666);
        scene.set("own/directory", 0o1777);
        assert!(own.file("file").is_err() && own.below("directory").is_err());
        // Others may have written to it before the directory was closed.
        scene.set("own", 0o700);
        let own = OwnDirectory::at(own.path()).unwrap();
        assert!(own.file("file").is_err() && own.below("directory").is_err());
        if rustix::process::geteuid().is_root() {
            scene.set("own/file", 0o600);
            chown(scene.at("own/file"), Some(NOBODY), None).unwrap();
            let why = own.file("file").unwrap_err().to_string();
            assert_eq!(Some(why), says(&scene.at("own/file"), "belongs to user 65534"));
        }
    }
}
