//! What a script starts: the command's program, by its path, so that a wrapper of its name does not
//! find itself in PATH.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use cure::CalmFile;

/// A command, all of whose programs are named by their paths.
pub(super) struct LaunchedCommand {
    /// All of it.
    pub whole: Vec<OsString>,
    /// What an alias of it is called, where the command's program is no other's launcher.
    pub name: Option<OsString>,
    /// Why no more arguments can follow it, and what to do.
    pub closed: Option<String>,
}

impl LaunchedCommand {
    /// The command of a calm file, which lies at `path`.
    pub fn of(path: &Path, calm: &CalmFile) -> Result<LaunchedCommand> {
        let search = ProgramSearch { path, calm };
        let mut launched =
            LaunchedCommand { whole: calm.command.clone(), name: None, closed: None };
        let mut at = 0;
        while let Some(word) = launched.whole.get(at).cloned() {
            launched.whole[at] = search.program(&word)?.into();
            match started(&word, &launched.whole[at + 1..]) {
                Started::Itself if at == 0 => launched.name = file_name(&word).map(Into::into),
                Started::Itself => {}
                Started::Program(next) => {
                    at += 1 + next;
                    continue;
                }
                Started::Script(next) => {
                    let script = &mut launched.whole[at + 1 + next];
                    *script = search.script(script)?.into();
                }
                Started::Closed(why) => launched.closed = Some(why),
            }
            break;
        }
        Ok(launched)
    }

    /// The words that the arguments follow.
    pub fn before_arguments(&self) -> &[OsString] {
        match self.name {
            Some(_) => &self.whole[..1],
            None => &self.whole,
        }
    }
}

/// What a program starts by its arguments.
enum Started {
    /// Nothing: it is the program itself.
    Itself,
    /// The program that so many arguments come before.
    Program(usize),
    /// The script that so many arguments come before.
    Script(usize),
    /// What more arguments would not reach: why, and what to do.
    Closed(String),
}

/// A program that starts what its arguments say.
struct Launcher {
    name: &'static str,
    /// Its options that take the next word.
    with_word: &'static [&'static str],
    /// How many words come before the program, besides options.
    words: usize,
}

const fn launcher(
    name: &'static str,
    with_word: &'static [&'static str],
    words: usize,
) -> Launcher {
    Launcher { name, with_word, words }
}

const LAUNCHERS: [Launcher; 10] = [
    launcher("env", &["-u", "--unset"], 0),
    launcher("nice", &["-n", "--adjustment"], 0),
    launcher("nohup", &[], 0),
    launcher("setsid", &[], 0),
    launcher("time", &["-o", "--output", "-f", "--format"], 0),
    launcher("timeout", &["-k", "--kill-after", "-s", "--signal"], 1),
    launcher("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"], 0),
    launcher("ionice", &["-c", "--class", "-n", "--classdata"], 0),
    launcher("taskset", &[], 1),
    launcher(
        "numactl",
        &[
            "-N",
            "--cpunodebind",
            "-m",
            "--membind",
            "-C",
            "--physcpubind",
            "-i",
            "--interleave",
            "-p",
            "--preferred",
            "-P",
            "--preferred-many",
            "-w",
            "--weighted-interleave",
        ],
        0,
    ),
];

/// What starts other programs in ways of its own.
const OTHER_LAUNCHERS: [&str; 29] = [
    "aprun",
    "apptainer",
    "becalm",
    "chroot",
    "chrt",
    "flux",
    "gdb",
    "jsrun",
    "ltrace",
    "mpiexec",
    "mpirun",
    "orterun",
    "parallel",
    "perf",
    "prlimit",
    "prun",
    "runuser",
    "setarch",
    "setpriv",
    "singularity",
    "srun",
    "ssh",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "unshare",
    "valgrind",
    "xargs",
];

const SHELLS: [&str; 9] = ["sh", "bash", "dash", "ksh", "mksh", "zsh", "csh", "tcsh", "fish"];
/// Options of shells that take the next word.
const SHELLS_WITH_WORD: [&str; 6] = ["-o", "+o", "-O", "+O", "--rcfile", "--init-file"];
/// Options of env(1) after which names mean something else.
const ENV_OWN_WAYS: [&str; 5] = ["-C", "--chdir", "-S", "-vS", "--split-string"];

fn started(program: &OsStr, arguments: &[OsString]) -> Started {
    let Some(name) = file_name(program).and_then(OsStr::to_str) else { return Started::Itself };
    if SHELLS.contains(&name) {
        return started_by_shell(name, arguments);
    }
    let Some(launcher) = LAUNCHERS.iter().find(|launcher| launcher.name == name) else {
        return match OTHER_LAUNCHERS.contains(&name) {
            true => Started::Closed(own_way(name)),
            false => Started::Itself,
        };
    };
    let is_env = name == "env";
    let own = |word: &str| is_env && ENV_OWN_WAYS.iter().any(|option| word.starts_with(option));
    let mut words = launcher.words;
    let mut all = arguments.iter().map(|word| word.to_string_lossy()).enumerate();
    while let Some((index, word)) = all.next() {
        match &*word {
            word if own(word) => return Started::Closed(own_way(name)),
            word if launcher.with_word.contains(&word) => drop(all.next()),
            word if word.starts_with('-') || is_env && word.contains('=') => {}
            _ if words > 0 => words -= 1,
            _ => return Started::Program(index),
        }
    }
    Started::Itself
}

fn started_by_shell(name: &str, arguments: &[OsString]) -> Started {
    let mut all = arguments.iter().map(|word| word.to_string_lossy()).enumerate();
    while let Some((index, word)) = all.next() {
        match &*word {
            word if SHELLS_WITH_WORD.contains(&word) => drop(all.next()),
            word if word.starts_with("--") || word.starts_with('+') => {}
            word if word.starts_with('-') && word.contains('c') => {
                return Started::Closed(format!(
                    "{name} {word} takes one line of text, which arguments do not reach: put it into a \
                     script that passes them on (\"$@\"), and make the calm file of that"
                ));
            }
            word if word.starts_with('-') => {}
            _ => return Started::Script(index),
        }
    }
    Started::Itself
}

fn own_way(name: &str) -> String {
    format!("{name} starts another program in a way of its own: make the calm file of that program")
}

fn file_name(word: &OsStr) -> Option<&OsStr> {
    Path::new(word).file_name()
}

/// Where a calm file's programs are looked for.
struct ProgramSearch<'a> {
    /// The calm file.
    path: &'a Path,
    calm: &'a CalmFile,
}

impl ProgramSearch<'_> {
    /// The file that a program's name meant, or means now.
    fn program(&self, word: &OsStr) -> Result<PathBuf> {
        match word.to_string_lossy().contains('/') {
            true => self.absolute(word),
            false => self.in_path(word),
        }
    }

    /// The file that a shell reads.
    fn script(&self, word: &OsStr) -> Result<PathBuf> {
        match self.calm.directory.join(word).exists() {
            true => self.absolute(word),
            false => self.program(word),
        }
    }

    fn absolute(&self, word: &OsStr) -> Result<PathBuf> {
        let path: PathBuf = self.calm.directory.join(word).components().collect();
        if self.is_wrapper(&path) {
            bail!(
                "{} is itself a wrapper that becalm run starts by a calm file: name the program",
                term::quoted(&path)
            );
        }
        Ok(path)
    }

    /// Of those in PATH that are no wrappers, the one that the calm file knows; else the first.
    fn in_path(&self, word: &OsStr) -> Result<PathBuf> {
        let command = launch::Command::of(vec![word.to_owned()]);
        let search = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let found = env::split_paths(&search)
            .filter_map(|directory| command.file_in(directory.as_os_str()).ok())
            .filter_map(|path| std::path::absolute(path).ok())
            .filter(|path| !self.is_wrapper(path));
        let found: Vec<PathBuf> = found.collect();
        match found.iter().find(|path| self.is_known(path)).or(found.first()) {
            Some(path) => Ok(path.clone()),
            None => bail!(
                "{}: not found in PATH, but perhaps as a wrapper of a calm file: put the program's own \
                 directory into PATH, and print this again",
                term::quoted(word)
            ),
        }
    }

    fn is_known(&self, path: &Path) -> bool {
        let shown = self.calm.shown.iter().map(|shown| &shown.file);
        let mut known = shown.chain(self.calm.relies_on.iter().map(|relied| &relied.path));
        let real = path.canonicalize().ok();
        known.any(|known| known == path || Some(known) == real.as_ref())
    }

    /// Whether a file is a script that starts something by a calm file: this one, or another.
    fn is_wrapper(&self, path: &Path) -> bool {
        const LONGEST: u64 = 64 << 10;
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
        if read.is_err() || !text.starts_with(b"#!") {
            return false;
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let text = String::from_utf8_lossy(&text);
        let mut code = text.lines().map(str::trim_start).filter(|line| !line.starts_with('#'));
        code.any(|line| {
            let run = line.split_once("becalm run ");
            run.is_some_and(|(_, words)| !words.starts_with('-') || words.contains(&*name))
        })
    }
}
