//! Whose view must stay the same, where nobody is named.

use std::collections::BTreeSet;

use rustix::process::{getegid, geteuid, getgroups};

use crate::site::{User, UserError};
use crate::tree::{ChangeStamp, ModulepathTree};

/// No more owners than this are asked.
const OWNERS: usize = 6;

/// Whoever calls this, as a user.
///
/// # Errors
/// If id(1) cannot say who that is.
pub fn caller() -> Result<User, UserError> {
    let user = geteuid().as_raw();
    let named = User::named(&user.to_string())?;
    let groups = getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
    Ok(User { name: named.name, user, group: getegid().as_raw(), groups })
}

/// Whom to ask before and after: the caller; where that is root, also the owners of what not
/// everyone may read, and nobody, who comes last.
///
/// To ask is to have Modules evaluate what is in the trees. As root that is done only where
/// nobody but root may write them.
///
/// # Errors
/// If id(1) cannot be asked.
pub fn whom_to_ask(trees: &[ModulepathTree]) -> Result<Vec<User>, UserError> {
    if !geteuid().is_root() {
        return Ok(vec![caller()?]);
    }
    let all = || trees.iter().flat_map(|tree| std::iter::once(&tree.top).chain(&tree.entries));
    let stamps = || all().filter_map(|entry| entry.stamp);
    let mut users = Vec::new();
    if stamps().all(|stamp| is_roots_alone(&stamp)) {
        users.push(caller()?);
    }
    let private = stamps().filter(|stamp| !stamp.everyone_may_read() && stamp.user != 0);
    let owners: BTreeSet<u32> = private.map(|stamp| stamp.user).collect();
    for owner in owners.into_iter().take(OWNERS) {
        users.push(User::named(&owner.to_string())?);
    }
    let nobody = User::named("nobody").or_else(|_| User::named("65534"))?;
    users.retain(|user| user.user != nobody.user);
    users.push(nobody);
    Ok(users)
}

fn is_roots_alone(stamp: &ChangeStamp) -> bool {
    stamp.user == 0 && !stamp.others_may_write()
}
