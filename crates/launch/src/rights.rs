//! Rights that a program has of its own, and a process that is held back does not get.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use proc::ProcessStatus;
use rustix::process::{getegid, geteuid};

/// Whether executing a file gives other rights than the caller's: set-user-id, set-group-id,
/// capabilities. Who is traced by an ordinary user does not get them (fs/exec.c, `bprm_fill_uid`;
/// security/commoncap.c), nor who is in a user namespace that does not know the file's owner.
pub fn gives_rights(program: &Path) -> bool {
    let rights = OwnRights::of(program).filter(|_| !gains_nothing());
    rights.is_some_and(|rights| {
        rights.set_others(geteuid().as_raw(), getegid().as_raw()) || rights.capabilities != 0
    })
}

/// Whether a process that this one traces, as an ordinary user, has not got rights by the program that it has
/// just executed that it would have got untraced.
pub fn lost_rights(pid: i32) -> bool {
    let Some(rights) = OwnRights::of(Path::new(&format!("/proc/{pid}/exe"))) else { return false };
    let Some(status) = ProcessStatus::of(pid).filter(|_| !gains_nothing()) else { return false };
    let effective = |name| status.field(name)?.split_ascii_whitespace().nth(1)?.parse().ok();
    let (Some(user), Some(group)) = (effective("Uid"), effective("Gid")) else { return false };
    let capabilities = |name| status.mask(name).unwrap_or(0);
    let lacks = rights.capabilities & capabilities("CapBnd") & !capabilities("CapPrm") != 0;
    let is_other = rights.set_others(user, group);
    match (lacks || is_other) && namespace("self") != namespace(&pid.to_string()) {
        // Who made it may trace all rights in it (`ptracer_capable`), but not against `no_new_privs`.
        true => {
            status.number("NoNewPrivs") == Some(1)
                && (lacks || is_other && rights.are_of_known(pid))
        }
        false => lacks || is_other,
    }
}

/// Whether no program gives this process rights, nor what it starts (prctl(2)).
fn gains_nothing() -> bool {
    rustix::thread::no_new_privs().unwrap_or(false)
}

fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/user")).ok()
}

/// What a program file brings.
struct OwnRights {
    owner: u32,
    group: u32,
    sets_user: bool,
    sets_group: bool,
    /// The capabilities that it permits, as a set.
    capabilities: u64,
}

impl OwnRights {
    /// Those of a file; none where it is not there, or has none.
    fn of(program: &Path) -> Option<OwnRights> {
        let metadata = fs::metadata(program).ok()?;
        // Set-group-ID without the group's execute bit means mandatory locking.
        let executable_group = libc::S_ISGID | libc::S_IXGRP;
        let rights = OwnRights {
            owner: metadata.uid(),
            group: metadata.gid(),
            sets_user: metadata.mode() & libc::S_ISUID != 0,
            sets_group: metadata.mode() & executable_group == executable_group,
            capabilities: capabilities(program),
        };
        (rights.sets_user || rights.sets_group || rights.capabilities != 0).then_some(rights)
    }

    /// Whether who executes it becomes another user, or of another group.
    fn set_others(&self, user: u32, group: u32) -> bool {
        self.sets_user && self.owner != user || self.sets_group && self.group != group
    }

    /// Whether the user namespace of a process of another one than this knows its owner and group: else it sets
    /// neither.
    fn are_of_known(&self, pid: i32) -> bool {
        knows(pid, "uid_map", self.owner) && knows(pid, "gid_map", self.group)
    }
}

/// Whether a process's user namespace knows a user or group, by the number that one of another namespace sees
/// (user_namespaces(7)).
fn knows(pid: i32, map: &str, id: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/{map}")).unwrap_or_default();
    text.lines().any(|line| {
        let numbers = line.split_ascii_whitespace().filter_map(|word| word.parse().ok());
        match numbers.collect::<Vec<u32>>()[..] {
            [_, outside, length] => id.checked_sub(outside).is_some_and(|at| at < length),
            _ => false,
        }
    })
}

/// The capabilities that a file permits (linux/capability.h, `vfs_cap_data`): from revision 2 on two words, of
/// which the second comes after those that are inherited.
fn capabilities(program: &Path) -> u64 {
    let mut value = [0u8; 64];
    let size = rustix::fs::getxattr(program, c"security.capability", &mut value[..]).unwrap_or(0);
    let word = |at: usize| {
        let bytes = value[..size].get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u64::from(bytes.map_or(0, u32::from_le_bytes))
    };
    word(4) | word(12) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_gives_no_rights_and_what_is_not_there_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!gives_rights(file.path()));
        assert!(!gives_rights(Path::new("/nonexistent/program")));
    }
}
