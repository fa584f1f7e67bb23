//! Access control lists: who may read a file, where its permissions alone do not tell.
//!
//! `tidy` leaves a file alone that has a list at all ([`has_list`]): it changes what all users see.
//! `cache` and `index` read the lists ([`denies`]): they would otherwise leave out all files of a
//! filesystem on which each has one, as over NFSv4.

use std::path::Path;

pub use access::has_list;
use access::posix_acl;
use rustix::fs::getxattr;
use rustix::io::Errno;

const NFS4: &str = "system.nfs4_acl";

/// What is wanted of a file or directory: to read it.
pub const READ: u8 = 4;
/// Of a directory: to enter it.
pub const ENTER: u8 = 1;

/// Whether an access control list keeps somebody from all of `wanted` ([`READ`], [`ENTER`]), or
/// nobody says.
pub fn denies(path: &Path, wanted: u8) -> bool {
    match posix_acl(path) {
        Ok(None) => false,
        Ok(Some(entries)) => entries.iter().any(|entry| entry.rights & wanted != wanted),
        Err(Errno::NOTSUP) => {
            let mut value = [0; 4096];
            match getxattr(path, NFS4, &mut value) {
                Ok(length) => !nfs4_allows(&value[..length], wanted).unwrap_or(false),
                // A list of this kind is not read.
                Err(Errno::NODATA | Errno::NOTSUP) => has_list(path),
                Err(_) => true,
            }
        }
        // Too large to be looked at, not understood, or not told.
        Err(_) => true,
    }
}

/// Whether an NFSv4 ACL allows everyone what is wanted and denies it to nobody; none if it is not
/// understood. Its form: XDR (RFC 7530, 6.2), a number of entries and then type, flags, mask and
/// whom, text with its length before it and padded to four bytes.
fn nfs4_allows(acl: &[u8], wanted: u8) -> Option<bool> {
    const ALLOW: u32 = 0;
    const DENY: u32 = 1;
    /// Of a directory: it counts for what is made in it.
    const INHERIT_ONLY: u32 = 8;
    let (read, execute) = (1, 0x20);
    let wanted =
        if wanted & READ != 0 { read } else { 0 } | if wanted & ENTER != 0 { execute } else { 0 };
    let number = |at: usize| {
        let bytes = acl.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let (mut at, mut allows) = (4, false);
    for _ in 0..number(0)? {
        let (kind, mask, length) = (number(at)?, number(at + 8)?, number(at + 12)? as usize);
        let who = acl.get(at + 16..(at + 16).checked_add(length)?)?;
        match kind {
            _ if number(at + 4)? & INHERIT_ONLY != 0 => {}
            DENY if mask & wanted != 0 => return Some(false),
            ALLOW => allows |= who == b"EVERYONE@" && mask & wanted == wanted,
            _ => {}
        }
        at += 16 + length.next_multiple_of(4);
    }
    Some(allows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nfs4(entries: &[(u32, u32, u32, &str)]) -> Vec<u8> {
        let mut acl = (entries.len() as u32).to_be_bytes().to_vec();
        for (kind, flags, mask, who) in entries {
            for number in [*kind, *flags, *mask, who.len() as u32] {
                acl.extend(number.to_be_bytes());
            }
            acl.extend(who.as_bytes());
            acl.resize(acl.len().next_multiple_of(4), 0);
        }
        acl
    }

    #[test]
    fn an_entry_that_is_only_inherited_allows_nothing_here() {
        let all = |flags| nfs4(&[(0, 0, 0x21, "OWNER@"), (0, flags, 0x21, "EVERYONE@")]);
        assert_eq!(nfs4_allows(&all(0), READ | ENTER), Some(true));
        assert_eq!(nfs4_allows(&all(3), READ | ENTER), Some(true));
        assert_eq!(nfs4_allows(&all(0xb), READ | ENTER), Some(false));
        let denied = nfs4(&[(1, 8, 1, "alice@site"), (0, 0, 0x21, "EVERYONE@")]);
        assert_eq!(nfs4_allows(&denied, READ), Some(true));
    }
}
