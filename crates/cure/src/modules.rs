//! The module tool walks a modulepath: the audit tells what to change.
//!
//! What to do depends on the release of Modules, on who may write there and on what is private: the
//! audit looks at that. It is of Environment Modules, not of Lmod.

use explain::{Finding, ModuleTool, ModulesSource, Storm, StormSource};
use term::quoted;

use crate::cure::{CloserLook, StormCures};

pub(crate) fn cures(finding: &Finding) -> StormCures {
    let is_lmod = finding.sources.iter().any(|source| {
        matches!(
            source,
            StormSource::Modules(ModulesSource::Modulefiles { tool: ModuleTool::Lmod, .. })
        )
    });
    let modulepath = finding.sources.iter().find_map(|source| match source {
        StormSource::Modules(ModulesSource::Modulepath { directory, .. }) => Some(directory),
        _ => None,
    });
    let look = modulepath.filter(|_| !is_lmod).map(|directory| CloserLook {
        storm: Storm::Modules,
        text: "See what in the tree makes it so, and what can be changed here".to_owned(),
        command: Some(format!("becalm modules audit {}", quoted(directory.path()))),
    });
    StormCures { cures: Vec::new(), looks: look.into_iter().collect() }
}
