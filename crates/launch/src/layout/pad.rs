//! An environment of a size that all ranks of a job share.
//!
//! The kernel copies a program's file name, its arguments and its environment to the top of the
//! stack, and the pointers to them below that (fs/exec.c; create_elf_tables of fs/binfmt_elf.c).
//! Ranks differ in the digits of their numbers, so their stacks would begin at different addresses.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::lookup::Command;

/// The variable that fills up; the other one makes the number of pointers even, since the kernel
/// rounds them to 16 bytes.
const PAD: &str = "BECALM_PAD";
const EVEN: &str = "BECALM_PAD_EVEN";

/// What a launcher tells each rank counts as this many bytes, however much it is: only that differs
/// from rank to rank, and must not decide to which size it is padded.
const LAUNCHERS: usize = 16 << 10;
/// What begins the names of such variables: Slurm, OpenMPI and PRRTE, PMI and PMIx, Hydra, Cray
/// PALS and ALPS, LSF, JSM, Flux.
#[rustfmt::skip]
const LAUNCHER: &[&str] = &[
    "SLURM", "SRUN_", "OMPI_", "PRTE_", "PMI_", "PMI2_", "PMIX_", "OPAL_", "HYDRA_", "HYDI_",
    "I_MPI_", "MPI_", "MPIR_", "PALS_", "ALPS_", "LSB_", "LS_", "JSM_", "FLUX_",
];
const POINTER: usize = 8;

/// The variables that make the command's environment, together with `added`, so large that the
/// stack begins `lower` bytes below a fixed place of its page.
pub(super) fn variables(
    command: &Command,
    path: &Path,
    added: &[(OsString, OsString)],
    lower: u16,
) -> Vec<(OsString, OsString)> {
    let kept = std::env::vars_os().filter(|(name, _)| {
        name != PAD && name != EVEN && !added.iter().any(|(other, _)| other == name)
    });
    let environment: Vec<_> = kept.chain(added.iter().cloned()).collect();
    let words = std::iter::once(path.as_os_str().len() + 1)
        .chain(command.argv.iter().map(|word| word.len() + 1 + POINTER));
    let words: usize = words.sum();
    let size = |(name, value): &(OsString, OsString)| entry(name.len(), value.len());
    let (told, others): (Vec<_>, Vec<_>) =
        environment.iter().partition(|(name, _)| is_launchers(name));
    let told: usize = told.into_iter().map(size).sum();
    let others: usize = others.into_iter().map(size).sum::<usize>() + words;

    let is_odd = (command.argv.len() + environment.len() + 1) % 2 == 1;
    let even = if is_odd { entry(EVEN.len(), 0) } else { 0 };
    let filled = told + others + even + entry(PAD.len(), 0);
    let page = rustix::param::page_size();
    let launchers = LAUNCHERS.next_multiple_of(page);
    let mut target = others.next_multiple_of(page) + launchers + usize::from(lower);
    while target < filled {
        target += launchers;
    }
    let mut pads = vec![(PAD.into(), "-".repeat(target - filled).into())];
    if is_odd {
        pads.push((EVEN.into(), OsString::new()));
    }
    pads
}

/// `NAME=value`, its end, and the pointer to it.
fn entry(name: usize, value: usize) -> usize {
    name + 1 + value + 1 + POINTER
}

fn is_launchers(name: &OsStr) -> bool {
    LAUNCHER.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}
