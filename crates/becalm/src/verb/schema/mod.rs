//! `becalm schema`.

mod answers;
mod list;

use anyhow::anyhow;

use crate::exit::Failure;
use answers::{ANSWERS, AnswerSchema};
use list::SchemaList;

/// Print the JSON Schema of what a verb answers with --json; without a verb, list them
///
/// They are of draft 2020-12. Within a version fields are only ever added, so each of them allows
/// fields that it does not name.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm schema
  becalm schema check > becalm.check.schema.json
  becalm schema elf tree")]
pub struct SchemaArgs {
    /// Print the list as one JSON object (docs/schema/becalm.schema.md); a schema is JSON as it is
    #[arg(long)]
    json: bool,

    /// The verb, in all its words
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &SchemaArgs) -> Result<u8, Failure> {
    if args.verb.is_empty() {
        term::print_answer(args.json, &SchemaList::of_all(), |columns| {
            SchemaList::of_all().render(columns)
        })?;
        return Ok(0);
    }
    let words = args.verb.join(" ");
    let answer = of(&words).ok_or_else(|| {
        let words = term::plain(&words);
        Failure::of_usage(anyhow!("{words}: no verb with a schema; becalm schema lists them"))
    })?;
    term::print(&term::json(&answer.schema())?)?;
    Ok(0)
}

/// The schema of what is written under these words.
fn of(words: &str) -> Option<&'static AnswerSchema> {
    let words = match words.rsplit_once(' ') {
        // Its subcommands answer alike.
        Some((verb @ "modules cache", _)) => verb,
        // It says what it has made, as that does.
        _ if words == "modules watch" => "modules index",
        _ => words,
    };
    ANSWERS.iter().find(|answer| answer.verb == words)
}

/// Whether there is one.
#[cfg(test)]
pub fn has(words: &str) -> bool {
    of(words).is_some()
}
