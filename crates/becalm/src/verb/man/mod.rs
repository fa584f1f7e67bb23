//! `becalm man`.

mod exit_status;
mod page;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Command;

use crate::command_line::shown;
use crate::exit::Failure;

/// Print a page for man, or write all pages into a directory
///
/// The pages hold what --help says, the exit statuses, and the names of related pages. Packages of
/// becalm bring them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm man elf tree | man -l -
  becalm man --dir ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The verb that the page is about; without one, becalm itself
    verb: Vec<String>,
    /// Write becalm.1, becalm-check.1 and all others into this directory: all of them, or none
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    dir: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &ManArgs) -> Result<u8, Failure> {
    let becalm = shown();
    match &args.dir {
        Some(directory) => write_all(&becalm, directory)?,
        None => {
            let verb = find(&becalm, &args.verb)?;
            stdout().write_all(page::of(verb)?.as_bytes()).context("standard output")?;
        }
    }
    Ok(0)
}

fn find<'a>(becalm: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    let mut verb = becalm;
    for (at, word) in words.iter().enumerate() {
        verb = verb.find_subcommand(word).ok_or_else(|| {
            let words = term::shell_line(&words[..=at]);
            Failure::of_usage(anyhow::anyhow!(
                "there is no verb '{words}'; becalm --help lists them"
            ))
        })?;
    }
    Ok(verb)
}

/// The pages of a verb and of all below it: file name, text.
fn pages(verb: &Command, found: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    found.push((page::file_name(verb), page::of(verb)?));
    verb.get_subcommands().try_for_each(|below| pages(below, found))
}

/// What can fail for want of room or rights is done before the first page has its name.
fn write_all(becalm: &Command, directory: &Path) -> anyhow::Result<()> {
    let shown = term::plain(&directory.to_string_lossy());
    let failed = || format!("cannot write pages to {shown}");
    let mut all = Vec::new();
    pages(becalm, &mut all)?;
    let is_new = !directory.exists();
    fs::create_dir_all(directory).with_context(failed)?;
    let written = into(directory, &all).with_context(failed);
    if written.is_err() && is_new {
        // What was made for nothing; one with others' files in it stays.
        let _ = fs::remove_dir(directory);
    }
    written
}

fn into(directory: &Path, pages: &[(String, String)]) -> anyhow::Result<()> {
    if let Some((name, _)) = pages.iter().find(|(name, _)| directory.join(name).is_dir()) {
        bail!("{name} is a directory");
    }
    let beside = tempfile::tempdir_in(directory)?;
    for (name, text) in pages {
        fs::write(beside.path().join(name), text).with_context(|| name.clone())?;
    }
    for (name, _) in pages {
        fs::rename(beside.path().join(name), directory.join(name)).with_context(|| name.clone())?;
    }
    Ok(())
}
