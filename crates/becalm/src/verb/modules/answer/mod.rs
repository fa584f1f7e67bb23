//! `becalm modules answer`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use modules::avail::hook::Shell;
use modules::remember::{
    AnswerOutcome, AnswerState, AnswerStore, ModuleQuestion, ask, state, surroundings,
};
use modules::site::{Environment, ModulesSite};
use term::number::counted;
use watch::dependencies::AnswerDependency;

use super::avail;
use super::remembered::view;
use crate::exit::{Failure, NO};

/// The answer of Modules itself to a `module` command, from memory where it would be the same
///
/// The site's own tool, modulecmd.tcl or Lmod, is run once, and its answer kept with all that it depended on: files,
/// directories, variables of the environment and what else it asked for. As long as all of that is as
/// it was, the same bytes are given again, with the same exit status. What reads the clock, draws
/// random numbers, starts programs or writes files is left to Modules each time.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  becalm modules answer bash whatis
  eval \"$(becalm modules answer bash load gcc)\"
  becalm modules answer --why bash load gcc")]
pub struct ModulesAnswerArgs {
    /// Do not answer: say whether the answer is remembered, and why not
    #[arg(long)]
    why: bool,

    /// The tool; by default $MODULES_CMD, $LMOD_CMD, or where packages put modulecmd.tcl
    #[arg(long, value_name = "PATH")]
    tool: Option<PathBuf>,

    /// Have `module` ask becalm after an answer that defines it
    #[arg(long, hide = true)]
    hooked: bool,

    /// For which shell the answer is
    #[arg(value_name = "SHELL")]
    shell: OsString,

    /// The words after `module`
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the verb.
pub fn run(args: &ModulesAnswerArgs) -> Result<u8, Failure> {
    let words = [&args.shell].into_iter().chain(&args.words).cloned();
    let way = if args.why { AnsweringWay::Why } else { AnsweringWay::plain(args.hooked) };
    answer(args.tool.as_deref(), way, words.collect())
}

/// What is done with an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnsweringWay {
    Give,
    /// It starts a shell, whose `module` asks becalm from then on.
    GiveHooked,
    Why,
}

impl AnsweringWay {
    fn plain(hooked: bool) -> AnsweringWay {
        if hooked { AnsweringWay::GiveHooked } else { AnsweringWay::Give }
    }
}

/// The same, of words that are not parsed otherwise; none where that is needed.
pub fn at_once(words: &[OsString]) -> Option<Result<u8, Failure>> {
    let (hooked, words) = match words {
        [option, words @ ..] if option == "--hooked" => (true, words),
        words => (false, words),
    };
    let way = AnsweringWay::plain(hooked);
    match words {
        [option, tool, words @ ..] if option == "--tool" => at_once_by(Some(tool), way, words),
        words => at_once_by(None, way, words),
    }
}

fn at_once_by(
    tool: Option<&OsString>,
    way: AnsweringWay,
    words: &[OsString],
) -> Option<Result<u8, Failure>> {
    // Lmod's ml_cmd takes words only.
    if let ([first, words @ ..], Some(tool)) = (words, tool)
        && first == "--"
    {
        return Some(answer(Some(Path::new(tool)), way, words.to_vec()));
    }
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let has_shell = words.first().is_some_and(|shell| !is_option(shell));
    has_shell.then(|| answer(tool.map(Path::new), way, words.to_vec()))
}

fn answer(tool: Option<&Path>, way: AnsweringWay, words: Vec<OsString>) -> Result<u8, Failure> {
    let lmod = lmod();
    let found = ModulesSite::find_command(&Environment::own());
    let is_modules = match tool {
        Some(tool) => found.as_ref().is_ok_and(|found| found == tool),
        None => lmod.is_none(),
    };
    let script = match tool.map(Path::to_owned).or(lmod) {
        Some(script) => script,
        None => found.map_err(Failure::of_command)?,
    };
    // Each file there is looked at before it is believed.
    let store = remedy::unasked_state_directory().map(|state| AnswerStore::below(&state));
    let question = ModuleQuestion::new(&script, words);
    if way == AnsweringWay::Why {
        return why(&question, &store?);
    }
    if is_modules && let Some(shown) = avail_from_index(&question.words) {
        return shown;
    }
    let hook = |answer: &[u8]| match way {
        AnsweringWay::GiveHooked => hooked(&question, answer),
        _ => None,
    };
    let ended = ask(&question, store.as_ref().ok(), hook)
        .map_err(|error| Failure { status: error.exit_status(), error: error.into() })?;
    Ok(ended.pass_on())
}

/// What has the `module` that an answer defines ask becalm.
fn hooked(question: &ModuleQuestion, answer: &[u8]) -> Option<String> {
    let shell = Shell::named(question.words.first()?.to_str()?)?;
    let becalm = std::env::current_exe().ok()?;
    shell.hooked(std::str::from_utf8(answer).ok()?, becalm.to_str()?)
}

/// Lmod, where `module` is Lmod's.
fn lmod() -> Option<PathBuf> {
    let is_other = std::env::var_os("MODULES_CMD").is_some();
    std::env::var_os("LMOD_CMD").filter(|_| !is_other).map(PathBuf::from)
}

/// What an index answers: avail, which would depend on all of its modulepath.
fn avail_from_index(words: &[OsString]) -> Option<Result<u8, Failure>> {
    let (_, words) = words.split_first()?;
    let is_avail = words.iter().any(|word| word == "avail" || word == "av");
    match avail::from_index(is_avail.then_some(words)?)? {
        // Not even written: Modules says so.
        Ok(avail::ASK_MODULES) => None,
        shown => Some(shown),
    }
}

fn not_asked(store: &AnswerStore) -> String {
    match store.refusal() {
        Some((directory, error)) => {
            format!("never remembered: cannot write to {}: {error}", directory.display())
        }
        None => "not asked yet".to_owned(),
    }
}

fn why(question: &ModuleQuestion, store: &AnswerStore) -> Result<u8, Failure> {
    let mut things = Vec::new();
    let (status, text) = match state(question, store) {
        AnswerState::NotAsked => (NO, not_asked(store)),
        AnswerState::Changed(_, what) => {
            (NO, format!("to be asked anew: this has changed: {}", view::dependency(&what)))
        }
        AnswerState::Holds(answer) => match &answer.outcome {
            AnswerOutcome::Answered { .. } => {
                let count = answer.dependencies.len() as u64;
                let on = counted(count, "thing", "things");
                things = depends_on(question, store, &answer.dependencies);
                (0, format!("remembered: depends on {on}, all as they were"))
            }
            AnswerOutcome::Unrepeatable(why) => (NO, format!("never remembered: {why}")),
            AnswerOutcome::Disturbed(why) => (NO, format!("not remembered this time: {why}")),
        },
    };
    let things = things.iter().map(|thing| format!("  {}\n", term::plain(thing)));
    term::print(&format!("{}\n{}", term::plain(&text), things.collect::<String>()))?;
    Ok(status)
}

/// All files and directories, each once, and all else.
fn depends_on(
    question: &ModuleQuestion,
    store: &AnswerStore,
    dependencies: &[AnswerDependency],
) -> Vec<String> {
    let mut things: Vec<String> = dependencies.iter().map(view::dependency).collect();
    things.sort();
    things.dedup_by(|one, before| one.trim_end_matches('/') == before.trim_end_matches('/'));
    let more = surroundings(question, store).into_iter().filter(|thing| !things.contains(thing));
    let more: Vec<_> = more.collect();
    things.extend(more);
    things
}
