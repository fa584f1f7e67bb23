//! What a cache does to `module load`: it is read and evaluated whole for a single modulefile.

use crate::site::ModulesSite;

/// What to do so that `load` stays as fast as without a cache; none where that is done.
pub fn note(site: &ModulesSite) -> Option<String> {
    if !super::reads_caches(site) {
        return None;
    }
    let Some(setting) = setting(site) else {
        return Some(format!(
            "load reads all of the cache, and Modules {} cannot be told not to (5.7 can): \
             a wrapper may give load the option --ignore-cache",
            site.release
        ));
    };
    if setting.contains(&"load") {
        return None;
    }
    let mut commands = setting;
    commands.push("load");
    Some(format!(
        "load reads all of the cache, and is slower with it than without; in the site's initrc: \
         module config ignore_cache_subcmds {}",
        commands.join(":")
    ))
}

/// The commands that do without caches, where the release knows the option.
fn setting(site: &ModulesSite) -> Option<Vec<&str>> {
    let known = site.settings.iter().find(|setting| setting.name == "ignore_cache_subcmds")?;
    let value = known.value.as_deref().unwrap_or_default();
    Some(value.split(':').filter(|command| !command.is_empty()).collect())
}
