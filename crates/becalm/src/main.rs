//! becalm's command line. One file a verb in `verb/`: parse, call, print.

mod again;
mod command_report;
mod cost_options;
mod exit;
mod load;
mod machine;
mod python_path;
mod recorded;
mod recording_head;
mod rehearsed;
mod reporting_rank;
mod save;
mod stdout_redirect;
mod verb;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// becalm watches a command start, says which storms hit it, calms them with changes that can
/// be undone, and proves that it helped.
#[derive(Parser)]
#[command(name = "becalm", version, about, arg_required_else_help = true)]
#[command(after_help = "Example:\n  becalm check -- python3 -c 'import numpy'")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Check(verb::check::CheckArgs),
    Record(verb::record::Args),
    Report(verb::report::Args),
    Merge(verb::merge::Args),
    Diff(verb::diff::Args),
    Export(verb::export::Args),
    Lab(verb::lab::LabArgs),
    // As it was called before there was a laboratory; so is `aslr`.
    #[command(hide = true)]
    Profile(verb::lab::profile::ProfileArgs),
    Prove(Box<verb::prove::ProveArgs>),
    Run(verb::run::Args),
    Rehearse(verb::rehearse::RehearseArgs),
    Scale(verb::scale::ScaleArgs),
    Python(verb::python::Args),
    Modules(verb::modules::Args),
    #[command(hide = true)]
    Aslr(verb::lab::aslr::AslrArgs),
    Fork(verb::fork::ForkArgs),
    Undo(verb::undo::Args),
    Doctor(verb::doctor::Args),
    Elf(verb::elf::Args),
    Fix(verb::fix::FixArgs),
    Image(verb::image::Args),
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(done) = verb::modules::at_once(&words) {
        return exit::of(done);
    }
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    let done = match cli.verb {
        Verb::Check(args) => verb::check::run(&args),
        Verb::Record(args) => verb::record::run(&args),
        Verb::Report(args) => verb::report::run(&args),
        Verb::Merge(args) => verb::merge::run(&args),
        Verb::Diff(args) => verb::diff::run(&args),
        Verb::Export(args) => verb::export::run(&args),
        Verb::Lab(args) => verb::lab::run(&args),
        Verb::Profile(args) => verb::lab::profile::run(&args),
        Verb::Prove(args) => verb::prove::run(&args),
        Verb::Run(args) => verb::run::run(&args),
        Verb::Rehearse(args) => verb::rehearse::run(&args),
        Verb::Scale(args) => verb::scale::run(&args),
        Verb::Python(args) => verb::python::run(&args),
        Verb::Modules(args) => verb::modules::run(&args),
        Verb::Aslr(args) => verb::lab::aslr::run(&args),
        Verb::Fork(args) => verb::fork::run(&args),
        Verb::Undo(args) => verb::undo::run(&args),
        Verb::Doctor(args) => verb::doctor::run(&args),
        Verb::Elf(args) => verb::elf::run(&args),
        Verb::Fix(args) => verb::fix::run(&args),
        Verb::Image(args) => verb::image::run(&args),
    };
    exit::of(done)
}
