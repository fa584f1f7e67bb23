//! `becalm modules cache`.

pub mod view;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use modules::cache::{self, Occasion, PublishedCache, Watch, WatchMethod, lmod};
use modules::site::{Environment, ModulesSite, User, modulepath};
use modules::tree::{ModulepathTree, WalkLimits, walk};

use super::index::{IndexAnswer, Indexer};
use crate::asked_to_end::journal_options;
use crate::exit::{Failure, NO, USAGE};
use view::{CacheAnswer, ModulesCache};

/// Caches of modulepaths that can be trusted: check, build, keep fresh
///
/// A .modulecache is evaluated by every user's Modules, which asks neither who wrote it nor
/// whether it is still true. Checking one evaluates nothing. Building uses the site's own
/// cachebuild, elsewhere; entries that would show what not everyone may read are looked at by
/// each user instead; what users see with and without must be equal; then it is renamed into
/// place. Status 1 where a cache is not good, or none was published. Each has --json.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm modules cache check /apps/modulefiles
  becalm modules cache build --as alice /apps/modulefiles
  becalm modules cache refresh --modulecmd /opt/modules/libexec/modulecmd.tcl
  becalm modules cache check --lmod --timestamp /apps/lmod/timestamp /apps/lmod/cache")]
pub struct ModulesCacheArgs {
    #[command(subcommand)]
    verb: ModulesCacheVerb,
}

#[derive(clap::Subcommand)]
enum ModulesCacheVerb {
    /// Say whether caches are stale, partial, disclosing, hostile or of another release
    #[command(after_help = "Examples:\n  becalm modules cache check\n  becalm modules cache \
        check --json /apps/modulefiles | jq '.caches[].checked.faults'")]
    Check(Common),
    /// Build caches, repair and check them, publish them; and the indexes of `modules avail`
    #[command(after_help = "Examples:\n  becalm modules cache build /apps/modulefiles")]
    Build(Common),
    /// Build those caches that are not good, and those indexes that are no longer true
    #[command(after_help = "Examples:\n  becalm modules cache refresh /apps/modulefiles")]
    Refresh(Common),
    /// Refresh caches whenever their trees change, until interrupted
    #[command(after_help = "Examples:\n  becalm modules cache watch --every 300 /apps/modulefiles")]
    Watch(WatchArgs),
}

#[derive(clap::Args)]
struct Common {
    /// The modulepaths, by default those of $MODULEPATH; with --lmod, the cache's directory, and
    /// for build and refresh the modulepaths after it
    #[arg(value_name = "MODULEPATH")]
    modulepaths: Vec<PathBuf>,

    /// As which user to compare what is seen with and without a new cache (name or number; root
    /// only). May be repeated [default: you; for root nobody and the files' owners]
    #[arg(long = "as", value_name = "USER")]
    users: Vec<String>,

    /// The modulecmd.tcl that reads the caches; by default the one that `module` runs
    #[arg(long, value_name = "FILE")]
    modulecmd: Option<PathBuf>,

    /// Lmod's cache, spiderT.lua; built by Lmod's own tool
    #[arg(long, conflicts_with_all = ["modulecmd", "users"])]
    lmod: bool,

    /// Lmod's timestamp file (lmodrc.lua: timestamp)
    #[arg(long, value_name = "FILE", requires = "lmod")]
    timestamp: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.modules.cache.md)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct WatchArgs {
    #[command(flatten)]
    common: Common,

    /// How often to look where the kernel cannot tell of changes: on network filesystems
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: u64,
}

/// Runs the verb.
pub fn run(args: &ModulesCacheArgs) -> Result<u8, Failure> {
    match &args.verb {
        ModulesCacheVerb::Check(common) => answer("check", common, check(common)?),
        ModulesCacheVerb::Build(common) if common.lmod => {
            answer("build", common, lmod_built(common, false)?)
        }
        ModulesCacheVerb::Refresh(common) if common.lmod => {
            answer("refresh", common, lmod_built(common, true)?)
        }
        ModulesCacheVerb::Build(common) => answer("build", common, built(common, false)?),
        ModulesCacheVerb::Refresh(common) => answer("refresh", common, built(common, true)?),
        ModulesCacheVerb::Watch(args) => watch(args),
    }
}

fn answer(action: &'static str, args: &Common, caches: Vec<CacheAnswer>) -> Result<u8, Failure> {
    let given =
        args.modulecmd.as_ref().map(|path| format!(" --modulecmd {}", term::quoted_path(path)));
    let options = if args.lmod { " --lmod".to_owned() } else { given.unwrap_or_default() };
    let answer = ModulesCache::of(action, options, caches);
    term::print_answer(args.json, &answer, |columns| answer.render(columns))?;
    Ok(if answer.is_good() { 0 } else { NO })
}

fn check(args: &Common) -> Result<Vec<CacheAnswer>, Failure> {
    let checked = |checked| CacheAnswer { checked: Some(checked), ..CacheAnswer::default() };
    if args.lmod {
        let directories = args.modulepaths.iter();
        let timestamp = args.timestamp.as_deref();
        return match args.modulepaths.is_empty() {
            true => Err(usage("name the directory of Lmod's cache (lmodrc.lua: dir)")),
            false => Ok(directories
                .map(|directory| checked(lmod::check(directory, timestamp)))
                .collect()),
        };
    }
    let site = match &args.modulecmd {
        Some(_) => Some(site(args)?),
        // Without Modules, what does not depend on its release is told all the same.
        None => ModulesSite::find(&Environment::own()).ok(),
    };
    let paths = modulepaths(args)?;
    Ok(paths.iter().map(|path| checked(cache::check(path, site.as_ref()))).collect())
}

fn built(args: &Common, only_if_needed: bool) -> Result<Vec<CacheAnswer>, Failure> {
    let site = site(args)?;
    let indexer = Indexer::new(args.modulecmd.as_deref());
    let mut answers = Vec::new();
    for path in modulepaths(args)? {
        let mut answer = one_built(args, &path, &site, only_if_needed)?;
        answer.index = indexed(&indexer, &path, answer.built.as_ref());
        answers.push(answer);
    }
    Ok(answers)
}

/// The index of `becalm modules avail`, which a new cache makes untrue. What is in its way says
/// nothing of the cache.
fn indexed(
    indexer: &Result<Indexer, Failure>,
    path: &Path,
    built: Option<&PublishedCache>,
) -> Option<IndexAnswer> {
    match indexer {
        Ok(indexer) => {
            if let Some(built) = built {
                indexer.go_on_under(&built.journal);
            }
            indexer.renew(path)
        }
        Err(why) => Some(IndexAnswer {
            modulepath: path.to_owned(),
            refused: Some(format!("{:#}", why.error)),
            ..IndexAnswer::default()
        }),
    }
}

fn one_built(
    args: &Common,
    path: &Path,
    site: &ModulesSite,
    only_if_needed: bool,
) -> Result<CacheAnswer, Failure> {
    let mut answer = CacheAnswer::default();
    if only_if_needed {
        let checked = cache::check(path, Some(site));
        let is_needed = checked.wants_build();
        answer.checked = Some(checked);
        if !is_needed {
            return Ok(answer);
        }
    }
    let users = match args.users.is_empty() {
        true => cache::users(&tree(path))?,
        false => args.users.iter().map(|name| User::named(name)).collect::<Result<_, _>>()?,
    };
    let waiting = term::ProgressBar::new();
    let journal = journal_options(remedy::state_directory()?);
    let occasion = Occasion { journal, is_upkeep: only_if_needed, under: None };
    let progress = |done, of| waiting.tell("running Modules", done, of);
    match cache::build(path, site, &users, &occasion, &progress) {
        Ok(built) => answer.built = Some(built),
        Err(why) => answer.refused = Some(why.to_string()),
    }
    Ok(answer)
}

/// By Lmod's own tool; then the cache is checked.
fn lmod_built(args: &Common, only_if_needed: bool) -> Result<Vec<CacheAnswer>, Failure> {
    let [directory, paths @ ..] = args.modulepaths.as_slice() else {
        return Err(usage("name the directory of Lmod's cache, and the modulepaths"));
    };
    let Some(timestamp) = &args.timestamp else {
        return Err(usage(
            "name Lmod's timestamp file with --timestamp: without, a cache is used for a day",
        ));
    };
    let before = lmod::check(directory, Some(timestamp));
    if only_if_needed && before.is_good() {
        return Ok(vec![CacheAnswer { checked: Some(before), ..CacheAnswer::default() }]);
    }
    if paths.is_empty() {
        return Err(usage("name the modulepaths after the cache's directory"));
    }
    let tool = lmod::tool(&Environment::own())?;
    let mut answer = CacheAnswer::default();
    match lmod::build(&tool, directory, timestamp, paths) {
        Ok(left_out) => {
            let mut checked = lmod::check(directory, Some(timestamp));
            checked.notes.extend(left_out.iter().map(|left| {
                let (path, private) = (left.modulepath.display(), left.private.display());
                format!(
                    "{path} is left out: not everyone may read {private}. Lmod looks there itself."
                )
            }));
            answer.checked = Some(checked);
        }
        Err(why) => answer.refused = Some(why.to_string()),
    }
    Ok(vec![answer])
}

/// Looks, waits for a change, looks again.
fn watch(args: &WatchArgs) -> Result<u8, Failure> {
    let common = &args.common;
    if common.lmod {
        return Err(usage("watch is for .modulecache; a timer may refresh Lmod's"));
    }
    let site = site(common)?;
    let indexer = Indexer::new(common.modulecmd.as_deref());
    let paths = modulepaths(common)?;
    let mut told = None;
    loop {
        // Watched before it is looked at: nothing is missed in between.
        let trees: Vec<ModulepathTree> = paths.iter().map(|path| tree(path)).collect();
        let watch = Watch::over(&trees, Duration::from_secs(args.every))?;
        if told != Some(watch.how()) {
            told = Some(watch.how());
            term::warn(&how(watch.how(), args.every));
        }
        for path in &paths {
            let mut answer = one_built(common, path, &site, true)?;
            answer.index = indexed(&indexer, path, answer.built.as_ref());
            if answer.built.is_some() || answer.refused.is_some() || answer.index.is_some() {
                self::answer("refresh", common, vec![answer])?;
            }
        }
        watch.wait()?;
    }
}

fn how(how: WatchMethod, every: u64) -> String {
    match how {
        WatchMethod::Inotify => "watching with inotify".to_owned(),
        WatchMethod::Remote => {
            format!("a network filesystem: other machines' changes are looked for every {every} s")
        }
        WatchMethod::NoMoreWatches => format!(
            "too many directories for inotify (fs.inotify.max_user_watches): looking every {every} s"
        ),
    }
}

/// A modulepath, without its cookies.
pub(super) fn tree(path: &Path) -> ModulepathTree {
    walk(path, WalkLimits { cookies: false, ..WalkLimits::default() })
}

fn site(args: &Common) -> Result<ModulesSite, Failure> {
    let environment = Environment::own();
    let site = match &args.modulecmd {
        Some(command) => ModulesSite::at(command, &environment),
        None => ModulesSite::find(&environment),
    };
    Ok(site.context("no Modules to build with")?)
}

fn modulepaths(args: &Common) -> Result<Vec<PathBuf>, Failure> {
    let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let paths: Vec<PathBuf> = match args.modulepaths.is_empty() {
        false => args.modulepaths.iter().map(whole).collect(),
        true => {
            let value = std::env::var_os("MODULEPATH").unwrap_or_default();
            let known = modulepath(&value).into_iter().filter(|(_, odd)| odd.is_none());
            known.map(|(path, _)| path).collect()
        }
    };
    match paths.is_empty() {
        true => Err(usage("MODULEPATH is not set: name the modulepaths")),
        false => Ok(paths),
    }
}

fn usage(what: &'static str) -> Failure {
    Failure { status: USAGE, error: anyhow!(what) }
}
