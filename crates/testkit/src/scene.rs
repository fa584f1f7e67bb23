//! A directory for one test, and the recording in it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use recording::Recording;
use tempfile::TempDir;

use crate::write_program;

/// The program under test: cargo builds it for the tests of `becalm`, and puts it beside them; or the
/// one that the environment names, such as that which is installed.
pub fn becalm() -> &'static str {
    static BECALM: LazyLock<String> = LazyLock::new(|| {
        let other = std::env::var_os("BECALM_UNDER_TEST").map(PathBuf::from);
        let becalm = other.unwrap_or_else(|| built().join("becalm"));
        assert!(becalm.exists(), "{becalm:?} is not built: cargo build -p becalm");
        becalm.into_os_string().into_string().unwrap()
    });
    &BECALM
}

/// The directory that cargo builds a profile's programs in, `target/TARGET/debug`.
fn built() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(2).unwrap().to_owned()
    });
    &BUILT
}

/// A directory of cargo's in which what tests have made once stays.
pub fn kept() -> PathBuf {
    built().parent().unwrap().join("tmp")
}

/// How becalm sees the calls that it records.
#[derive(Clone, Copy, Debug, Default)]
pub enum Backend {
    /// The way that becalm chooses.
    #[default]
    Usual,
    /// Without eBPF, as an ordinary user records.
    WithoutEbpf,
    /// As on a kernel before 5.3, whose calls are read from registers.
    OldKernel,
    /// Every call is stopped at, no filter chooses.
    AllSyscalls,
}

impl Backend {
    fn options(self) -> &'static [&'static str] {
        match self {
            Backend::Usual => &[],
            Backend::WithoutEbpf => &["--no-ebpf"],
            Backend::OldKernel => &["--no-ebpf", "--old-kernel"],
            Backend::AllSyscalls => &["--all-syscalls"],
        }
    }

    /// A scene in which becalm records so.
    pub fn scene(self) -> Scene {
        Scene::new().on(self)
    }
}

/// A directory that is gone when the test ends.
pub struct Scene {
    directory: TempDir,
    backend: Backend,
}

impl Scene {
    /// An empty directory that every user can look into.
    pub fn new() -> Scene {
        Scene::of(TempDir::new().unwrap(), 0o755)
    }

    /// The same, in a directory of another filesystem.
    pub fn below(directory: &Path) -> Scene {
        Scene::of(TempDir::new_in(directory).unwrap(), 0o755)
    }

    /// An empty directory that every user can write to.
    pub fn for_everyone() -> Scene {
        Scene::of(TempDir::new().unwrap(), 0o777)
    }

    fn of(directory: TempDir, mode: u32) -> Scene {
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        Scene { directory, backend: Backend::default() }
    }

    /// The same, in which becalm records so.
    pub fn on(self, backend: Backend) -> Scene {
        Scene { backend, ..self }
    }

    /// The directory, as it was named.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    /// The directory, without symbolic links in its path.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    /// A path in the directory.
    pub fn at(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }

    /// The same, as a path.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory().join(name)
    }

    /// Where [`Scene::record`] records to.
    pub fn rec(&self) -> String {
        self.at("rec")
    }

    /// Writes a file of that mode, and gives its path.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>, mode: u32) -> String {
        let path = self.at(name);
        match mode & 0o111 {
            0 => fs::write(&path, bytes).unwrap(),
            _ => write_program(&path, bytes),
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Makes an empty directory, and gives its path.
    pub fn subdirectory(&self, name: &str) -> String {
        let path = self.at(name);
        fs::create_dir(&path).unwrap();
        path
    }

    /// `becalm record -o REC -- words…`
    pub fn record<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        self.record_with(Path::new(becalm()), &[], words)
    }

    /// The same with every system call.
    pub fn record_all<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        self.record_with(Path::new(becalm()), &["--all-syscalls"], words)
    }

    /// The same by another copy of becalm, with more options.
    pub fn record_with<S: AsRef<OsStr>>(
        &self,
        becalm: &Path,
        more: &[&str],
        words: &[S],
    ) -> Command {
        let mut command = Command::new(becalm);
        command.arg("record").args(self.backend.options()).args(more);
        // All of the run, and not its start alone, unless that is what is asked for.
        if !more.contains(&"--until") {
            command.args(["--until", "exit"]);
        }
        command.args(["-o", &self.rec(), "--"]).args(words);
        command
    }

    /// What was recorded.
    #[track_caller]
    pub fn recording(&self) -> Recording {
        open(&self.rec())
    }

    /// Whether there is a recording that says it shows all of the run.
    pub fn shows_a_whole_recording(&self) -> bool {
        Recording::open(Path::new(&self.rec())).is_ok_and(|recording| recording.is_whole())
    }
}

/// A command that runs a command: the words of `inner` after those of `outer`.
pub fn running(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    outer
}

/// Reads a recording.
#[track_caller]
pub fn open(path: &str) -> Recording {
    Recording::open(Path::new(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
