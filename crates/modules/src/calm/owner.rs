//! Whether a modulepath is one's own to change.

use std::path::Path;

use rustix::fs::Access;

use crate::site::User;
use crate::tree::{ModulepathTree, TreeEntryKind};

/// Why nothing can be planned for a modulepath at all; none if it can.
pub(super) fn unusable(tree: &ModulepathTree) -> Option<String> {
    match &tree.top.kind {
        TreeEntryKind::Directory { .. } if !tree.is_cut => {}
        TreeEntryKind::Directory { .. } => {
            return Some("it has too many names to be seen whole".into());
        }
        TreeEntryKind::Dangling => return Some("it is not there".into()),
        TreeEntryKind::Unreadable { why, .. } => return Some(format!("it cannot be read: {why}")),
        _ => return Some("it is no directory".into()),
    }
    let special = tree.entries.iter().find(|entry| entry.kind == TreeEntryKind::Special)?;
    let name = special.name.display();
    Some(format!("{name} is a FIFO, a socket or a device: avail may wait for it for ever"))
}

/// Why its files are not ours to change; none if they are. Root changes nothing of another user's:
/// what root made there could not be changed by its owner any more.
pub(super) fn not_ours(tree: &ModulepathTree) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let owner = tree.top.stamp.map(|stamp| stamp.user).filter(|owner| *owner != own);
    if let Some(owner) = owner {
        let name = User::named(&owner.to_string()).map_or(owner.to_string(), |user| user.name);
        return Some(format!("it belongs to {name}, who can do this"));
    }
    writable(&tree.root).err().map(|error| format!("it cannot be written: {error}"))
}

fn writable(root: &Path) -> std::io::Result<()> {
    Ok(rustix::fs::access(root, Access::WRITE_OK | Access::EXEC_OK)?)
}
