//! `becalm modules explain`.

pub mod view;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use modules::audit::Timeout;
use modules::explain::{Subcommand, explain};
use modules::site::Environment;
use modules::tree::{ModulepathTree, TreeEntryKind, WalkLimits, walk};

use super::site_options;
use crate::exit::Failure;
use view::ModulesExplain;

/// Say what the calls of one `module` command are for, and what would make it cheaper
///
/// Runs the site's own Modules once for these words, under becalm's recorder, and sorts its calls
/// by cause: Tcl's start, Modules' own code, the configuration, directories, rc files, modulefiles
/// opened for the magic cookie, siblings. The shell is not changed. Modulefiles are code: root runs
/// them as nobody.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm modules explain avail
  becalm modules explain load gcc
  becalm modules explain --as alice -- -t avail
  becalm modules explain --json load gcc | jq '.purposes'")]
pub struct ModulesExplainArgs {
    /// As which user to run it (name or number; root only) [default: you; for root, nobody]
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,

    /// How many seconds it may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,

    /// The modulecmd.tcl to ask; by default the one that `module` runs
    #[arg(long, value_name = "FILE")]
    modulecmd: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.modules.explain.md)
    #[arg(long)]
    json: bool,

    /// What one types after `module`
    #[arg(value_name = "WORD", required = true, trailing_var_arg = true)]
    words: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &ModulesExplainArgs) -> Result<u8, Failure> {
    let subcommand = Subcommand::of(&args.words).map_err(Failure::of_usage)?;
    let environment = Environment::own();
    let site = site_options::site(args.modulecmd.as_deref(), &environment)?;
    let paths = site_options::modulepaths(&[], &environment)?;
    let paths: Vec<PathBuf> = paths.into_iter().map(|(path, _)| path).collect();
    let trees: Vec<ModulepathTree> = paths
        .iter()
        .map(|path| walk(path, WalkLimits { cookies: false, ..WalkLimits::default() }))
        .collect();
    if let Some(path) = endless(&trees) {
        let path = term::plain(&path.to_string_lossy());
        return Err(
            anyhow!("{path} is a FIFO or a device: Modules would wait for it for ever").into()
        );
    }
    let user = site_options::user(args.user.as_deref())?;
    let timeout = Timeout(Duration::from_secs(u64::from(args.timeout)));
    let explained = explain(&args.words, &subcommand, &site, &paths, user.as_ref(), timeout)
        .map_err(|why| anyhow!("module {}: {why}", term::shell_line(&args.words)))?;
    let name = user.map(|user| user.name);
    let answer = ModulesExplain::of(&args.words, &site, name, explained, &paths);
    term::print_answer(args.json, &answer, |columns| answer.render(columns))?;
    Ok(0)
}

/// What opening would wait for.
fn endless(trees: &[ModulepathTree]) -> Option<PathBuf> {
    trees.iter().find_map(|tree| {
        let special = tree.entries.iter().find(|entry| entry.kind == TreeEntryKind::Special)?;
        Some(tree.root.join(&special.name))
    })
}
