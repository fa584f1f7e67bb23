//! The lookups that a program is spared once it is bound.

use std::collections::HashMap;
use std::path::PathBuf;

use super::resolve::{LoaderRun, Resolver};
use crate::PlannedWorld;

/// What a program's loader looks up less once it is bound, objects that it loads aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparedLookups {
    /// The paths that it looks up today, and no more then, each as often as it does.
    pub paths: Vec<PathBuf>,
    /// How many others it looks up then: in a directory of links, which the files that are left as
    /// they are inherit.
    pub instead: usize,
}

/// What the loader of this program is spared in this world; none if nothing can be said.
pub(super) fn spared(
    resolver: &Resolver<'_>,
    world: &PlannedWorld<'_>,
    program: &LoaderRun,
) -> Option<SparedLookups> {
    let mut today: HashMap<PathBuf, usize> = HashMap::new();
    for path in resolver.search_lookups(resolver.world, program).ok()? {
        *today.entry(path).or_default() += 1;
    }
    let mut instead = 0;
    for path in resolver.search_lookups(world, program).ok()? {
        match today.get_mut(&path).filter(|times| **times > 0) {
            Some(times) => *times -= 1,
            None => instead += 1,
        }
    }
    let each = |(path, times)| std::iter::repeat_n(path, times);
    Some(SparedLookups { paths: today.into_iter().flat_map(each).collect(), instead })
}
