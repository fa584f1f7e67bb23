//! The seccomp filter: which calls stop for the tracer (seccomp(2), "SECCOMP_RET_TRACE").
//!
//! A binary search over the call numbers, once for each of the machine's tables: `int 0x80` and
//! x32 reach others (strace #103). All other calls run at full speed.

use libc::{sock_filter, sock_fprog};

use crate::arch;
use crate::faults::LARGE;
use crate::shape::{CallShapes, StopRule};

/// The 16 bits that tell this filter's stops from those of a filter that the command installs.
pub(crate) const MARK: u32 = 0xbeca;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const ALWAYS: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const HAS_BITS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

// Offsets in `struct seccomp_data`, on a little-endian machine.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

fn step(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn stop() -> sock_filter {
    step(RETURN, libc::SECCOMP_RET_TRACE | MARK, 0, 0)
}

fn allow() -> sock_filter {
    step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0)
}

/// The filter that stops where `shapes` says.
pub(crate) fn build(shapes: &CallShapes) -> Vec<sock_filter> {
    let tables = shapes.tables().iter().rev();
    let chosen = tables.fold(vec![stop()], |others, table| {
        choose(EQUAL, table.arch, section(&table.stops), others)
    });
    let mut filter = vec![step(LOAD, ARCH, 0, 0)];
    filter.extend(chosen);
    filter
}

/// The filter that stops at all calls, but for these of the machine's own table, by number, ascending.
pub(crate) fn build_but(exceptions: &[(u16, StopRule)]) -> Vec<sock_filter> {
    let mut edges = vec![(0, StopRule::Always)];
    for (number, rule) in exceptions {
        edges.retain(|(from, _)| *from != u32::from(*number));
        edges.extend([(u32::from(*number), *rule), (u32::from(*number) + 1, StopRule::Always)]);
    }
    edges.dedup_by(|next, before| next.1 == before.1);
    let mut section = vec![step(LOAD, NUMBER, 0, 0)];
    section.extend(search(&edges));
    let mut filter = vec![step(LOAD, ARCH, 0, 0)];
    filter.extend(choose(EQUAL, arch::TABLES[0].0, section, vec![stop()]));
    filter
}

/// `if A <test> k { yes } else { no }`, for sections of any length. `A` is the loaded word.
fn choose(test: u16, k: u32, yes: Vec<sock_filter>, no: Vec<sock_filter>) -> Vec<sock_filter> {
    let mut code = vec![step(test, k, 1, 0), step(ALWAYS, yes.len() as u32, 0, 0)];
    code.extend(yes);
    code.extend(no);
    code
}

/// The search over one table.
fn section(stops: &[(u16, StopRule)]) -> Vec<sock_filter> {
    // Where the answer changes, in ascending order.
    let mut edges: Vec<(u32, StopRule)> = vec![(0, StopRule::Never)];
    for (number, stop) in stops {
        let number = u32::from(*number);
        match edges.last_mut() {
            Some(last) if last.0 == number => last.1 = *stop,
            _ => edges.push((number, *stop)),
        }
        edges.push((number + 1, StopRule::Never));
    }
    // Numbers of a table that has no section: rare, so all of them stop.
    edges.extend(arch::FOREIGN_FROM.map(|from| (from, StopRule::Always)));
    edges.dedup_by(|next, before| next.1 == before.1);
    let mut code = vec![step(LOAD, NUMBER, 0, 0)];
    code.extend(search(&edges));
    code
}

fn search(edges: &[(u32, StopRule)]) -> Vec<sock_filter> {
    if let [(_, answer)] = edges {
        return leaf(*answer);
    }
    let (low, high) = edges.split_at(edges.len() / 2);
    choose(AT_LEAST, high[0].0, search(high), search(low))
}

fn leaf(answer: StopRule) -> Vec<sock_filter> {
    match answer {
        StopRule::Never => vec![allow()],
        StopRule::Always => vec![stop()],
        StopRule::IfArgument(which, value) => {
            let mut code = vec![step(LOAD, ARGUMENTS + 8 * u32::from(which), 0, 0)];
            code.extend([step(EQUAL, value, 0, 1), stop(), allow()]);
            code
        }
        StopRule::UnlessArgumentHas(which, bits) => {
            let mut code = vec![step(LOAD, ARGUMENTS + 8 * u32::from(which), 0, 0)];
            code.extend([step(HAS_BITS, bits, 1, 0), stop(), allow()]);
            code
        }
        StopRule::IfMaps { code, much } => mapping(code, much),
        StopRule::UnlessOpened(which, also) => unless_opened(which, also),
        StopRule::UnlessMapsForItself => {
            let mut code = vec![step(LOAD, ARGUMENTS + 8 * 3, 0, 0)];
            code.extend([step(HAS_BITS, libc::MAP_ANONYMOUS as u32, 0, 1), allow()]);
            // Of MAP_SHARED and MAP_SHARED_VALIDATE, too.
            code.extend([step(HAS_BITS, libc::MAP_SHARED as u32, 0, 1), stop()]);
            code.extend(unless_opened(4, None));
            code
        }
    }
}

/// A descriptor beyond the standard ones, and no number that means something else (AT_FDCWD).
fn unless_opened(which: u8, also: Option<(u8, u32, u32)>) -> Vec<sock_filter> {
    const NEGATIVE: u32 = 1 << 31;
    let mut code = vec![step(LOAD, ARGUMENTS + 8 * u32::from(which), 0, 0)];
    code.extend([step(AT_LEAST, 3, 1, 0), stop(), step(AT_LEAST, NEGATIVE, 0, 1), stop()]);
    if let Some((which, from, to)) = also {
        code.push(step(LOAD, ARGUMENTS + 8 * u32::from(which), 0, 0));
        code.extend([step(AT_LEAST, from, 1, 0), stop(), step(AT_LEAST, to + 1, 0, 1), stop()]);
    }
    code.push(allow());
    code
}

/// mmap(2) of a file: where it maps instructions, or many bytes.
fn mapping(code: bool, much: bool) -> Vec<sock_filter> {
    const { assert!(LARGE < u32::MAX as u64) };
    // mmap's arguments: address, length, protection, flags.
    let instructions = if code { libc::PROT_EXEC as u32 } else { 0 };
    // Nobody's mapping is ignored that does not fit into half a word.
    let most = if much { LARGE as u32 } else { u32::MAX };
    vec![
        step(LOAD, ARGUMENTS + 8 * 3, 0, 0),
        step(HAS_BITS, libc::MAP_ANONYMOUS as u32, 7, 0),
        step(LOAD, ARGUMENTS + 8 * 2, 0, 0),
        step(HAS_BITS, instructions, 4, 0),
        step(LOAD, ARGUMENTS + 8 + 4, 0, 0),
        step(EQUAL, 0, 0, 2),
        step(LOAD, ARGUMENTS + 8, 0, 0),
        step(AT_LEAST, most, 0, 1),
        stop(),
        allow(),
    ]
}

/// Installs the filter in this process, for good. Without privilege that needs
/// `no_new_privs`, which is therefore set only then: a privileged recorder leaves set-user-id
/// programs as they are.
///
/// Makes system calls only: it runs between fork and exec.
///
/// # Errors
/// The error number of seccomp.
pub(crate) fn install(filter: &[sock_filter]) -> Result<(), i32> {
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let install = |flags: libc::c_ulong| {
        // SAFETY: `program` describes `filter`, which the kernel copies.
        unsafe {
            let done = libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER as libc::c_long,
                flags,
                &raw const program,
            );
            if done == 0 { Ok(()) } else { Err(*libc::__errno_location()) }
        }
    };
    // Without SPEC_ALLOW, kernels before 5.16 slow the command's branches down. Kernels before
    // 4.17 do not know it.
    let set = || match install(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW) {
        Err(libc::EINVAL) => install(0),
        done => done,
    };
    match set() {
        Err(libc::EACCES) if rustix::thread::set_no_new_privs(true).is_ok() => set(),
        done => done,
    }
}
