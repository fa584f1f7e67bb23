//! `becalm modules remembered`.

pub mod view;

use anyhow::Context;
use modules::remember::AnswerStore;

use crate::exit::Failure;
use view::ModulesRemembered;

/// The answers of `module` that are remembered, and what is not and why
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm modules remembered
  becalm modules remembered --forget")]
pub struct ModulesRememberedArgs {
    /// Forget all of them
    #[arg(long)]
    forget: bool,

    /// Print one JSON object (docs/schema/becalm.modules.remembered.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ModulesRememberedArgs) -> Result<u8, Failure> {
    let store = AnswerStore::below(&remedy::state_directory()?);
    let at = || store.directory().display().to_string();
    let mut answers = store.answers().with_context(|| format!("cannot list {}", at()))?;
    if args.forget {
        store.forget().with_context(|| format!("cannot empty {}", at()))?;
        answers.clear();
    }
    let answer = ModulesRemembered::of(&answers);
    match args.json {
        true => term::print(&term::json(&answer)?)?,
        false => term::print(&answer.render())?,
    }
    Ok(0)
}
