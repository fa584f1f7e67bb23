//! `becalm elf hook`.

pub mod view;

use anyhow::{Context, anyhow};
use clap::{Args, Command, FromArgMatches};

use super::bind::BindFlags;
use crate::exit::{Failure, USAGE};
use view::ElfHook;

/// Python code that has EasyBuild or Spack bind what it has just installed
///
/// For EasyBuild a file for its option --hooks. Spack runs no code of a site's after an installation; for it, a
/// command `spack bind`, to be typed or put behind `spack install`. How to use it is said in its first lines.
#[derive(Args)]
#[command(after_help = "Examples:
  becalm elf hook easybuild > /apps/easybuild/becalm_bind.py
  becalm elf hook easybuild -- --grow --leave libmpi.so.40
  becalm elf hook spack > /apps/spack-becalm/becalm/cmd/bind.py")]
pub struct ElfHookArgs {
    /// What installs
    #[arg(value_name = "easybuild|spack", value_parser = ["easybuild", "spack"])]
    installer: String,

    /// Options of becalm elf bind that say how it binds
    #[arg(last = true, value_name = "OPTION", allow_hyphen_values = true)]
    options: Vec<String>,

    /// Print one JSON object (docs/schema/becalm.elf.hook.md)
    #[arg(long)]
    json: bool,
}

/// Where the code has the command that binds.
const BIND: &str = "@BIND@";

/// Runs the verb.
pub fn run(args: &ElfHookArgs) -> Result<u8, Failure> {
    let becalm = std::env::current_exe().context("cannot find becalm's own file")?;
    let becalm = becalm.to_str().context("becalm's own path is no text")?;
    are_options(&args.options)?;
    let mut words = vec![becalm, "elf", "bind"];
    words.extend(args.options.iter().map(String::as_str));
    let code = match args.installer.as_str() {
        "spack" => include_str!("spack.py"),
        _ => include_str!("easybuild.py"),
    };
    // A list of texts in JSON is one in Python, too.
    let words = serde_json::to_string(&words).map_err(anyhow::Error::from)?;
    let code = code.replace(BIND, &words.replace("\",\"", "\", \""));
    match args.json {
        true => term::print(&term::json(&ElfHook::of(&args.installer, code))?)?,
        false => term::print(&code)?,
    }
    Ok(0)
}

/// Refuses what `elf bind` would: a hook that fails each time would be found out only after an
/// installation.
fn are_options(options: &[String]) -> Result<(), Failure> {
    let bind = BindFlags::augment_args(Command::new("bind").disable_help_flag(true));
    let words = ["bind"].into_iter().chain(options.iter().map(String::as_str));
    let given = bind.try_get_matches_from(words).map_err(|why| {
        let why = why.to_string();
        let line = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure { status: USAGE, error: anyhow!("behind --, options of elf bind: {line}") }
    })?;
    let flags = BindFlags::from_arg_matches(&given).map_err(anyhow::Error::from)?;
    flags.options().map(drop)
}
