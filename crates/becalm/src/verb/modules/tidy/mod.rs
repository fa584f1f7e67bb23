//! `becalm modules tidy`.

mod apply;
pub mod view;

use std::path::PathBuf;

use anyhow::anyhow;
use modules::site::{Environment, ModulesSite, User, modulepath};
use modules::tidy::{Ground, TidyOptions, TidyView, plan, whom_to_ask};

use crate::again;
use crate::exit::{Failure, NO, USAGE};
use crate::verb::undo;
use view::ModulesTidy;

pub use apply::apply;

/// Make `module avail` ask less of the filesystem, where nobody sees or waits otherwise
///
/// Merges rc files into the root of their modulepath and moves strays out of it. Files whose
/// meaning depends on who reads them, or that merging would make `module load` dearer for, stay.
/// With --apply, each of several users is asked before and after with the real command; where an
/// answer or a cost is then another, all is taken back. `becalm undo` takes it back at any time.
#[derive(clap::Args)]
#[command(after_help = "\
The users are, for root, those who own what not everyone may read, and nobody; as root itself,
modulefiles are evaluated only where nobody else may write them.

Examples:
  becalm modules tidy
  becalm modules tidy --apply --as alice --as bob /apps/modulefiles
  becalm modules tidy --no-cookie-checks
  becalm modules tidy --apply --virtual /apps/virtual --slower-load /apps/modulefiles")]
pub struct ModulesTidyArgs {
    /// The modulepaths, in the order in which they are searched; by default those of $MODULEPATH
    #[arg(value_name = "MODULEPATH")]
    modulepaths: Vec<PathBuf>,

    /// Say what would be done, and write nothing: the default
    #[arg(long, conflicts_with = "apply")]
    dry_run: bool,

    /// Change the files, and prove that nobody sees or waits otherwise
    #[arg(long)]
    apply: bool,

    /// Whose view must stay the same (name or number; root only). May be repeated; costs are
    /// taken as the last one
    #[arg(long = "as", value_name = "USER")]
    users: Vec<String>,

    /// Move strays to this directory [default: MODULEPATH.strays]
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "keep_strays")]
    strays: Option<PathBuf>,

    /// Leave strays where they are
    #[arg(long)]
    keep_strays: bool,

    /// Plan for mcookie_check set to eval, and hide what would then be shown
    #[arg(long)]
    no_cookie_checks: bool,

    /// Make a virtual modulepath for each in this directory, and change nothing else
    #[arg(long = "virtual", value_name = "DIRECTORY",
          conflicts_with_all = ["strays", "keep_strays", "no_cookie_checks"])]
    virtual_in: Option<PathBuf>,

    /// Go on even where a `module load` becomes slower
    #[arg(long)]
    slower_load: bool,

    /// The modulecmd.tcl to ask; by default the one that `module` runs
    #[arg(long, value_name = "FILE")]
    modulecmd: Option<PathBuf>,

    /// Also write the plan to this file (docs/schema/becalm.plan.md)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.modules.tidy.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ModulesTidyArgs) -> Result<u8, Failure> {
    let environment = Environment::own();
    let paths = modulepaths(args, &environment)?;
    let site = match &args.modulecmd {
        Some(command) => ModulesSite::at(&std::path::absolute(command)?, &environment)?,
        None => ModulesSite::find(&environment)?,
    };
    let views = views(args, &paths)?;
    let options = options(args)?;
    let tidying = plan(&Ground { site: &site, views: &views }, &options);
    let steps = tidying.to_plan(title(&paths))?;
    if let Some(file) = &args.plan {
        crate::save::whole(file, std::path::Path::new(""), |out| steps.write(out))?;
    }
    let mut shown = ModulesTidy { tidying: &tidying, applied: None, verdict: None, is_good: true };
    if tidying.is_empty() || !args.apply {
        let possible = match steps.steps.is_empty() {
            true => Ok(()),
            false => crate::verb::elf::bind::check(&steps, None),
        };
        let is_offered = possible.is_ok() && !tidying.is_empty();
        print(args, &shown, is_offered)?;
        possible.map_err(|failure| Failure {
            error: failure.error.context("it could not be applied now"),
            ..failure
        })?;
        return Ok(if tidying.is_empty() { NO } else { 0 });
    }
    // The first view is the planner's.
    let asked = &views[1..];
    let (applied, verdict) = apply(&site, &environment, &tidying, &steps, asked)?;
    shown.is_good = verdict.is_good(options.slower_load);
    if let (Some(id), false) = (&applied, shown.is_good) {
        undo::take_back(id)?;
    }
    shown.applied = applied.as_deref();
    shown.verdict = Some(&verdict);
    print(args, &shown, shown.is_good)?;
    Ok(if shown.is_good { 0 } else { NO })
}

fn modulepaths(args: &ModulesTidyArgs, environment: &Environment) -> Result<Vec<PathBuf>, Failure> {
    let usage = |error| Failure { status: USAGE, error };
    if !args.modulepaths.is_empty() {
        return Ok(args.modulepaths.iter().map(std::path::absolute).collect::<Result<_, _>>()?);
    }
    let named = modulepath(environment.get("MODULEPATH").unwrap_or_default());
    if named.is_empty() {
        return Err(usage(anyhow!("MODULEPATH is not set: name the modulepaths to tidy")));
    }
    let odd = named.iter().find(|(_, odd)| odd.is_some());
    if let Some((path, _)) = odd {
        let path = term::plain(&path.to_string_lossy());
        return Err(usage(anyhow!(
            "{path} in MODULEPATH is no absolute path: name the modulepaths to tidy"
        )));
    }
    Ok(named.into_iter().map(|(path, _)| path).collect())
}

/// The trees as the caller sees them, and then as those do who are asked.
fn views(args: &ModulesTidyArgs, paths: &[PathBuf]) -> Result<Vec<TidyView>, Failure> {
    let own = TidyView::of(&modules::tidy::caller()?, paths)?;
    let users = match args.users.is_empty() {
        true => whom_to_ask(&own.trees)?,
        false => args.users.iter().map(|name| User::named(name)).collect::<Result<_, _>>()?,
    };
    let mut views = vec![own];
    for user in users {
        views.push(TidyView::of(&user, paths)?);
    }
    Ok(views)
}

fn options(args: &ModulesTidyArgs) -> Result<TidyOptions, Failure> {
    let whole = |path: &Option<PathBuf>| path.as_ref().map(std::path::absolute).transpose();
    Ok(TidyOptions {
        keep_strays: args.keep_strays,
        strays: whole(&args.strays)?,
        no_cookie_checks: args.no_cookie_checks,
        virtual_in: whole(&args.virtual_in)?,
        slower_load: args.slower_load,
        left_alone: Vec::new(),
    })
}

fn title(paths: &[PathBuf]) -> String {
    format!("modules tidy {}", term::shell_line(paths))
}

/// Prints it, with what to type next where there is something to do.
fn print(args: &ModulesTidyArgs, shown: &ModulesTidy<'_>, goes_on: bool) -> Result<(), Failure> {
    let next = if goes_on { next(args, shown) } else { String::new() };
    let text = match args.json {
        true => term::json(&shown.data())?,
        false => shown.render(term::width::terminal(), &next),
    };
    Ok(term::print(&text)?)
}

/// What to do next.
fn next(args: &ModulesTidyArgs, shown: &ModulesTidy<'_>) -> String {
    if let Some(id) = shown.applied {
        return format!("becalm undo {id}");
    }
    if args.apply {
        return String::new();
    }
    again::with(2, &["--apply"])
}
