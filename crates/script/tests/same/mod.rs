//! A script run twice, each time in a new directory of odd files: with the builtins and without.
#![allow(dead_code)] // Each test program uses a part of it.

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};

/// Names that a scene has, or lacks: what scripts' operands are.
pub const NAMES: &[&str] = &[
    "plain",
    "a b",
    "new\nline",
    "-",
    "-dash",
    "é",
    "readonly",
    "noread",
    "directory",
    "directory/",
    "filled",
    "filled/plain",
    "locked",
    "locked/inside",
    "locked/new",
    "link",
    "dangling",
    "to directory",
    "to directory/",
    "hard",
    "hard too",
    "fifo",
    "",
    ".",
    "..",
    "./plain",
    "plain/",
    "missing",
    "missing/",
    "missing/deep/er",
    ".//plain//",
    "a/../b",
    "directory/.",
    "*",
    "'",
    "$HOME",
    "\\n",
];

/// Who runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    Root,
    Nobody,
}

/// Both, where this process is root's; else this user alone, who alone may see programs of other releases.
pub fn users() -> &'static [As] {
    let is_both = rustix::process::getuid().is_root() && std::env::var_os(TOOLS).is_none();
    if is_both { &[As::Root, As::Nobody] } else { &[As::Root] }
}

/// May name a directory with other programs than this system's, which is first in this process's PATH, too.
pub const TOOLS: &str = "BECALM_TEST_TOOLS";

/// Where bash finds the programs.
fn search() -> String {
    const SYSTEMS: &str = "/usr/local/bin:/usr/bin:/bin";
    let first = std::env::var(TOOLS);
    first.map_or(SYSTEMS.to_owned(), |first| format!("{first}:{SYSTEMS}"))
}

/// This test program's tests of these names once more, with the programs of other releases of Debian.
pub fn of_other_releases(tests: &[&str]) {
    for release in ["bullseye", "trixie", "testing"] {
        let tools = testkit::installed::other_tools(release);
        let mut again = Command::new(std::env::current_exe().unwrap());
        let search = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
        let output = again.args(tests).env(TOOLS, &tools).env("PATH", search).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{release}: {said}");
        assert!(said.contains(&format!("{} passed", tests.len())), "{release}: {said}");
    }
}

/// A file for BASH_ENV that anybody may read.
pub fn bash_env() -> &'static Path {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = MADE.get_or_init(|| {
        let prepared = script::builtins::prepare(None).unwrap();
        let from = Path::new(&prepared.bash_env).parent().unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        for name in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name()) {
            let to = directory.path().join(&name);
            fs::copy(from.join(&name), &to).unwrap();
            fs::set_permissions(&to, Permissions::from_mode(0o755)).unwrap();
        }
        let path = directory.path().join("bash_env");
        let text = fs::read_to_string(&path).unwrap();
        let here = directory.path().to_str().unwrap();
        fs::write(&path, text.replace(from.to_str().unwrap(), here)).unwrap();
        // Of a library that is younger than the list, nobody knows what it is.
        let list = fs::File::options().append(true).open(directory.path().join("programs"));
        list.unwrap().set_modified(std::time::SystemTime::now()).unwrap();
        let script = "grep -c becalm-builtins /proc/$$/maps";
        let mut bash = Command::new("bash");
        let mapped = bash.args(["-c", script]).env("BASH_ENV", &path).output().unwrap();
        assert!(mapped.status.success(), "bash has not taken the library: {mapped:?}");
        (directory, path)
    });
    path
}

fn make_scene(at: &Path) {
    for file in ["plain", "a b", "new\nline", "-", "-dash", "é", "readonly", "noread", "hard"] {
        fs::write(at.join(file), format!("content of {file}\n")).unwrap();
    }
    for directory in ["directory", "filled", "locked"] {
        fs::create_dir(at.join(directory)).unwrap();
    }
    for file in ["filled/plain", "filled/other", "locked/inside"] {
        fs::write(at.join(file), file).unwrap();
    }
    symlink("plain", at.join("link")).unwrap();
    symlink("nowhere", at.join("dangling")).unwrap();
    symlink("directory", at.join("to directory")).unwrap();
    fs::hard_link(at.join("hard"), at.join("hard too")).unwrap();
    mknodat(CWD, at.join("fifo"), FileType::Fifo, Mode::from(0o644), 0).unwrap();
    for (name, mode) in [("readonly", 0o444), ("noread", 0), ("locked", 0o555), ("plain", 0o640)] {
        fs::set_permissions(at.join(name), Permissions::from_mode(mode)).unwrap();
    }
}

fn each(at: &Path, act: &mut dyn FnMut(&Path)) {
    if fs::symlink_metadata(at).unwrap().is_dir() {
        let mut inside: Vec<_> = fs::read_dir(at).unwrap().map(|one| one.unwrap().path()).collect();
        inside.sort();
        inside.iter().for_each(|path| each(path, act));
    }
    act(at);
}

/// All of it gets an old time, so that what a script changes is seen.
fn make_old(at: &Path, user: As) {
    let old = Timespec { tv_sec: 1_000_000_000, tv_nsec: 5 };
    each(at, &mut |path| {
        if user == As::Nobody {
            lchown(path, Some(65534), Some(65534)).unwrap();
        }
        let times = Timestamps { last_access: old, last_modification: old };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    });
}

/// Type, mode, owner, links, age and content of all that is there.
fn tree(at: &Path) -> String {
    let mut text = String::new();
    each(at, &mut |path| {
        let about = fs::symlink_metadata(path).unwrap();
        let age = if about.mtime() == 1_000_000_000 { "old" } else { "new" };
        let name = path.strip_prefix(at).unwrap().as_os_str().as_bytes().escape_ascii();
        let (mode, uid, links) = (about.mode(), about.uid(), about.nlink());
        let content = if about.is_file() {
            String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
        } else if about.is_symlink() {
            fs::read_link(path).unwrap().to_string_lossy().into_owned()
        } else {
            String::new()
        };
        writeln!(text, "{name} {mode:o} {uid} {links} {age} {content:?}").unwrap();
    });
    text
}

/// What a script did.
#[derive(PartialEq, Eq)]
pub struct Did {
    pub status: String,
    pub out: String,
    pub err: String,
    pub tree: String,
}

impl std::fmt::Debug for Did {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Did { status, out, err, tree } = self;
        write!(to, "{status}\n--- out\n{out}--- err\n{err}--- tree\n{tree}")
    }
}

/// bash on a script in a file, in a directory.
pub fn bash(script: &Path, directory: &Path, user: As, builtins: bool) -> Command {
    let mut command = Command::new("bash");
    command.arg(script).current_dir(directory).env_remove("BASH_ENV").env("LC_ALL", "C.UTF-8");
    command.env("PATH", search()).env("HOME", "/nowhere");
    if builtins {
        command.env("BASH_ENV", bash_env());
    }
    if user == As::Nobody {
        command.uid(65534).gid(65534);
    }
    command
}

fn done(script: &str, user: As, builtins: bool) -> Did {
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), Permissions::from_mode(0o755)).unwrap();
    let (file, directory) = (outside.path().join("script"), outside.path().join("scene"));
    fs::write(&file, script).unwrap();
    fs::create_dir(&directory).unwrap();
    make_scene(&directory);
    make_old(&directory, user);
    let Output { status, stdout, stderr } = bash(&file, &directory, user, builtins)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let random = outside.path().file_name().unwrap().to_str().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(random, "OUTSIDE");
    let tree = text(tree(&directory).as_bytes());
    Did { status: status.to_string(), out: text(&stdout), err: text(&stderr), tree }
}

/// Runs a script both ways, as each user, and returns what it did as the first.
pub fn same(script: &str) -> Did {
    let all = users().iter().map(|&user| {
        let (without, with) = (done(script, user, false), done(script, user, true));
        assert!(
            without == with,
            "{user:?} ran\n{script}\n=== without\n{without:?}\n=== with\n{with:?}"
        );
        with
    });
    all.collect::<Vec<_>>().swap_remove(0)
}

/// A word that bash takes as it is.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs scripts both ways, some at a time.
pub fn all_same(scripts: &[String]) {
    std::thread::scope(|scope| {
        for part in scripts.chunks(scripts.len().div_ceil(4)) {
            scope.spawn(|| part.iter().for_each(|script| drop(same(script))));
        }
    });
}
