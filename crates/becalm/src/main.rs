//! becalm's command line. One file a verb in `verb/`: parse, call, print.

mod again;
mod asked_to_end;
mod attached;
mod below;
mod command_line;
mod command_report;
mod cost_options;
mod counted_starts;
mod exit;
mod last;
mod load;
mod lost_rights;
mod machine;
mod pictured;
mod predicted_wait;
mod produced;
mod python_path;
mod recorded;
mod recording_head;
mod rehearsed;
mod reporting_rank;
mod running;
mod save;
mod stdout_redirect;
mod until_options;
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
    verb: BecalmVerb,
}

#[derive(Subcommand)]
enum BecalmVerb {
    Attach(verb::attach::AttachArgs),
    Browse(verb::browse::BrowseArgs),
    Calibrate(verb::calibrate::CalibrateArgs),
    Calm(verb::calm::CalmArgs),
    Check(verb::check::CheckArgs),
    Completions(verb::completions::CompletionsArgs),
    Record(verb::record::RecordArgs),
    Report(verb::report::ReportArgs),
    Man(verb::man::ManArgs),
    Merge(verb::merge::MergeArgs),
    Diff(verb::diff::DiffArgs),
    Export(verb::export::ExportArgs),
    Lab(verb::lab::LabArgs),
    // As it was called before there was a laboratory; so is `aslr`.
    #[command(hide = true)]
    Profile(verb::lab::profile::ProfileArgs),
    Prove(Box<verb::prove::ProveArgs>),
    Run(verb::run::RunArgs),
    Rehearse(verb::rehearse::RehearseArgs),
    Scale(verb::scale::ScaleArgs),
    Schema(verb::schema::SchemaArgs),
    Python(verb::python::PythonArgs),
    Modules(verb::modules::ModulesArgs),
    #[command(hide = true)]
    Aslr(verb::lab::aslr::AslrArgs),
    Fork(verb::fork::ForkArgs),
    Undo(verb::undo::UndoArgs),
    Doctor(verb::doctor::DoctorArgs),
    Elf(verb::elf::ElfArgs),
    Fix(verb::fix::FixArgs),
    Image(verb::image::ImageArgs),
}

fn main() -> ExitCode {
    launch::with_enough_stack(becalm)
}

fn becalm() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(done) = verb::modules::at_once(&words) {
        return exit::of(done);
    }
    if let Some(done) = verb::run::in_scarce_memory(&words) {
        return exit::of(done);
    }
    let cli = match command_line::parse(&words) {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let done = match cli.verb {
        BecalmVerb::Attach(args) => verb::attach::run(&args),
        BecalmVerb::Browse(args) => verb::browse::run(&args),
        BecalmVerb::Calibrate(args) => verb::calibrate::run(&args),
        BecalmVerb::Calm(args) => verb::calm::run(&args),
        BecalmVerb::Check(args) => verb::check::run(&args),
        BecalmVerb::Completions(args) => verb::completions::run(&args),
        BecalmVerb::Record(args) => verb::record::run(&args),
        BecalmVerb::Report(args) => verb::report::run(&args),
        BecalmVerb::Man(args) => verb::man::run(&args),
        BecalmVerb::Merge(args) => verb::merge::run(&args),
        BecalmVerb::Diff(args) => verb::diff::run(&args),
        BecalmVerb::Export(args) => verb::export::run(&args),
        BecalmVerb::Lab(args) => verb::lab::run(&args),
        BecalmVerb::Profile(args) => verb::lab::profile::run(&args),
        BecalmVerb::Prove(args) => verb::prove::run(&args),
        BecalmVerb::Run(args) => verb::run::run(&args),
        BecalmVerb::Rehearse(args) => verb::rehearse::run(&args),
        BecalmVerb::Scale(args) => verb::scale::run(&args),
        BecalmVerb::Schema(args) => verb::schema::run(&args),
        BecalmVerb::Python(args) => verb::python::run(&args),
        BecalmVerb::Modules(args) => verb::modules::run(&args),
        BecalmVerb::Aslr(args) => verb::lab::aslr::run(&args),
        BecalmVerb::Fork(args) => verb::fork::run(&args),
        BecalmVerb::Undo(args) => verb::undo::run(&args),
        BecalmVerb::Doctor(args) => verb::doctor::run(&args),
        BecalmVerb::Elf(args) => verb::elf::run(&args),
        BecalmVerb::Fix(args) => verb::fix::run(&args),
        BecalmVerb::Image(args) => verb::image::run(&args),
    };
    exit::of(done)
}
