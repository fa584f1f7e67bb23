//! The failed lookups that a program is spared once it is bound.

use std::collections::HashMap;
use std::path::PathBuf;

use super::resolve::{LoaderRun, Resolver};
use crate::PlannedWorld;

/// The paths that the loader of this program looks up in vain today and not in this world, each as
/// often as it does; none if it looks up others there, or if nothing can be said.
pub(super) fn spared(
    resolver: &Resolver<'_>,
    world: &PlannedWorld<'_>,
    program: &LoaderRun,
) -> Option<Vec<PathBuf>> {
    let mut today: HashMap<PathBuf, usize> = HashMap::new();
    for path in resolver.failed_lookups(resolver.world, program).ok()? {
        *today.entry(path).or_default() += 1;
    }
    for path in resolver.failed_lookups(world, program).ok()? {
        let times = today.get_mut(&path).filter(|times| **times > 0)?;
        *times -= 1;
    }
    let each = |(path, times)| std::iter::repeat_n(path, times);
    Some(today.into_iter().flat_map(each).collect())
}
