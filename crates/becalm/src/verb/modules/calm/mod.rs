//! `becalm modules calm`.

mod apply;
mod places;
pub mod view;

use std::path::PathBuf;

use modules::calm::CalmPlan;
use modules::site::{Environment, User};

use super::site_options;
use crate::again;
use crate::exit::{Failure, NO};
use apply::Calming;
use view::ModulesCalm;

pub use places::CalmPlaces;

/// Calm modulepaths: tidy, cache, index, a hook for shells and a timer, as one plan
///
/// Without --apply it says what would be done, and writes nothing. What does not help, belongs to
/// somebody else, or would change what anybody sees or how long a load takes, is left out, with the
/// reason. All that is applied is taken back by one `becalm undo`. Status 1 where something that was
/// planned could not be done, or all is left out.
#[derive(clap::Args)]
#[command(after_help = "\
A hook is a file that shells evaluate. With --keep-fresh, a service and a timer of systemd are
written; they run once you enable them.

Examples:
  becalm modules calm
  becalm modules calm --apply /apps/modulefiles
  becalm modules calm --apply --keep-fresh /apps/modulefiles
  becalm modules calm --json | jq '.parts[] | select(.state == \"left_out\")'")]
pub struct ModulesCalmArgs {
    /// The modulepaths, in the order in which they are searched; by default those of $MODULEPATH
    #[arg(value_name = "MODULEPATH")]
    modulepaths: Vec<PathBuf>,

    /// Say what would be done, and write nothing: the default
    #[arg(long, conflicts_with = "apply")]
    dry_run: bool,

    /// Do it
    #[arg(long)]
    apply: bool,

    /// Also write a service and a timer of systemd that keep indexes and caches true
    #[arg(long)]
    keep_fresh: bool,

    /// Whose view must stay the same (name or number; root only). May be repeated
    #[arg(long = "as", value_name = "USER")]
    users: Vec<String>,

    /// Where files for shells go [default: $BECALM_MODULES_HOOKS, else /etc/profile.d for root and
    /// ~/.config/becalm for others]
    #[arg(long, value_name = "DIRECTORY")]
    hooks: Option<PathBuf>,

    /// Where units of systemd go
    #[arg(long, value_name = "DIRECTORY", requires = "keep_fresh")]
    units: Option<PathBuf>,

    /// The modulecmd.tcl to ask; by default the one that `module` runs
    #[arg(long, value_name = "FILE")]
    modulecmd: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.modules.calm.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ModulesCalmArgs) -> Result<u8, Failure> {
    let environment = Environment::own();
    let paths = site_options::modulepaths(&args.modulepaths, &environment)?;
    let site = site_options::site(args.modulecmd.as_deref(), &environment)?;
    let mut users = Vec::new();
    for name in &args.users {
        users.push(User::named(name)?);
    }
    let places = CalmPlaces::of(args.hooks.as_deref(), args.units.as_deref(), &environment)?;
    let mut plan = places.plan(&site, &environment, &paths, &users, args.keep_fresh)?;
    if plan.is_empty() || !args.apply {
        let next = if plan.is_empty() { String::new() } else { again::with(2, &["--apply"]) };
        print(args, &plan, None, next)?;
        return Ok(if plan.is_hopeless() { NO } else { 0 });
    }
    let was_planned = plan.parts.clone();
    let title = format!("modules calm {}", term::shell_line(paths.iter().map(|(path, _)| path)));
    let mut calming = Calming::new(&site, &environment, title)?;
    let applied = calming.apply(&mut plan, args.modulecmd.as_deref());
    let id = calming.id();
    print(args, &plan, id.as_deref(), view::next(&plan, id.as_deref()))?;
    applied?;
    Ok(if view::is_done(&was_planned, &plan.parts) { 0 } else { NO })
}

fn print(
    args: &ModulesCalmArgs,
    plan: &CalmPlan,
    applied: Option<&str>,
    next: String,
) -> Result<(), Failure> {
    let answer = ModulesCalm::of(plan, args.apply, applied, next);
    Ok(term::print_answer(args.json, &answer, |columns| answer.render(columns))?)
}
