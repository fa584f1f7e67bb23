//! `becalm doctor`.

mod view;

use crate::exit::{Failure, NO};

/// Try out what this machine allows: ptrace, seccomp, namespaces, FUSE, perf, eBPF and more
///
/// Nothing is inferred from a version or a setting: each thing is done, in a child process.
/// The exit status is 0 if commands can be recorded here, 1 if not.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  becalm doctor\n  becalm doctor --json | jq .can_record")]
pub struct DoctorArgs {
    /// Print one JSON object (docs/schema/becalm.doctor.md)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DoctorArgs) -> Result<u8, Failure> {
    let diagnosis = doctor::examine();
    term::print_answer(args.json, &diagnosis, |columns| view::render(&diagnosis, columns))?;
    Ok(if diagnosis.can_record { 0 } else { NO })
}
