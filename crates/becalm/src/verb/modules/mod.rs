//! `becalm modules`: trees of modulefiles for Environment Modules and Lmod.

pub mod answer;
pub mod audit;
mod avail;
pub mod cache;
pub mod hook;
pub mod index;
pub mod remembered;
pub mod tidy;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::exit::Failure;

/// See and calm what Environment Modules and Lmod ask of a filesystem
///
/// Each has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm modules audit
  becalm modules audit --as alice /apps/modulefiles
  becalm modules tidy --dry-run /apps/modulefiles
  becalm modules cache check /apps/modulefiles
  becalm modules index /apps/modulefiles
  becalm modules answer bash load gcc")]
pub struct ModulesArgs {
    #[command(subcommand)]
    verb: ModulesVerb,
}

#[derive(clap::Subcommand)]
enum ModulesVerb {
    Answer(answer::ModulesAnswerArgs),
    Audit(audit::ModulesAuditArgs),
    Avail(avail::ModulesAvailArgs),
    Cache(cache::ModulesCacheArgs),
    Command(avail::CommandArgs),
    Hook(hook::ModulesHookArgs),
    Index(index::ModulesIndexArgs),
    Remembered(remembered::ModulesRememberedArgs),
    Tidy(tidy::ModulesTidyArgs),
}

/// Answers `avail`, and what the hook asks, before the command line's whole tree is made, which
/// takes longer than the answer, and would keep a `--` of the hook's to itself. None for all other
/// words, and where an option of becalm's own is among those of `avail`.
pub fn at_once(words: &[OsString]) -> Option<Result<u8, Failure>> {
    let [_, modules, verb, words @ ..] = words else { return None };
    if modules != "modules" {
        return None;
    }
    match (verb.to_str()?, words) {
        ("avail", [first, ..]) if first.as_bytes().starts_with(b"--") => None,
        ("avail", words) => Some(avail::at_once(words)),
        ("answer", words) => answer::at_once(words),
        ("command", [option, shell, words @ ..]) if option == "--or-run" => {
            Some(avail::of_words(words, shell.to_str()))
        }
        ("command", words) => Some(avail::of_words(words, None)),
        _ => None,
    }
}

/// Runs the verb.
pub fn run(args: &ModulesArgs) -> Result<u8, Failure> {
    match &args.verb {
        ModulesVerb::Answer(args) => answer::run(args),
        ModulesVerb::Audit(args) => audit::run(args),
        ModulesVerb::Avail(args) => avail::run(args),
        ModulesVerb::Cache(args) => cache::run(args),
        ModulesVerb::Command(args) => avail::command(args),
        ModulesVerb::Hook(args) => hook::run(args),
        ModulesVerb::Index(args) => index::run(args),
        ModulesVerb::Remembered(args) => remembered::run(args),
        ModulesVerb::Tidy(args) => tidy::run(args),
    }
}
