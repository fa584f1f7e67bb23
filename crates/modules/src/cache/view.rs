//! What users see with a cache, beside what they see without: the site's own Modules is asked.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use serde::Serialize;

use super::build::CacheBuildError;
use super::elsewhere::{ModulesRun, PrivateDirectory};
use crate::site::{ModulesSite, User, UserError};
use crate::tree::ModulepathTree;

/// Of the owners of a tree's files, so many are asked.
const OWNERS: usize = 6;
/// A user that is in no group and owns nothing: Debian's nobody, and the kernel's overflow id.
const OUTSIDER: u32 = 65534;

/// A user who would see something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ViewDifference {
    /// The user.
    pub user: String,
    /// The first line that differs: without the cache, and with it.
    pub first: (String, String),
}

/// The users whose views matter: the calling one, and for root an outsider and the owners of the
/// tree's files, those of most files first. Root itself only where the modulepath is root's.
///
/// This forks: call it while the process has one thread.
///
/// # Errors
/// [`UserError`].
pub fn users(tree: &ModulepathTree) -> Result<Vec<User>, UserError> {
    let own = rustix::process::geteuid().as_raw();
    // rc files are evaluated: root does not run another's.
    let is_other_s = tree.top.stamp.is_some_and(|top| top.user != 0);
    let mut numbers = if own == 0 && is_other_s { Vec::new() } else { vec![own] };
    if own == 0 {
        let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
        let stamps =
            std::iter::once(&tree.top).chain(&tree.entries).filter_map(|entry| entry.stamp);
        stamps.for_each(|stamp| *owners.entry(stamp.user).or_default() += 1);
        let mut owners: Vec<_> = owners.into_iter().collect();
        owners.sort_by_key(|(_, files)| std::cmp::Reverse(*files));
        numbers.push(OUTSIDER);
        let owners = owners.into_iter().map(|(owner, _)| owner);
        numbers.extend(owners.filter(|owner| *owner != 0).take(OWNERS));
    }
    let mut known = Vec::new();
    numbers.retain(|number| {
        !known.contains(number) && {
            known.push(*number);
            true
        }
    });
    numbers.iter().map(|number| User::named(&number.to_string())).collect()
}

/// The users, in turns, who see something else with this cache than without; and the names of
/// those that could be asked, because they may run Modules and enter the modulepath.
pub(super) fn differences(
    site: &ModulesSite,
    modulepath: &Path,
    cache: &[u8],
    users: &[User],
    progress: &dyn Fn(u64, u64),
) -> Result<(Vec<ViewDifference>, Vec<String>), CacheBuildError> {
    let (mut differences, mut asked) = (Vec::new(), Vec::new());
    // After `cachebuild` itself.
    let tell = |done: usize| progress(1 + done as u64, 1 + 2 * users.len() as u64);
    for (at, user) in users.iter().enumerate() {
        tell(2 * at);
        if !enters(user, modulepath)? {
            continue;
        }
        let elsewhere = PrivateDirectory::with(site, user, cache)?;
        let walked =
            elsewhere.run(site, user, modulepath, ["--ignore-cache", "avail", "-a", "-l"])?;
        tell(2 * at + 1);
        let cached = elsewhere.run(site, user, modulepath, ["avail", "-a", "-l"])?;
        // A user who may not read Modules itself has no view of its own.
        if !walked.led_here || !cached.led_here {
            continue;
        }
        if (&walked.ended, &walked.digests) != (&cached.ended, &cached.digests) {
            let first = first_difference(&walked, &cached);
            differences.push(ViewDifference { user: user.name.clone(), first });
        }
        asked.push(user.name.clone());
    }
    Ok((differences, asked))
}

fn enters(user: &User, modulepath: &Path) -> Result<bool, CacheBuildError> {
    let act = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(modulepath, flags, Mode::empty()).is_ok()
    };
    Ok(user.play(&launch::Stage::new(), act)?)
}

fn first_difference(walked: &ModulesRun, cached: &ModulesRun) -> (String, String) {
    let lines = |said: &ModulesRun| {
        let text = [&said.heads[0][..], &said.heads[1][..]].concat();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (walked, cached) = (lines(walked), lines(cached));
    let many = walked.len().max(cached.len());
    let line = |lines: &[String], at: usize| lines.get(at).cloned().unwrap_or_default();
    (0..many)
        .map(|at| (line(&walked, at), line(&cached, at)))
        .find(|(walked, cached)| walked != cached)
        .unwrap_or_else(|| ("(after 64 KiB)".to_owned(), "(after 64 KiB)".to_owned()))
}
