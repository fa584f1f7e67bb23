//! `becalm modules audit`.

pub mod view;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use modules::audit::{AuditRequest, Timeout, UserView, annotations, sarif};
use modules::site::{Environment, ModulepathOddity, ModulesSite, SiteError, User, modulepath};
use modules::tree::WalkLimits;

use crate::exit::{Failure, NO, USAGE};
use view::ModulesAudit;

/// Say what `module avail`, `load` and `whatis` cost on trees of modulefiles, and why
///
/// Walks each modulepath without waiting for FIFOs or following loops, predicts the system calls
/// that the site's Modules makes there, runs the real commands for comparison, and lists what
/// makes it so. Root looks for itself and, for the costs, as nobody: rc files are code, and root
/// should not run it. Status 1 where something is wrong.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm modules audit
  becalm modules audit --as alice --as bob /apps/modulefiles
  becalm modules audit --no-run --sarif modulefiles >audit.sarif
  becalm modules audit --json | jq '.rules'")]
#[command(group = clap::ArgGroup::new("format").args(["json", "sarif", "github"]))]
pub struct ModulesAuditArgs {
    /// The modulepaths; by default those of $MODULEPATH
    #[arg(value_name = "MODULEPATH")]
    modulepaths: Vec<PathBuf>,

    /// As which user to look and to run commands (name or number; root only). May be repeated
    #[arg(long = "as", value_name = "USER")]
    users: Vec<String>,

    /// The name whose `load` is measured; by default that of the module with the most versions
    #[arg(long, value_name = "NAME")]
    load: Option<String>,

    /// Only look at the trees: no real command is run
    #[arg(long)]
    no_run: bool,

    /// How many seconds a real command may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,

    /// The modulecmd.tcl to ask; by default the one that `module` runs
    #[arg(long, value_name = "FILE")]
    modulecmd: Option<PathBuf>,

    /// The trees are Lmod's: its files of Lua are no strays, and only the names are looked at
    #[arg(long, conflicts_with_all = ["modulecmd", "load"])]
    lmod: bool,

    /// Show every finding
    #[arg(long)]
    all: bool,

    /// Print one JSON object (docs/schema/becalm.modules.audit.md)
    #[arg(long)]
    json: bool,

    /// Print a SARIF log, for code scanning services
    #[arg(long)]
    sarif: bool,

    /// Print GitHub's workflow commands: annotations beside the files
    #[arg(long)]
    github: bool,
}

/// Runs the verb.
pub fn run(args: &ModulesAuditArgs) -> Result<u8, Failure> {
    let environment = Environment::own();
    let modulepaths = modulepaths(args, &environment)?;
    let is_lmod = args.lmod || (args.modulecmd.is_none() && runs_lmod(&environment));
    let site = if is_lmod { None } else { site(args, &environment)? };
    let timeout = Timeout(Duration::from_secs(u64::from(args.timeout)));
    let wanted = AuditRequest {
        modulepaths: &modulepaths,
        site: site.as_ref(),
        is_lmod,
        load: args.load.clone(),
        timeout: (!args.no_run).then_some(timeout),
    };
    let views = views(args, &modulepaths)?;
    let waiting = term::ProgressBar::new();
    let progress = |done, of| waiting.tell("running Modules", done, of);
    let audit = modules::audit::audit(&views, &wanted, &progress);
    drop(waiting);
    let answer = ModulesAudit::of(audit);
    print(args, &answer)?;
    Ok(if answer.audit().is_wrong() { NO } else { 0 })
}

fn modulepaths(
    args: &ModulesAuditArgs,
    environment: &Environment,
) -> Result<Vec<(PathBuf, Option<ModulepathOddity>)>, Failure> {
    let given: Vec<&OsStr> = args.modulepaths.iter().map(|path| path.as_os_str()).collect();
    let named: OsString = match environment.get("MODULEPATH") {
        // Given by hand, a path is meant as it is, here and now.
        _ if !given.is_empty() => {
            let whole = |path: &PathBuf| (std::path::absolute(path).unwrap_or(path.clone()), None);
            return Ok(args.modulepaths.iter().map(whole).collect());
        }
        Some(value) => value.to_owned(),
        None => OsString::new(),
    };
    let paths = modulepath(&named);
    if paths.is_empty() {
        let error = anyhow!("MODULEPATH is not set: name the modulepaths to look at");
        return Err(Failure { status: USAGE, error });
    }
    Ok(paths)
}

/// Whether `module` is Lmod's in this shell.
fn runs_lmod(environment: &Environment) -> bool {
    environment.get("LMOD_CMD").is_some() && environment.get("MODULES_CMD").is_none()
}

/// The site's Modules. Trees can be looked at without one.
fn site(
    args: &ModulesAuditArgs,
    environment: &Environment,
) -> Result<Option<ModulesSite>, SiteError> {
    match &args.modulecmd {
        Some(command) => ModulesSite::at(command, environment).map(Some),
        None => match ModulesSite::find(environment) {
            Ok(site) => Ok(Some(site)),
            Err(SiteError::Nowhere) => Ok(None),
            Err(error) => Err(error),
        },
    }
}

/// The trees as the caller sees them, and as others do.
fn views(
    args: &ModulesAuditArgs,
    modulepaths: &[(PathBuf, Option<ModulepathOddity>)],
) -> Result<Vec<UserView>, Failure> {
    let paths: Vec<&Path> = modulepaths.iter().map(|(path, _)| path.as_path()).collect();
    let mut users = Vec::new();
    for name in &args.users {
        users.push(User::named(name)?);
    }
    if users.is_empty() && rustix::process::geteuid().is_root() {
        users.push(User::named("nobody").or_else(|_| User::named("65534"))?);
    }
    let mut views = vec![UserView::of(&paths, None, WalkLimits::default())?];
    for user in users {
        views.push(UserView::of(&paths, Some(user), WalkLimits::default())?);
    }
    Ok(views)
}

fn print(args: &ModulesAuditArgs, answer: &ModulesAudit) -> anyhow::Result<()> {
    if args.json {
        term::print(&term::json(answer)?)?;
    } else if args.sarif {
        term::print(&term::json(&sarif(answer.audit(), env!("CARGO_PKG_VERSION")))?)?;
    } else if args.github {
        term::print(&annotations(answer.audit()))?;
    } else {
        term::print(&answer.render(term::width::terminal(), args.all))?;
    }
    Ok(())
}
