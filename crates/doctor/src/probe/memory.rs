//! Where a program's memory lies, and in pages of which size.

use std::fs::read_to_string;

use crate::answer::{MachineProbe, ProbeSubject, RefusedBy, Refuser};
use crate::child::{ProbeFailure, ProbeStop, ask};
use crate::host::Host;
use crate::sys::checked;

/// A process can ask for the same address layout at every exec (personality(2)).
pub(crate) fn layout(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "fixed_layout",
        title: "fixed address layout",
        used_for: "one address layout for all ranks of a job",
    };
    match ask(fix_layout) {
        Ok(_) => about.works("ADDR_NO_RANDOMIZE was set, and is in force"),
        Err(failure) => {
            // The kernel itself refuses nobody.
            let refuser = host.usual_refuser(&failure, None).unwrap_or_else(|| {
                Refuser::new(
                    RefusedBy::Seccomp,
                    "a seccomp filter (containers often have this one)",
                    "Start becalm outside the container, or with another seccomp profile.",
                )
            });
            about.refused(&failure, refuser)
        }
    }
}

/// This personality asks only.
const QUERY: libc::c_ulong = 0xffff_ffff;

fn fix_layout() -> Result<u64, ProbeStop> {
    // SAFETY: changes this process only.
    let personality =
        |persona| checked("personality", unsafe { libc::personality(persona) }.into());
    let before = personality(QUERY)?;
    let wanted = before | libc::ADDR_NO_RANDOMIZE as u64;
    personality(wanted)?;
    match personality(QUERY)? {
        set if set == wanted => Ok(set),
        _ => Err(ProbeStop::Error { call: "personality(ADDR_NO_RANDOMIZE)", errno: libc::EINVAL }),
    }
}

/// The kernel gathers small pages into a large one at once, when asked (Linux 6.1).
pub(crate) fn huge_pages(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "madv_collapse",
        title: "MADV_COLLAPSE",
        used_for: "a program's code in large pages",
    };
    let size = large_page();
    let failure = match ask(|| collapse(size)) {
        Ok(_) => return about.works(format!("{} kB were gathered into one page", size / 1024)),
        Err(failure) => failure,
    };
    if let Some(refuser) = host.usual_refuser(&failure, None) {
        return about.refused(&failure, refuser);
    }
    match failure {
        ProbeFailure::Error { errno: libc::EINVAL, .. } => about.absent(
            "this kernel does not know it (Linux 6.1 does) or has no large pages",
            "Nothing to do: it only makes some programs faster.",
        ),
        _ => about.refused(
            &failure,
            Refuser::new(
                RefusedBy::Resources,
                "the kernel: no free large page now, or a memory limit",
                "Try again when more memory is free.",
            ),
        ),
    }
}

/// What the kernel calls a large page, in bytes: 2 MB on most machines.
fn large_page() -> usize {
    read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|size: &usize| size.is_power_of_two())
        .unwrap_or(2 << 20)
}

fn collapse(size: usize) -> Result<u64, ProbeStop> {
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: maps fresh memory, twice as much as is used so that an aligned part is in it.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), 2 * size, writable, private, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(ProbeStop::last("mmap"));
    }
    let aligned = memory.map_addr(|address| address.next_multiple_of(size));
    // SAFETY: `aligned` and the `size` bytes after it lie in the mapping; a page that was never
    // touched has nothing to be gathered.
    unsafe {
        for page in (0..size).step_by(4096) {
            aligned.cast::<u8>().add(page).write_volatile(1);
        }
        checked("madvise(MADV_COLLAPSE)", libc::madvise(aligned, size, libc::MADV_COLLAPSE).into())
    }
}
