//! `becalm elf tree`.

pub mod view;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use loader::{Disk, LoaderSetting, outline, simulate};

use crate::exit::{Failure, NO};
use view::LibraryTree;

/// Show which libraries a program or library loads, and from where, without running it
///
/// Follows the loader that the file names (glibc's or musl's), with LD_LIBRARY_PATH and
/// LD_PRELOAD of this environment. Exit status 1: something is not found, or the file is for
/// a machine whose loader becalm does not know.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm elf tree /usr/bin/python3
  becalm elf tree --probes ./app           every path that the loader asks for, in order
  becalm elf tree --json ./app | jq '.objects[].path'")]
pub struct ElfTreeArgs {
    /// An executable or a shared library
    file: PathBuf,

    /// Print every path that the loader opens or stats, in order, with the answer, up to where a
    /// start that fails ends
    #[arg(long)]
    probes: bool,

    /// As if this were LD_LIBRARY_PATH (default: that of this environment)
    #[arg(long, value_name = "LIST")]
    library_path: Option<OsString>,

    /// Print one JSON object (docs/schema/becalm.elf.tree.md); with --probes, they are in it
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ElfTreeArgs) -> Result<u8, Failure> {
    let world = Disk::new();
    let file = std::path::absolute(&args.file).context("the working directory")?;
    let mut setting =
        LoaderSetting::for_program(&world, &file)?.with_environment(|name| std::env::var_os(name));
    if let Some(list) = &args.library_path {
        setting.library_path = Some(list.clone());
    }
    let simulation = world.reading_ahead(&file, || match args.probes {
        true => simulate(&world, &file, &setting),
        false => outline(&world, &file, &setting),
    })?;
    let tree = LibraryTree::of(&args.file, &simulation);
    if tree.is_of_another_processor() && !args.json {
        term::warn(
            "the file is for another processor than this machine's: shown is the search where that \
             has none of the features that only some have",
        );
    }
    if args.json {
        term::print(&term::json(&tree.data(args.probes))?)?;
    } else if args.probes {
        term::print(&tree.render_probes())?;
        if let Some(end) = tree.end() {
            term::warn(&end);
        }
    } else {
        term::print(&tree.render(term::width::terminal()))?;
    }
    let status = if tree.is_complete() { 0 } else { NO };
    // The process ends here: what it holds need not be given back piece by piece.
    std::mem::forget((world, simulation));
    Ok(status)
}
