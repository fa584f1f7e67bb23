//! Python modules searched over `sys.path`.
//!
//! CPython's FileFinder (importlib) stats each directory of `sys.path` in turn at every import,
//! to see whether its listing of it is still right, then asks for the module's files in the
//! first directory that lists a fitting name. So the directories, not the misses, are the cost.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::query::clean;
use recording::{Cause, Exec, Kind, PathId, ProcessId, Recording, Role};

use super::{Case, advice, command, culprit};
use crate::findings::{Culprit, Step, Storm};
use crate::survey::{Ask, AskId, ProgramId, Survey, split, variable};
use crate::tally::Tally;
use crate::threshold::is_storm;
use crate::words::{count, counted, pasted, questions};

/// Fewer bytecode files written are a module that was just edited.
const WRITES: u64 = 20;

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let imports = Imports::find(survey);
    let avoidable = imports.claim.len() as u64 - imports.files.len() as u64;
    if !is_storm(avoidable, survey.total()) {
        return None;
    }
    let directories = imports.entries.len() as u64;
    Some(Case {
        storm: Storm::Python,
        title: format!(
            "modules were searched in {} of sys.path",
            counted(directories, "directory", "directories")
        ),
        cause: "at each import Python asks every directory of sys.path, in order, whether it has \
                changed, and then for the module's source, bytecode and package files"
            .to_owned(),
        observed: "what a Python process asked about modules and the directories of sys.path: a \
                   guess by path"
            .to_owned(),
        avoidable,
        guessed: Some(imports.claim.len() as u64),
        time: None,
        culprits: imports.culprits(survey),
        next: imports.next(survey),
        evidence: "module".to_owned(),
        claim: imports.claim,
    })
}

/// What was asked of one directory of `sys.path`.
#[derive(Clone, Copy, Default)]
struct Entry {
    asks: u64,
    missing: u64,
    /// Questions for the directory itself: one an import that comes by.
    own: u64,
    /// Whether PYTHONPATH names it.
    is_named: bool,
}

#[derive(Default)]
struct Imports<'a> {
    packages: HashSet<Package<'a>>,
    claim: Vec<AskId>,
    entries: HashMap<Vec<u8>, Entry>,
    /// The module files that were opened.
    files: HashSet<PathId>,
    /// Bytecode files that were written.
    writes: u64,
    programs: Tally<ProgramId>,
}

impl<'a> Imports<'a> {
    fn find(survey: &Survey<'a>) -> Imports<'a> {
        let mut imports = Imports { packages: packages(survey), ..Imports::default() };
        let mut named: HashMap<&str, HashSet<Vec<u8>>> = HashMap::new();
        for (id, ask) in survey.free().filter(|(_, ask)| is_python(ask)) {
            let value = ask.exec.and_then(|exec| variable(exec, "PYTHONPATH")).unwrap_or_default();
            let named = named.entry(value).or_insert_with(|| directories(value, ask.exec, survey));
            if is_import(ask, named, &imports.packages) {
                imports.claim.push(id);
                imports.take(ask, named);
            }
        }
        imports
    }

    fn take(&mut self, ask: &Ask, named: &HashSet<Vec<u8>>) {
        let path = ask.path;
        self.programs.add(ask.program, ask.is_missing());
        let (_, name) = split(path);
        let is_read = ask.kind == Kind::Open && ask.is_yes() && is_module(name);
        if let (true, Some(file)) = (is_read, ask.path_id) {
            self.files.insert(file);
        }
        // CPython writes FILE.pyc.NUMBER and renames it.
        self.writes += u64::from(ask.kind == Kind::Change && ask.is_yes() && is_bytecode(path));
        let Some(directory) = entry_of(path, named) else { return };
        let entry = match self.entries.get_mut(directory) {
            Some(entry) => entry,
            None => self.entries.entry(directory.to_vec()).or_default(),
        };
        entry.asks += 1;
        entry.missing += u64::from(ask.is_missing());
        entry.own += u64::from(directory == path && ask.kind == Kind::Stat);
        entry.is_named = named.contains(directory);
    }

    /// What one directory of PYTHONPATH more costs: how often each was asked about itself.
    fn slope(&self) -> Option<u64> {
        let named: Vec<_> = self.entries.values().filter(|entry| entry.is_named).collect();
        let own: u64 = named.iter().map(|entry| entry.own).sum();
        (own > 0).then(|| own.div_ceil(named.len() as u64))
    }

    fn by_asks(&self) -> Vec<(&Vec<u8>, &Entry)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by(|(a, left), (b, right)| right.asks.cmp(&left.asks).then(a.cmp(b)));
        entries
    }

    fn named(&self) -> u64 {
        self.entries.values().filter(|entry| entry.is_named).count() as u64
    }

    fn culprits(&self, survey: &Survey) -> Vec<Culprit> {
        let mut culprits = Vec::new();
        let (directories, named) = (self.entries.len() as u64, self.named());
        if let Some(slope) = self.slope() {
            let text = format!(
                "PYTHONPATH gave {} of the {} directories; each costs {} before any module is read",
                count(named),
                count(directories),
                questions(slope)
            );
            let numbers =
                [("directories", directories), ("named", named), ("per_directory", slope)];
            culprits.push(culprit("pythonpath", "PYTHONPATH", text, &numbers));
        }
        for (directory, entry) in self.by_asks().into_iter().take(3) {
            let directory = survey.shown(directory);
            let text = format!(
                "{directory}: {}, {} answered no",
                questions(entry.asks),
                count(entry.missing)
            );
            let numbers =
                [("operations", entry.asks), ("missing", entry.missing), ("own", entry.own)];
            culprits.push(culprit("sys.path", directory, text, &numbers));
        }
        if self.writes >= WRITES {
            let text = format!(
                "{} bytecode files were compiled and written: the stored ones do not fit their \
                 sources (another time of change, or none)",
                count(self.writes)
            );
            culprits.push(culprit("bytecode", "__pycache__", text, &[("writes", self.writes)]));
        }
        if let Some((program, asked)) = self.programs.top() {
            let files = self.files.len() as u64;
            let text = format!(
                "{} imported {} with {}",
                survey.full_name(program),
                counted(files, "file", "files"),
                questions(asked.asks)
            );
            let numbers = [("files", files), ("operations", asked.asks)];
            culprits.push(culprit("program", survey.full_name(program), text, &numbers));
        }
        if let Some((prefix, asked)) = self.environment() {
            let prefix = survey.shown(prefix);
            let text = format!("{prefix}: the environment, with {}", questions(asked));
            culprits.push(culprit("environment", prefix, text, &[("operations", asked)]));
        }
        culprits
    }

    /// The environment that most was asked of, if that is not the system's own, and how much.
    fn environment(&self) -> Option<(&[u8], u64)> {
        let mut prefixes = Tally::default();
        for (directory, entry) in &self.entries {
            prefixes.count(prefix_of(directory).unwrap_or_default(), entry.asks);
        }
        let (prefix, asked) = prefixes.top()?;
        (!prefix.is_empty()).then_some((prefix, asked.asks))
    }

    fn next(&self, survey: &Survey) -> Vec<Step> {
        let Some(line) = survey.command_line() else { return Vec::new() };
        let mut steps = Vec::new();
        if let Some(image) = image(survey.recording) {
            steps.push(advice(format!(
                "Nothing to pack: becalm ran the command in the image {}, so what lies in it is \
                 answered on this node; to the shared filesystem's server it is one file",
                survey.shown(image.as_bytes())
            )));
        } else if let Some(prefix) = self.packable(survey) {
            steps.push(command(
                "Pack the environment into one image, in the order of this start, and run the \
                 command with the image over its directory: that is then one file to the server",
                format!(
                    "becalm image build -o env.sqsh {prefix} -- {line} && becalm run --image \
                     env.sqsh -- {line}"
                ),
            ));
        }
        steps.push(command(
            "See which import asks what, and why",
            format!("becalm python scan -- {line}"),
        ));
        steps
    }

    /// The environment, where an image of it would take most of the questions, and can be had.
    fn packable(&self, survey: &Survey) -> Option<String> {
        let (prefix, asked) = self.environment()?;
        let path = Path::new(OsStr::from_bytes(prefix));
        let is_most = asked * 2 > self.claim.len() as u64;
        (is_most && (survey.machine.can_pack)(path)).then(|| pasted(prefix)).flatten()
    }
}

/// The image that `becalm run` had a command of the recording see.
fn image(recording: &Recording) -> Option<&str> {
    let mut execs = recording.processes.iter().flat_map(|process| &process.execs);
    execs.find_map(|exec| {
        let [program, verb, options @ ..] = &exec.argv[..] else { return None };
        if split(program.as_bytes()).1 != b"becalm" || verb != "run" {
            return None;
        }
        let mut words = options.iter().map(String::as_str).take_while(|word| *word != "--");
        words.find(|word| word.starts_with("--image") || word.starts_with("--sif")).and_then(
            |word| match word.split_once('=') {
                Some((_, image)) => Some(image),
                None => words.next(),
            },
        )
    })
}

/// The directories of a PYTHONPATH.
fn directories(value: &str, exec: Option<&Exec>, survey: &Survey) -> HashSet<Vec<u8>> {
    let cwd = exec.map_or(&b""[..], |exec| survey.recording.path(exec.cwd));
    let absolute = |directory: &str| match directory.starts_with('/') {
        true => clean(directory.as_bytes()).into_owned(),
        false => clean(&[cwd, b"/", directory.as_bytes()].concat()).into_owned(),
    };
    value.split(':').filter(|directory| !directory.is_empty()).map(absolute).collect()
}

/// Whether Python asks, not the loader for it.
fn is_python(ask: &Ask) -> bool {
    ask.role == Role::Python && !ask.event.in_loader
}

/// Whether a Python process asks it to import. An lstat is not: importlib follows links; it is
/// `realpath`, and counts as a repeated stat if it repeats.
fn is_import(ask: &Ask, named: &HashSet<Vec<u8>>, packages: &HashSet<Package>) -> bool {
    const O_DIRECTORY: u64 = 0o200000;
    let is_directory = ask.kind == Kind::List || ask.event.flags & O_DIRECTORY != 0;
    if is_directory && ask.kind != Kind::Stat && !packages.contains(&(ask.process(), ask.path)) {
        return false;
    }
    match ask.kind {
        Kind::Change | Kind::Open if is_bytecode(ask.path) => true,
        Kind::Open | Kind::Stat | Kind::List => {
            let guessed = ask.why.cause == Cause::PythonImport;
            !ask.is_nofollow() && (guessed || named.contains(ask.path))
        }
        _ => false,
    }
}

/// A directory that a process asked for a module's file in.
type Package<'a> = (ProcessId, &'a [u8]);

/// The directories in which modules were looked for. Python lists no other to import; a program
/// that is written in Python may.
fn packages<'a>(survey: &Survey<'a>) -> HashSet<Package<'a>> {
    let asks = survey.free().map(|(_, ask)| ask).filter(|ask| is_python(ask));
    let files =
        asks.filter(|ask| matches!(ask.kind, Kind::Open | Kind::Stat) && !ask.is_nofollow());
    files
        .filter(|ask| is_module(ask.split().1))
        .flat_map(|ask| {
            let directory = ask.split().0;
            let (above, name) = split(directory);
            let package = if name == b"__pycache__" { above } else { directory };
            [(ask.process(), directory), (ask.process(), package)]
        })
        .collect()
}

fn is_module(name: &[u8]) -> bool {
    [&b".py"[..], b".pyc", b".so"].iter().any(|end| name.ends_with(end))
}

/// Whether it is a file of a `__pycache__` directory, or such a directory.
fn is_bytecode(path: &[u8]) -> bool {
    let (above, name) = split(path);
    name == b"__pycache__" || split(above).1 == b"__pycache__"
}

/// The directory of `sys.path` that a path is in: the nearest above it that PYTHONPATH names or
/// that Python's site(1) sets up.
fn entry_of<'p>(path: &'p [u8], named: &HashSet<Vec<u8>>) -> Option<&'p [u8]> {
    let mut directory = path;
    while directory.len() > 1 {
        let (above, name) = split(directory);
        if named.contains(directory) || is_site(name) || is_library(name, above) {
            return Some(directory);
        }
        directory = above;
    }
    None
}

fn is_site(name: &[u8]) -> bool {
    matches!(name, b"site-packages" | b"dist-packages" | b"lib-dynload")
        || (name.starts_with(b"python") && name.ends_with(b".zip"))
}

/// The standard library: `lib/python3.11`.
fn is_library(name: &[u8], above: &[u8]) -> bool {
    let is_version = |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit);
    let (_, parent) = split(above);
    name.strip_prefix(b"python").is_some_and(is_version) && matches!(parent, b"lib" | b"lib64")
}

/// The environment that a directory of `sys.path` belongs to; none for the system's own.
fn prefix_of(directory: &[u8]) -> Option<&[u8]> {
    let (above, name) = split(directory);
    let library = if is_site(name) { above } else { directory };
    let (lib, python) = split(library);
    let (prefix, _) = split(lib);
    let is_own = !matches!(prefix, b"" | b"/" | b"/usr" | b"/usr/local");
    (is_library(python, lib) && is_own).then_some(prefix)
}
