//! What the tests of `becalm python bundle` share: a command, without and with its bundle.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::BECALM;
use testkit::{Ran, Scene, run};

pub const PYTHON: &str = "/usr/bin/python3";

/// A directory with a bundle in it, and the PYTHONPATH of all that runs there.
pub struct Bundled {
    pub scene: Scene,
    pub python_path: String,
}

impl Bundled {
    pub fn new() -> Bundled {
        Bundled { scene: Scene::new(), python_path: String::new() }
    }

    /// Writes a file below the directory, with the directories above it.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = PathBuf::from(self.scene.at(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    /// Where the bundle is: in a directory of its own, so that no other changes by it.
    pub fn bundle(&self) -> String {
        fs::create_dir_all(self.scene.at("out")).unwrap();
        self.scene.at("out/b.pybundle")
    }

    /// A command in this environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        if !self.python_path.is_empty() {
            command.env("PYTHONPATH", &self.python_path);
        }
        command.current_dir(self.scene.directory());
        command
    }

    /// `becalm python bundle --json -o BUNDLE options… [-- words…]`
    #[track_caller]
    pub fn pack(&self, options: &[&str], words: &[&str]) -> Value {
        let mut command = self.command(BECALM);
        command.args(["python", "bundle", "--json", "-o", &self.bundle()]).args(options);
        if !words.is_empty() {
            command.arg("--").args(words);
        }
        let ran = run(&mut command);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        serde_json::from_slice(&ran.stdout).unwrap()
    }

    pub fn without(&self, words: &[&str]) -> Ran {
        run(self.command(words[0]).args(&words[1..]))
    }

    /// `becalm python bundle run options… BUNDLE -- words…`
    pub fn with(&self, options: &[&str], words: &[&str]) -> Ran {
        let mut command = self.command(BECALM);
        command.args(["python", "bundle", "run"]).args(options).arg(self.bundle());
        run(command.arg("--").args(words))
    }

    /// Asserts that a command does the same without and with the bundle.
    #[track_caller]
    pub fn assert_same(&self, words: &[&str]) -> Ran {
        let [without, with] = [self.without(words), self.with(&[], words)];
        assert_eq!(with.err(), without.err(), "standard error of {words:?}");
        assert_eq!(with.out(), without.out(), "output of {words:?}");
        assert_eq!(with, without, "{words:?}");
        with
    }

    /// Packs what a command imports and asserts that it does the same with it.
    #[track_caller]
    pub fn assert_same_packed(&self, words: &[&str]) -> Ran {
        self.without(words); // Bytecode is written before the first comparison.
        self.pack(&[], words);
        self.assert_same(words)
    }

    /// How many lines of strace's log hold this, of calls that take a path or list a directory.
    pub fn traced(&self, is_counted: impl Fn(&str) -> bool, words: &[&str], with: bool) -> usize {
        let log = self.scene.at("strace");
        let mut line = vec!["strace", "-f", "-qq", "-e", "trace=%file,getdents64", "-o", &log];
        line.push("--");
        line.extend(words);
        let ran = if with { self.with(&[], &line) } else { self.without(&line) };
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let log = fs::read_to_string(log).unwrap();
        log.lines().filter(|line| is_counted(line)).count()
    }
}

/// Whether a line of strace's says a metadata operation: not a stat of a descriptor.
pub fn is_metadata(line: &str) -> bool {
    !line.contains("AT_EMPTY_PATH") && !line.contains("getdents64(") && line.contains('"')
}

/// What a program can see of its imports.
pub const LOOK: &str = "
import importlib.metadata, inspect, pkgutil, sys
for name, module in sorted(sys.modules.items()):
    spec, path = getattr(module, '__spec__', None), getattr(module, '__path__', None)
    print(name, repr(module).split(' object at ')[0], module.__doc__ if isinstance(module.__doc__, str) else '')
    print([getattr(module, word, None) for word in ('__file__', '__cached__', '__package__')])
    print(None if path is None else list(path))
    print(spec and (spec.name, spec.origin, spec.cached, spec.has_location, spec.parent))
    try: print(inspect.getsource(module))
    except (OSError, TypeError) as error: print(type(error))
print(sys.path, sys.argv, sys.flags, sorted(sys.path_hooks, key=repr)[:1])
print(sorted(d.metadata['Name'] for d in importlib.metadata.distributions()))
print(sorted(m.name for m in pkgutil.iter_modules()))
print(importlib.metadata.entry_points())
";

/// Debian's Python, and those that pyenv has: 3.9 and later.
pub fn pythons() -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let installed = fs::read_dir(format!("{home}/.pyenv/versions")).into_iter().flatten();
    let is_new = |name: &str| {
        let minor = name.strip_prefix("3.").and_then(|rest| rest.split('.').next());
        minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 9)
    };
    let directories = installed.map(|entry| entry.unwrap().path());
    let new =
        directories.filter(|directory| is_new(directory.file_name().unwrap().to_str().unwrap()));
    let pythons = new.map(|directory| directory.join("bin/python3").to_str().unwrap().to_owned());
    [PYTHON.to_owned()].into_iter().chain(pythons).collect()
}

/// The Python of the environment with numpy and scipy that setup/install-test-tools makes.
pub fn venv_python() -> String {
    let home = std::env::var("BECALM_TEST_HOME").unwrap_or_else(|_| {
        let cache = std::env::var("XDG_CACHE_HOME");
        let cache = cache.unwrap_or_else(|_| format!("{}/.cache", std::env::var("HOME").unwrap()));
        format!("{cache}/becalm-tests")
    });
    let python = format!("{home}/venv/bin/python3");
    assert!(Path::new(&python).exists(), "{python}: run setup/install-test-tools first");
    python
}

/// Builds a shared library with gcc.
pub fn gcc<S: AsRef<OsStr>>(arguments: &[S]) {
    let built = Command::new("gcc").args(["-shared", "-fPIC"]).args(arguments).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}
