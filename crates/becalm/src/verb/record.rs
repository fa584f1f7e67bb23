//! `becalm record`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::exit::Failure;
use crate::recorded;

/// Run a command and save what it does: every process, every file it asks for, and why
#[derive(clap::Args)]
#[command(after_help = "The command's own exit status is passed on; becalm's failures are 125, \
    126 (cannot execute) and 127 (not found).\n\n\
    Example:\n  becalm record -o numpy.becalm -- python3 -c 'import numpy'\n  \
    becalm report numpy.becalm --by prefix")]
pub struct Args {
    /// Where to save the recording
    #[arg(short, long, value_name = "REC")]
    output: PathBuf,

    /// Record every system call, not only those on files, descriptors and processes
    #[arg(long)]
    all_syscalls: bool,

    /// Leave the command on all its CPUs throughout: slower, for one that measures itself
    #[arg(long)]
    no_bind: bool,

    /// Stop at calls on descriptors, too, even where an eBPF program may report them: slower,
    /// and as it is without privilege
    #[arg(long)]
    no_ebpf: bool,

    /// Record as on a kernel before 5.3, which does not say what a stopped thread's call is
    #[arg(long, hide = true)]
    old_kernel: bool,

    /// Print one JSON object about the recording on standard error when the command has ended
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub fn run(args: &Args) -> Result<u8, Failure> {
    let wanted = recorded::Wanted {
        all_syscalls: args.all_syscalls,
        bind: !args.no_bind,
        tap: !args.no_ebpf,
        old_kernel: args.old_kernel,
        ..recorded::Wanted::of(&args.command)
    };
    let finished = recorded::to_path(&wanted, &args.output)?;
    if args.json {
        recorded::print_json(&args.output, &finished)?;
    } else {
        recorded::say_what_is_missing(&finished);
    }
    recorded::pass_on(&finished)
}
