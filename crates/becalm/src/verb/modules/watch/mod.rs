//! `becalm modules watch`.

use std::path::PathBuf;

use modules::watched::{TreeWatchError, TreeWatcher};

use super::index::view::ModulesIndex;
use super::index::{Indexer, modulepaths};
use crate::exit::{Failure, NO};

/// Keep the indexes of `becalm modules avail` true, and tell who asks that they are
///
/// Until it is interrupted. The kernel tells it of every change; `avail` asks it, and then looks at
/// nothing else. Where it is gone, stopped or behind, `avail` looks at the tree. Trust is by who runs
/// it: root and the modulepath's owner watch for everybody, others for themselves. A filesystem that
/// other machines change cannot be watched.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm modules watch
  becalm modules watch /apps/modulefiles")]
pub struct ModulesWatchArgs {
    /// The modulepaths, by default those of $MODULEPATH
    #[arg(value_name = "MODULEPATH")]
    modulepaths: Vec<PathBuf>,

    /// The modulecmd.tcl that is answered for; by default the one that `module` runs
    #[arg(long, value_name = "FILE")]
    modulecmd: Option<PathBuf>,

    /// Print one JSON object for each index that is made (docs/schema/becalm.modules.index.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ModulesWatchArgs) -> Result<u8, Failure> {
    let indexer = Indexer::new(args.modulecmd.as_deref())?;
    let roots = modulepaths(&args.modulepaths, &indexer.environment)?;
    let watcher = TreeWatcher::begin(&roots, indexer.store.clone())?;
    let mut watched = 0;
    for (tree, root) in roots.iter().enumerate() {
        match watch(&watcher, tree, root, &indexer, args.json) {
            Ok(()) => watched += 1,
            Err(why) => term::warn(&why.to_string()),
        }
    }
    indexer.warn_of_closed_directory();
    while watched > 0 {
        for tree in watcher.wait() {
            if let Err(why) = watch(&watcher, tree, &roots[tree], &indexer, args.json) {
                term::warn(&why.to_string());
                watched -= 1;
            }
        }
    }
    Ok(NO)
}

/// Makes a tree's index true, says so where there was something to do, and watches it.
fn watch(
    watcher: &TreeWatcher,
    tree: usize,
    root: &std::path::Path,
    indexer: &Indexer,
    json: bool,
) -> Result<(), TreeWatchError> {
    watcher.watch(tree, || {
        if let Some(made) = indexer.renew(root) {
            let answer = ModulesIndex::of(vec![made]);
            // Nobody reads it any more: what is watched is of use all the same.
            let _ = term::print_answer(json, &answer, |_| answer.render());
        }
    })
}
