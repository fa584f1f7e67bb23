//! `becalm modules index`, and the index that `becalm modules cache` makes.

pub mod view;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use modules::avail::modulepaths as resolve;
use modules::index::{IndexJournal, IndexStore, SiteNotes, build};
use modules::site::{Environment, ModulesSite};

use crate::asked_to_end::journal_options;
use crate::exit::{Failure, NO, USAGE};
use view::ModulesIndex;

pub use view::IndexAnswer;

/// Make the index that `becalm modules avail` answers from
///
/// One file a modulepath, in $BECALM_MODULES_INDEX, else for root /var/cache/becalm/modules, else
/// ~/.cache/becalm/modules. Status 1 where a modulepath cannot be answered for but by Modules
/// itself; it says why.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm modules index
  becalm modules index --lease 60 /apps/modulefiles
  becalm modules index --json")]
pub struct ModulesIndexArgs {
    /// The modulepaths, by default those of $MODULEPATH
    #[arg(value_name = "MODULEPATH")]
    modulepaths: Vec<PathBuf>,

    /// For so long an index is taken without a look at the tree: a change of it shows later then
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    lease: u32,

    /// The modulecmd.tcl that is answered for; by default the one that `module` runs
    #[arg(long, value_name = "FILE")]
    modulecmd: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.modules.index.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ModulesIndexArgs) -> Result<u8, Failure> {
    let indexer = Indexer::new(args.modulecmd.as_deref())?;
    let mut answers = Vec::new();
    for path in modulepaths(&args.modulepaths, &indexer.environment)? {
        answers.push(indexer.index(path, args.lease));
    }
    indexer.warn_of_closed_directory();
    let answer = ModulesIndex::of(answers);
    term::print_answer(args.json, &answer, |_| answer.render())?;
    Ok(if answer.is_good() { 0 } else { NO })
}

/// Makes indexes for one site's Modules.
pub(super) struct Indexer {
    pub(super) environment: Environment,
    site: ModulesSite,
    pub(super) store: IndexStore,
    notes: SiteNotes,
    /// None where none can be kept: then undo knows nothing of the indexes.
    journal: RefCell<Option<IndexJournal>>,
}

impl Indexer {
    /// For the Modules that `module` runs, or for another one. Notes of it are kept with the
    /// indexes.
    pub(super) fn new(modulecmd: Option<&Path>) -> Result<Indexer, Failure> {
        let mut environment = Environment::own();
        if let Some(modulecmd) = modulecmd {
            environment.set("MODULES_CMD", modulecmd);
        }
        let site = ModulesSite::find(&environment)?;
        let store = IndexStore::of(&environment);
        let notes = SiteNotes::take(&environment)?;
        let state = match remedy::state_directory() {
            Err(remedy::Error::NoState) => None,
            state => Some(state?),
        };
        let journal = |state| IndexJournal::new(journal_options(state), "modules index".to_owned());
        let journal = state.map(journal);
        Ok(Indexer { environment, site, store, notes, journal: RefCell::new(journal) })
    }

    /// What is indexed now is undone with what was applied under this id.
    pub(super) fn go_on_under(&self, id: &str) {
        if let Some(journal) = &mut *self.journal.borrow_mut() {
            journal.go_on_under(id.to_owned());
        }
    }

    /// What is indexed now is applied under this title, and undone with what was under an id, if
    /// there is one.
    pub(super) fn go_on(&self, title: &str, id: Option<&str>) {
        if let Some(journal) = &mut *self.journal.borrow_mut() {
            journal.begin_again(title.to_owned());
        }
        if let Some(id) = id {
            self.go_on_under(id);
        }
    }

    /// What is indexed is undone by this; none if nothing new was put anywhere.
    pub(super) fn id(&self) -> Option<String> {
        self.journal.borrow().as_ref()?.id().map(str::to_owned)
    }

    /// What root makes is for everyone: says so where others do not get at it.
    pub(super) fn warn_of_closed_directory(&self) {
        if let Some(directory) = self.store.directory()
            && rustix::process::geteuid().is_root()
            && !self.store.is_for_everyone()
        {
            let directory = term::quoted(directory);
            term::warn(&format!("{directory}: not everyone may enter it: others have no index"));
        }
    }

    /// Makes the index of a modulepath; where it cannot be made, the one that was there goes.
    pub(super) fn index(&self, path: PathBuf, lease: u32) -> IndexAnswer {
        // Its index is kept under its name without slashes at the end.
        let modulepath = path.components().collect();
        let mut answer = IndexAnswer { modulepath, ..IndexAnswer::default() };
        match build(&answer.modulepath, &self.site, lease) {
            Ok(names) => {
                answer.directories = names.directories.len() as u64;
                answer.rc_files = names.rcs.len() as u64;
                answer.files = names.files.len() as u64;
                answer.limited = names.limited.len() as u64;
                let journal = &mut *self.journal.borrow_mut();
                let kept = self.store.keep_site(&self.notes, journal.as_mut());
                let kept = kept.and_then(|_| self.store.keep(&names, journal.as_mut()));
                match kept {
                    Ok(index) => answer.index = Some(index),
                    Err(why) => answer.refused = Some(why.to_string()),
                }
            }
            Err(why) => {
                let forgotten = self.store.forget(&answer.modulepath);
                let more = forgotten.err().map(|error| format!("; {error}")).unwrap_or_default();
                answer.refused = Some(format!("{why}{more}"));
            }
        }
        answer
    }

    /// Makes the index of a modulepath anew, with the lease that it had; none if it is true.
    pub(super) fn renew(&self, path: &Path) -> Option<IndexAnswer> {
        let held = self.store.held(path).ok();
        let names = held.as_ref().and_then(|held| held.names(path).ok());
        if names.as_ref().is_some_and(|names| names.is_fresh(|_| true, true)) {
            return None;
        }
        Some(self.index(path.to_owned(), names.map_or(0, |names| names.lease)))
    }
}

/// Those that are there: Modules passes over others.
pub(super) fn modulepaths(
    named: &[PathBuf],
    environment: &Environment,
) -> Result<Vec<PathBuf>, Failure> {
    if !named.is_empty() {
        return Ok(named.to_owned());
    }
    let resolved = match environment.get("MODULEPATH") {
        None => Vec::new(),
        Some(_) => resolve(environment).map_err(|why| Failure { status: NO, error: why.into() })?,
    };
    let paths: Vec<PathBuf> = resolved.into_iter().filter(|path| path.exists()).collect();
    if paths.is_empty() {
        let error = anyhow::anyhow!("no modulepath: name one, or set MODULEPATH");
        return Err(Failure { status: USAGE, error });
    }
    Ok(paths)
}
