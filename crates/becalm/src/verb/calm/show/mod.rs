//! `becalm calm show`.

mod launched;
mod script;
pub mod view;

use std::path::PathBuf;

use anyhow::Context;
use cure::CalmFile;

use crate::exit::Failure;
use script::{LaunchScript, ScriptKind};
use view::CalmShown;

/// Say what a calm file does at launch and what it saves; or print it for a wrapper script, a
/// modulefile or a batch script
///
/// Only the calm file is read. Whether what it relies on is as it was says `becalm calm check`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm calm show app.calm
  becalm calm show --as shell app.calm > bin/app
  becalm calm show --as modulefile app.calm > modulefiles/app/calm
  becalm calm show --as lua app.calm > modulefiles/app/calm.lua
  becalm calm show --as slurm app.calm > app.sbatch")]
pub struct CalmShowArgs {
    /// The calm file
    #[arg(value_name = "CALM")]
    file: PathBuf,

    /// Print it as: a wrapper that stands for the command's program (shell), a modulefile in Tcl
    /// (modulefile) or for Lmod in Lua (lua), a batch script (slurm)
    #[arg(long = "as", value_name = "KIND", value_enum)]
    kind: Option<ScriptKind>,

    /// Print one JSON object (docs/schema/becalm.calm.show.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &CalmShowArgs) -> Result<u8, Failure> {
    let calm = CalmFile::read(&args.file)?;
    let script = args.kind.map(|kind| {
        let path = std::path::absolute(&args.file).context("cannot tell the working directory")?;
        LaunchScript::of(kind, &path, &calm)
    });
    let script = script.transpose()?;
    match (args.json, script) {
        (false, Some(script)) => term::print(&script.text)?,
        (json, script) => {
            let shown = CalmShown::of(&args.file, &calm, script);
            term::print_answer(json, &shown, |columns| shown.render(columns))?;
        }
    }
    Ok(0)
}
