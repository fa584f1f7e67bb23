//! Instructions of the process itself that are borrowed: none is ever written into it.

use super::error::Error;
use super::memory;
use super::process::Process;

/// Where they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instructions {
    /// `syscall; ret`.
    pub call: u64,
    /// `mov $15, %eax; syscall`: rt_sigreturn(2), which every C library has for its handlers.
    pub sigreturn: u64,
}

const CALL: &[u8] = &[0x0f, 0x05, 0xc3];
/// As glibc and musl write it, with a 64-bit move, and as Go does.
const SIGRETURN: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];

/// Mappings are read in such pieces; each begins with the end of the one before.
const PIECE: usize = 1 << 20;
const OVERLAP: usize = 16;
/// More code than this is not looked through.
const MOST_BYTES: u64 = 1 << 30;

/// Looks for them in the process's executable mappings. What is found has been read from its
/// memory, byte for byte, whatever file the mapping is of.
pub(super) fn find(process: &Process) -> Result<Instructions, Error> {
    let (mut call, mut sigreturn) = (None, None);
    let mut left = MOST_BYTES;
    for (start, end) in process.code()? {
        let mut at = start;
        while at < end && left > 0 && (call.is_none() || sigreturn.is_none()) {
            let mut piece = vec![0; PIECE.min((end - at) as usize)];
            // Code may be mapped without being readable.
            let Ok(got) = memory::read(process.pid, at, &mut piece) else { break };
            let piece = &piece[..got];
            let find = |pattern| position(piece, pattern).map(|offset| at + offset as u64);
            call = call.or_else(|| find(CALL));
            sigreturn = sigreturn.or_else(|| SIGRETURN.into_iter().find_map(find));
            if got <= OVERLAP {
                break;
            }
            let step = (got - OVERLAP) as u64;
            at += if at + got as u64 >= end { end - at } else { step };
            left = left.saturating_sub(step);
        }
    }
    Ok(Instructions {
        call: call.ok_or(Error::NoInstruction(process.pid, "`syscall; ret`"))?,
        sigreturn: sigreturn.ok_or(Error::NoInstruction(process.pid, "rt_sigreturn"))?,
    })
}

fn position(piece: &[u8], pattern: &[u8]) -> Option<usize> {
    piece.windows(pattern.len()).position(|window| window == pattern)
}
