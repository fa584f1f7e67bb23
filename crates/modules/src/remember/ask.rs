//! A question answered from memory, or given to the tool.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use launch::{CannotStart, Command, Ended};
use watch::dependencies::{
    AnswerDependency, DependencyTrace, FileInPlace, FollowedProgram, GOES_ON, StatAttributes,
    WrittenTo, executes_as_itself, follow,
};

use super::give::give;
use super::notes::{ToolNotes, refuses};
use super::programs::{follows, variables};
use super::question::{DecidingSurroundings, ProcessSurroundings};
use super::{
    AnswerOutcome, AnswerStore, AnsweringTool, ModuleQuestion, RememberedAnswer, ToolLanguage,
};

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The tool cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    NoTool {
        /// Its script.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The tool cannot be run.
    #[error(transparent)]
    CannotStart(#[from] CannotStart),
}

impl AskError {
    /// The exit status of becalm for it.
    pub fn exit_status(&self) -> u8 {
        match self {
            AskError::NoTool { .. } => 125,
            AskError::CannotStart(why) => why.exit_status(),
        }
    }
}

/// What is known of a question.
#[derive(Debug)]
pub enum AnswerState {
    /// It was not asked yet.
    NotAsked,
    /// It was, and this has changed since.
    Changed(RememberedAnswer, AnswerDependency),
    /// It was, and all is as it was.
    Holds(RememberedAnswer),
}

/// What is known of a question as it is asked here, or else as it was last asked; wherever its answer went to.
pub fn state(question: &ModuleQuestion, store: &AnswerStore) -> AnswerState {
    let deciding: DecidingSurroundings = store.get(&question.name()).unwrap_or_default();
    let here = ProcessSurroundings::of_any_descriptors().filter_map(|surroundings| {
        let kept: RememberedAnswer = store.get(&question.name_here(&surroundings, &deciding))?;
        (kept.question == *question).then_some(kept)
    });
    let anywhere = || {
        let answers = store.answers().unwrap_or_default();
        answers.into_iter().filter(|answer| answer.question == *question)
    };
    // Of two within a second, what was disturbed came first.
    let is_whole =
        |answer: &RememberedAnswer| !matches!(answer.outcome, AnswerOutcome::Disturbed(_));
    let order = |answer: &RememberedAnswer| (answer.answered, is_whole(answer));
    let kept = here.max_by_key(order).or_else(|| anywhere().max_by_key(order));
    let Some(kept) = kept else {
        return AnswerState::NotAsked;
    };
    match kept.changed_among(|dependency| !dependency.is_of_process()).cloned() {
        Some(changed) => AnswerState::Changed(kept, changed),
        None => AnswerState::Holds(kept),
    }
}

/// What is kept of a question as it is asked here, if all is as it was.
fn kept(
    surroundings: &ProcessSurroundings,
    question: &ModuleQuestion,
    store: &AnswerStore,
) -> Option<RememberedAnswer> {
    let deciding: DecidingSurroundings = store.get(&question.name())?;
    let kept: RememberedAnswer = store.get(&question.name_here(surroundings, &deciding))?;
    (kept.question == *question && kept.changed().is_none()).then_some(kept)
}

/// What of who asks, and of where, the answer to a question depends on, in words; nothing if it was not
/// asked yet.
pub fn surroundings(question: &ModuleQuestion, store: &AnswerStore) -> Vec<String> {
    let deciding: Option<DecidingSurroundings> = store.get(&question.name());
    deciding.map_or_else(Vec::new, |deciding| deciding.said())
}

/// How long a machine or filesystem is taken to be slow that was.
const SLOW: Duration = Duration::from_secs(600);

/// Answers a question from memory; else as the tool does, which is followed where that may be of use,
/// and what it answers is kept if it can be. What must not be done twice, this process becomes the tool
/// for, and does not return. What `after` makes of standard output comes after an answer.
///
/// This process must have one thread.
///
/// # Errors
/// [`AskError`].
pub fn ask(
    question: &ModuleQuestion,
    store: Option<&AnswerStore>,
    after: impl Fn(&[u8]) -> Option<String>,
) -> Result<Ended, AskError> {
    // Without one of them, nothing is remembered.
    let store = store.filter(|_| !shells_complain());
    let memory = store.and_then(|store| Some((store, ProcessSurroundings::own()?)));
    let mut follow = true;
    if let Some((store, surroundings)) = &memory
        && let Some(kept) = kept(surroundings, question, store)
    {
        let age = kept.age();
        match kept.outcome {
            AnswerOutcome::Answered { output, pager, ended } => {
                if let Some(ended) = given(output, &pager, ended, &after) {
                    return Ok(ended);
                }
                // It fails as the tool does.
                follow = false;
            }
            AnswerOutcome::Unrepeatable(_) => follow = false,
            AnswerOutcome::Disturbed(why) => follow = why != GOES_ON || age > SLOW,
        }
    }
    let tool = AnsweringTool::at(&question.script)
        .map_err(|error| AskError::NoTool { path: question.script.clone(), error })?;
    if let Some((store, surroundings)) = &memory
        && follow
        && let Some(ended) = followed(&tool, question, surroundings, store, &after)
    {
        return Ok(ended);
    }
    let command = Command::of(tool.argv(None, question));
    Err(launch::replace(&command, &[]).into())
}

/// Writes an answer; none where it cannot be written.
fn given(
    mut output: Vec<(WrittenTo, Vec<u8>)>,
    pager: &[Vec<u8>],
    ended: Ended,
    after: impl Fn(&[u8]) -> Option<String>,
) -> Option<Ended> {
    let stdout = output.iter().filter(|(to, _)| *to == WrittenTo::Stdout);
    let stdout: Vec<u8> = stdout.flat_map(|(_, text)| text.clone()).collect();
    output.extend(after(&stdout).map(|more| (WrittenTo::Stdout, more.into_bytes())));
    give(&output, pager, ended)
}

/// Have the loader show what a process is, of which being followed is a part, or tell another library of it (ld.so(8)).
const SHOWING: [&str; 4] = ["LD_SHOW_AUXV", "LD_DEBUG", "LD_TRACE_LOADED_OBJECTS", "LD_AUDIT"];

/// Whether bash, which Lmod starts where it is called sh, complains of its environment before it does anything.
fn shells_complain() -> bool {
    std::env::vars_os().any(|(name, value)| bash_complains(name.as_bytes(), &value))
}

/// Whether bash complains of a variable (variables.c: `adjust_shell_level`, `set_compat_level`,
/// `initialize_shell_variables`): functions that it has exported itself are whole.
fn bash_complains(name: &[u8], value: &OsStr) -> bool {
    /// It says so from 1,000 on; each shell is one deeper.
    const DEEPEST: u32 = 900;
    match name {
        b"SHLVL" => {
            let level = value.to_str().and_then(|level| level.parse::<u32>().ok());
            level.is_none_or(|level| level > DEEPEST)
        }
        b"BASH_COMPAT" => true,
        name if name.starts_with(b"BASH_FUNC_") => {
            let value = value.as_bytes();
            !value.starts_with(b"() {") || !value.ends_with(b"}")
        }
        _ => false,
    }
}

/// Whether lua evaluates something before any prelude: LUA_INIT, or LUA_INIT_5_3 and the like (lua(1)).
fn is_lua_initialized(language: ToolLanguage) -> bool {
    let mut names = std::env::vars_os().map(|(name, _)| name);
    language == ToolLanguage::Lua && names.any(|name| name.as_bytes().starts_with(b"LUA_INIT"))
}

/// Gives the answer of a tool that is followed, and keeps it; none where the tool is to be run.
fn followed(
    tool: &AnsweringTool,
    question: &ModuleQuestion,
    surroundings: &ProcessSurroundings,
    store: &AnswerStore,
    after: impl Fn(&[u8]) -> Option<String>,
) -> Option<Ended> {
    let interpreter = Command::of(vec![tool.interpreter.clone()]).file().ok()?;
    if !tool.is_plain()
        || !executes_as_itself(&interpreter)
        || SHOWING.iter().any(|name| std::env::var_os(name).is_some())
        || is_lua_initialized(tool.language)
    {
        return None;
    }
    let terminal = AnswerDependency::window_size(0);
    let prelude = match tool.language.prelude() {
        Some(text) => Some(prelude_path(&text)?),
        None => None,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let began = now.as_secs() as i64;
    let seldom = match tool.language.seldom_tcl() {
        Some(text) => Some(prelude_path(&text)?),
        None => None,
    };
    let preludes: Vec<PathBuf> =
        prelude.iter().chain(&seldom).map(|(path, _)| path.clone()).collect();
    let seldom_path = seldom.as_ref().map_or(Path::new(""), |(path, _)| path);
    let tcl = TclPrelude::new(tool.language, &terminal, seldom_path);
    let in_place_of = |path: &CStr| tcl.in_place_of(path);
    let program = FollowedProgram {
        program: &interpreter,
        preludes: &preludes,
        in_place_of: &in_place_of,
        follows,
        refuses,
    };
    let path = prelude.as_ref().map(|(path, _)| path.as_path());
    let argv = tool.argv(path, question);
    let trace = follow(&Command::of(argv), program).ok()?;
    drop((prelude, seldom));
    let notes = ToolNotes::of(&trace.notes);
    let ended = trace.end.as_ref().ok();
    // Nobody waits for what is written down of it.
    let ended = ended.and_then(|end| given(trace.output.clone(), &notes.pager, *end, after));
    let _ = keep(question, surroundings, store, (began, terminal), notes, trace);
    ended
}

/// The path of a prelude that is evaluated by a word of the command, as long as its file is open.
fn prelude_path(text: &str) -> Option<(PathBuf, OwnedFd)> {
    let file = prelude_file(text.as_bytes()).ok()?;
    // By its number, as a link is one path more that an interpreter looks at.
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    // Without /proc it cannot be read.
    File::open(&path).ok()?;
    Some((path, file))
}

/// What Tcl reads in the place of its own init.tcl: the same, and a prelude. So it evaluates the tool's
/// script as it does without becalm; a prelude that did would have Tcl compile all of it first, which
/// takes a tenth of what the tool takes. tclsh does so once; in Lmod's process, each interpreter does, of
/// which each modulefile in Tcl has two.
struct TclPrelude {
    language: ToolLanguage,
    text: String,
    made: RefCell<Option<MadeInit>>,
}

/// An init.tcl with a prelude.
struct MadeInit {
    path: CString,
    in_place: FileInPlace,
    /// Open, it is there.
    _file: OwnedFd,
}

impl TclPrelude {
    fn new(language: ToolLanguage, terminal: &AnswerDependency, seldom: &Path) -> TclPrelude {
        let stty = stty(terminal).unwrap_or_default();
        let text = language.tcl_prelude().replace("%TERMINAL%", &stty);
        let text = text.replace("%SELDOM%", &seldom.to_string_lossy());
        TclPrelude { language, text, made: RefCell::new(None) }
    }

    fn in_place_of(&self, path: &CStr) -> Option<FileInPlace> {
        if !path.to_bytes().ends_with(b"/init.tcl") {
            return None;
        }
        if let Some(made) = &*self.made.borrow() {
            if self.language == ToolLanguage::Tcl {
                return None;
            }
            if *made.path == *path && StatAttributes::of(path, true) == Ok(made.in_place.told) {
                return Some(made.in_place.clone());
            }
        }
        let (in_place, file) = self.make(path)?;
        self.made.replace(Some(MadeInit {
            path: path.to_owned(),
            in_place: in_place.clone(),
            _file: file,
        }));
        Some(in_place)
    }

    fn make(&self, path: &CStr) -> Option<(FileInPlace, OwnedFd)> {
        // That of Debian's 8.6 has 25 kB.
        const MOST: u64 = 1 << 20;
        // A package may have a file of that name, too. Tcl 9 is called tcl.
        const TCLS_OWN: &[u8] = b"package require -exact tcl ";
        let mut init = File::open(OsStr::from_bytes(path.to_bytes())).ok()?;
        let opened = CString::new(format!("/proc/self/fd/{}", init.as_raw_fd())).ok()?;
        let told = StatAttributes::of(&opened, true).ok().filter(|told| told.size < MOST)?;
        let mut whole = Vec::new();
        init.read_to_end(&mut whole).ok()?;
        let is_tcls_own = |line: &[u8]| {
            line.get(..TCLS_OWN.len()).is_some_and(|text| text.eq_ignore_ascii_case(TCLS_OWN))
        };
        if !whole.split(|byte| *byte == b'\n').any(is_tcls_own) {
            return None;
        }
        whole.push(b'\n');
        whole.extend(self.text.as_bytes());
        let file = prelude_file(&whole).ok()?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Some((FileInPlace { path: CString::new(path).ok()?, told }, file))
    }
}

/// What `stty size` does here, as a prelude is told: a Tcl list of a return code and a text.
fn stty(terminal: &AnswerDependency) -> Option<String> {
    match terminal.rows_and_columns()? {
        Ok((rows, columns)) => Some(format!("0 {{{rows} {columns}}}")),
        Err(libc::ENOTTY) => {
            Some("1 {stty: 'standard input': Inappropriate ioctl for device}".to_owned())
        }
        Err(_) => None,
    }
}

/// A file without a name that the tool inherits, with a number so high that the ones that the tool
/// opens are numbered as without it.
fn prelude_file(text: &[u8]) -> io::Result<OwnedFd> {
    const NUMBER: i32 = 200;
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("becalm-prelude", flags)?);
    file.write_all(text)?;
    // SAFETY: F_DUPFD makes a descriptor that is nobody else's; it closes at no exec.
    unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, NUMBER) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Keeps what came of a question.
fn keep(
    question: &ModuleQuestion,
    surroundings: &ProcessSurroundings,
    store: &AnswerStore,
    (began, terminal): (i64, AnswerDependency),
    notes: ToolNotes,
    mut trace: DependencyTrace,
) -> io::Result<()> {
    if !notes.begun || notes.lacks_variables && trace.end.is_ok() {
        return Ok(());
    }
    if notes.terminal {
        trace.dependencies.push(terminal);
    }
    trace.dependencies.extend(notes.clock(began, &trace.dependencies));
    if notes.working_directory {
        let directory = std::env::current_dir()?.into_os_string().into_vec();
        trace.dependencies.push(AnswerDependency::WorkingDirectory(directory));
    }
    let is_directory =
        |dependency: &AnswerDependency| matches!(dependency, AnswerDependency::WorkingDirectory(_));
    let mut deciding = DecidingSurroundings {
        variables: notes.variables,
        whole_environment: notes.whole_environment,
        working_directory: trace.dependencies.iter().any(is_directory),
    };
    for program in &trace.programs {
        match variables(program) {
            Some(names) => {
                deciding.variables.extend(names.iter().map(|name| name.as_bytes().into()))
            }
            None => deciding.whole_environment = true,
        }
    }
    let known: Option<DecidingSurroundings> = store.get(&question.name());
    let is_new = known.is_none();
    let mut all = known.unwrap_or_default();
    if all.take_in(&deciding) || is_new {
        store.put(&question.name(), &all)?;
    }
    let name = question.name_here(surroundings, &all);
    store.put(&name, &RememberedAnswer::of(question.clone(), trace, notes.pager, began))?;
    if store.is_full() { store.tidy() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_it_exports_itself_bash_does_not_complain() {
        let complains = |name: &str, value: &str| bash_complains(name.as_bytes(), value.as_ref());
        for (name, value) in [
            ("SHLVL", "3"),
            ("BASH_FUNC_module%%", "() {  _module_raw \"$@\" 2>&1\n}"),
            ("BASH", "x"),
        ] {
            assert!(!complains(name, value), "{name}");
        }
        for (name, value) in [
            ("SHLVL", "1001"),
            ("SHLVL", "deep"),
            ("BASH_COMPAT", "foo"),
            ("BASH_FUNC_x%%", "() { echo broken"),
            ("BASH_FUNC_x%%", "() { :; }; echo shock"),
        ] {
            assert!(complains(name, value), "{name}={value}");
        }
    }
}
