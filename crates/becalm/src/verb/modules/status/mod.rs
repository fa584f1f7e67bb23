//! `becalm modules status`.

pub mod view;

use std::path::{Path, PathBuf};
use std::time::Duration;

use modules::audit::{AuditRequest, Timeout, UserView, audit};
use modules::calm::CalmPlan;
use modules::index::IndexStore;
use modules::remember::{AnswerStore, RememberedShare};
use modules::site::{Environment, ModulesSite};
use modules::status::{StatusGround, modulepaths, steps};
use modules::tree::WalkLimits;

use super::calm::CalmPlaces;
use super::site_options;
use crate::exit::{Failure, NO};
use view::{ModulesStatus, StatusParts};

/// Say how modulepaths are: what `module` costs there, which caches and indexes are true, what helps
///
/// One screen: what avail, load and whatis cost, the age and state of each cache and index, which
/// steps of Modules' cookbook 'Reduce I/O load' are done or would help, and what to type next.
/// Status 1 where there is something to calm. Root runs commands as nobody.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm modules status
  becalm modules status /apps/modulefiles
  becalm modules status --json | jq '.steps'")]
pub struct ModulesStatusArgs {
    /// The modulepaths; by default those of $MODULEPATH
    #[arg(value_name = "MODULEPATH")]
    modulepaths: Vec<PathBuf>,

    /// As which user to run commands (name or number; root only) [default: you; for root, nobody]
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,

    /// Only look at the trees: no real command is run
    #[arg(long)]
    no_run: bool,

    /// How many seconds a real command may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,

    /// Where files for shells go [default: $BECALM_MODULES_HOOKS, else /etc/profile.d for root and
    /// ~/.config/becalm for others]
    #[arg(long, value_name = "DIRECTORY")]
    hooks: Option<PathBuf>,

    /// The modulecmd.tcl to ask; by default the one that `module` runs
    #[arg(long, value_name = "FILE")]
    modulecmd: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.modules.status.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ModulesStatusArgs) -> Result<u8, Failure> {
    let environment = Environment::own();
    let paths = site_options::modulepaths(&args.modulepaths, &environment)?;
    let site = site_options::site(args.modulecmd.as_deref(), &environment)?;
    let places = CalmPlaces::of(args.hooks.as_deref(), None, &environment)?;
    let plan = places.plan(&site, &environment, &paths, &[], false)?;
    let audit = audited(args, &site, &plan)?;
    let store = IndexStore::of(&environment);
    let ground = StatusGround { site: &site, store: &store, plan: &plan, audit: &audit };
    let answers = remedy::state_directory().map(|state| AnswerStore::below(&state));
    let parts = StatusParts {
        modulepaths: modulepaths(&ground),
        steps: steps(&ground),
        remembered: answers.ok().and_then(|answers| RememberedShare::of(&answers, &site.command)),
    };
    let answer = ModulesStatus::of(&ground, parts, &paths);
    term::print_answer(args.json, &answer, |columns| answer.render(columns))?;
    Ok(if answer.is_calm() { 0 } else { NO })
}

/// What commands cost on the modulepaths that can be looked at, and what is wrong there.
fn audited(
    args: &ModulesStatusArgs,
    site: &ModulesSite,
    plan: &CalmPlan,
) -> Result<modules::audit::Audit, Failure> {
    let trees = plan.views.first().map(|view| &view.trees[..]).unwrap_or_default();
    let roots: Vec<(PathBuf, _)> = trees.iter().map(|tree| (tree.root.clone(), None)).collect();
    let timeout = Timeout(Duration::from_secs(u64::from(args.timeout)));
    let wanted = AuditRequest {
        modulepaths: &roots,
        site: Some(site),
        is_lmod: false,
        load: None,
        timeout: (!args.no_run && !roots.is_empty()).then_some(timeout),
    };
    let paths: Vec<&Path> = roots.iter().map(|(path, _)| path.as_path()).collect();
    let mut views = vec![UserView::of(&paths, None, WalkLimits::default())?];
    if let Some(user) = site_options::user(args.user.as_deref())? {
        views.push(UserView::of(&paths, Some(user), WalkLimits::default())?);
    }
    let waiting = term::ProgressBar::new();
    let progress = |done, of| waiting.tell("running Modules", done, of);
    Ok(audit(&views, &wanted, &progress))
}
