//! `becalm run --hugepages`: a command whose memory is in huge pages, so that it forks faster.

use std::ffi::OsString;
use std::path::Path;

use recording::shown_name;
use schemars::JsonSchema;
use script::hugepages::{self, Library};
use serde::Serialize;

/// Whether malloc asks for huge pages.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub struct RunHugepagesArgs {
    /// Have glibc's malloc ask for huge pages, in the command and all that it starts: what has
    /// grown large forks faster; see docs/run.md
    #[arg(long, group = "means")]
    pub hugepages: bool,
}

/// What glibc's malloc is told.
#[derive(Serialize, JsonSchema)]
pub struct AskedHugepages {
    /// `GLIBC_TUNABLES`, as the command has it.
    tunables: String,
    /// Why that is known to do nothing.
    without_effect: Option<String>,
}

/// Sets the tunable, if that is asked for, and says what docs/schema/becalm.run.md describes.
pub fn ask(
    args: &RunHugepagesArgs,
    command: &launch::Command,
    variables: &mut Vec<(OsString, OsString)>,
) -> Option<AskedHugepages> {
    if !args.hugepages {
        return None;
    }
    let users = std::env::var_os(hugepages::VARIABLE);
    let tunables = hugepages::tunables(users.as_deref());
    let why = hugepages::forbidden_by_kernel().or_else(|| library(command).without_effect());
    if let Some(why) = &why {
        term::warn(&format!("--hugepages may have no effect: {why}"));
    }
    let about = AskedHugepages { tunables: shown_name(&tunables), without_effect: why };
    variables.push((hugepages::VARIABLE.into(), tunables));
    Some(about)
}

/// The C library of the command; of what runs it, if it is a script.
fn library(command: &launch::Command) -> Library {
    // What cannot be found or read is said when it is executed.
    let Ok(file) = command.file() else { return Library::Unknown };
    let file = hugepages::interpreter_of_script(&file).unwrap_or(file);
    match loader::ElfObject::read(&file) {
        Ok(object) => Library::of(object.interpreter.as_deref().map(Path::new)),
        Err(_) => Library::Unknown,
    }
}
