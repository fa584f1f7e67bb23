//! `becalm record`.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use job::RecordingTarget;
use watch::WatchedCalls;

use crate::exit::Failure;
use crate::until_options::UntilOptions;
use crate::{last, recorded};

/// Run a command and save what it does: every process, every file it asks for, and why
#[derive(clap::Args)]
#[command(after_help = "The command's own exit status is passed on; becalm's failures are 125, \
    126 (cannot execute) and 127 (not found).\n\n\
    Under srun or mpirun each rank is recorded on its own node, and each node leaves one file: \
    start.becalm becomes start.NODE.becalm, unless all ranks are on one node. In REC, %n is the \
    node; with %r, the rank, there is a file a rank.\n\n\
    Examples:\n  becalm record -o numpy.becalm -- python3 -c 'import numpy'\n  \
    becalm report numpy.becalm --by prefix\n  \
    srun -n 16 becalm record -o start.becalm -- ./app")]
pub struct RecordArgs {
    /// Where to save the recording
    #[arg(short, long, value_name = "REC")]
    output: PathBuf,

    /// Record every system call, not only those on files, descriptors and processes
    #[arg(long)]
    all_syscalls: bool,

    /// Do not stop at reads, writes, closes and other calls on open descriptors: quicker, and how
    /// much was read is then known roughly only
    #[arg(long, conflicts_with = "all_syscalls")]
    metadata_only: bool,

    #[command(flatten)]
    until: UntilOptions,

    /// Where each node keeps the recordings of its ranks until they are joined [default:
    /// /dev/shm, else /tmp]
    #[arg(long, value_name = "DIR")]
    node_dir: Option<PathBuf>,

    /// Leave the command on all its CPUs throughout: slower, for one that measures itself
    #[arg(long)]
    no_bind: bool,

    /// Stop at all calls that are recorded, even where an eBPF program may report them: slower, and
    /// as it is without privilege
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

pub fn run(args: &RecordArgs) -> Result<u8, Failure> {
    let wanted = recorded::RecordRequest {
        calls: match (args.all_syscalls, args.metadata_only) {
            (true, _) => WatchedCalls::All,
            (_, true) => WatchedCalls::MetadataOnly,
            _ => WatchedCalls::WithData,
        },
        bind: !args.no_bind,
        tap: !args.no_ebpf,
        old_kernel: args.old_kernel,
        until: args.until.conditions(),
        ..recorded::RecordRequest::of(&args.command)
    };
    let target = RecordingTarget::of(&args.output, args.node_dir.as_deref());
    let target = target.map_err(Failure::of_command)?;
    let rank = target.rank().cloned();
    let file = target.file().to_owned();
    let record = |path: &Path| recorded::to_path(&wanted, path);
    let (finished, joined) = recorded::to_target(target, record, |finished| finished);
    let finished = finished?;
    if rank.as_ref().is_none_or(|rank| rank.rank == 0) && file.is_file() {
        // It is in its own file in any case.
        let _ = File::open(&file).map(|file| last::keep(&file));
    }
    if args.json {
        recorded::print_json(&file, rank.as_ref(), &finished)?;
    } else {
        match &rank {
            Some(rank) => recorded::say_what_is_missing_of(rank, &finished),
            None => recorded::say_what_is_missing(&finished),
        }
    }
    joined?;
    recorded::pass_on(&finished)
}
