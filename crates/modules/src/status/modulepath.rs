//! One modulepath.

use std::time::SystemTime;

use recording::Name;
use schemars::JsonSchema;
use serde::Serialize;

use super::StatusGround;
use crate::audit::{Census, ModuleCommand, crowded_module, predict};
use crate::cache;
use crate::index::StoreError;
use crate::tree::{ModulepathTree, TreeEntryKind};

/// A modulepath, as it is now.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModulepathStatus {
    /// Where.
    pub path: Name,
    /// What is in it.
    pub census: Census,
    /// The system calls that `module avail` makes on it, by the model, without cache and index.
    pub avail_calls: u64,
    /// Those of `module load` of the name with the most versions; none if there is no such name.
    pub load_calls: Option<u64>,
    /// Those of `module whatis`.
    pub whatis_calls: u64,
    /// Its `.modulecache`.
    pub cache: StoredCopy,
    /// Its index.
    pub index: StoredCopy,
}

/// What is kept of a modulepath beside it: a cache or an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StoredCopy {
    /// How it is.
    pub state: StoredState,
    /// How many seconds ago it was written; none if there is none.
    pub age_seconds: Option<u64>,
    /// What is wrong with it.
    pub why: Option<String>,
}

/// Whether a cache or an index says what the tree says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoredState {
    /// There is none.
    Absent,
    /// It does, for everyone.
    True,
    /// It does not any more, or cannot be trusted.
    Wrong,
}

impl ModulepathStatus {
    pub(super) fn of(tree: &ModulepathTree, ground: &StatusGround<'_>) -> ModulepathStatus {
        let site = ground.site;
        let calls = |ask: &ModuleCommand| predict(ask, &[tree], site).calls.all();
        let load = crowded_module(&[tree]).map(ModuleCommand::Load);
        ModulepathStatus {
            path: Name::of(&tree.root),
            census: Census::of(tree, Some(&site.release)),
            avail_calls: calls(&ModuleCommand::Avail),
            load_calls: load.as_ref().map(calls),
            whatis_calls: calls(&ModuleCommand::Whatis),
            cache: cache_of(tree, ground),
            index: index_of(tree, ground),
        }
    }
}

fn cache_of(tree: &ModulepathTree, ground: &StatusGround<'_>) -> StoredCopy {
    let entry = tree.entries.iter().find(|entry| entry.kind == TreeEntryKind::Cache);
    let Some(entry) = entry else {
        return StoredCopy { state: StoredState::Absent, age_seconds: None, why: None };
    };
    let checked = cache::check(&tree.root, Some(ground.site));
    let fault = checked.faults.first();
    StoredCopy {
        state: if fault.is_none() { StoredState::True } else { StoredState::Wrong },
        age_seconds: entry.stamp.and_then(|stamp| age(stamp.modified)),
        why: fault.map(|fault| match &fault.name {
            Some(name) => format!("{name}: {}", fault.what),
            None => fault.what.clone(),
        }),
    }
}

/// How many seconds ago; none for a time in the future.
fn age(modified: i128) -> Option<u64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
    u64::try_from((i128::try_from(now).ok()? - modified) / 1_000_000_000).ok()
}

fn index_of(tree: &ModulepathTree, ground: &StatusGround<'_>) -> StoredCopy {
    let wrong = |why: String, age_seconds| StoredCopy {
        state: StoredState::Wrong,
        age_seconds,
        why: Some(why),
    };
    let held = match ground.store.held(&tree.root) {
        Ok(held) => held,
        Err(StoreError::Absent { .. }) => {
            return StoredCopy { state: StoredState::Absent, age_seconds: None, why: None };
        }
        Err(why) => return wrong(why.to_string(), None),
    };
    let age_seconds = Some(held.age.as_secs());
    match held.names(&tree.root) {
        Err(why) => wrong(why.to_string(), age_seconds),
        Ok(names) if names.is_fresh(|_| true, true) => {
            StoredCopy { state: StoredState::True, age_seconds, why: None }
        }
        Ok(_) => wrong("the tree has changed since".into(), age_seconds),
    }
}
