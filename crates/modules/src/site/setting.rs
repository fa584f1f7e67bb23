//! The configuration options of `modulecmd.tcl`.

use serde::{Deserialize, Serialize};

use super::Environment;
use crate::tcl::split;

/// One option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModulesSetting {
    /// Its name: `mcookie_check`.
    pub name: String,
    /// Its value, as Modules writes it; none if it is undefined. A value of the environment that
    /// Modules does not allow does not count. What a site's script sets cannot be known without
    /// running it: see [`super::SiteScript`].
    pub value: Option<String>,
    /// What it would be without the environment.
    pub built_in: Option<String>,
    /// The variable that sets it, if one may: `MODULES_MCOOKIE_CHECK`.
    pub variable: Option<String>,
    /// Where its value comes from.
    pub source: SettingSource,
}

/// Where an option's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// The default that it was built with.
    BuiltIn,
    /// The environment.
    Environment,
}

/// The options that a `modulecmd.tcl` defines (`array set g_config_defs [list … ]`), with what
/// the environment sets of them; none if it does not define any.
pub(super) fn settings(script: &str, environment: &Environment) -> Option<Vec<ModulesSetting>> {
    let (_, after) = script.split_once("\narray set g_config_defs [list")?;
    let (list, _) = after.split_once("\\\n]")?;
    let words = split(&list.replace("\\\n", " ")).ok()?;
    let pairs = words.chunks_exact(2);
    Some(pairs.filter_map(|pair| setting(&pair[0], &pair[1], environment)).collect())
}

/// From `{VARIABLE DEFAULT LOCKABLE [KIND] {ALLOWED…} {INTERNAL…} INIT HOW}`. The kind (one
/// letter) came with 5.6.
fn setting(name: &str, properties: &str, environment: &Environment) -> Option<ModulesSetting> {
    let properties = split(properties).ok()?;
    let [variable, built_in, _, rest @ ..] = &properties[..] else { return None };
    let (kind, rest) = match rest {
        [kind, rest @ ..] if matches!(kind.as_str(), "b" | "i" | "l" | "o" | "s") => {
            (Some(kind.as_str()), rest)
        }
        rest => (None, rest),
    };
    let allowed = rest.first().map(|allowed| split(allowed)).transpose().ok()?.unwrap_or_default();
    let how = rest.get(3).map_or("", String::as_str);
    let built_in = (built_in != "<undef>").then(|| built_in.clone());
    let variable = (!variable.is_empty()).then(|| variable.clone());
    let given = variable.as_deref().and_then(|variable| environment.text(variable));
    let given = given.filter(|value| is_allowed(value, &allowed, how, kind));
    Some(ModulesSetting {
        name: name.to_owned(),
        value: given.map(str::to_owned).or_else(|| built_in.clone()),
        source: if given.is_some() { SettingSource::Environment } else { SettingSource::BuiltIn },
        built_in,
        variable,
    })
}

/// Whether Modules takes a value from the environment (`getConf`).
fn is_allowed(value: &str, allowed: &[String], how: &str, kind: Option<&str>) -> bool {
    match (how, allowed) {
        ("eltlist", _) => value.split(':').all(|part| allowed.iter().any(|one| one == part)),
        ("intbe", [least, most]) => {
            let number = |text: &str| text.parse::<i64>().ok();
            let between = |value| Some(number(least)? <= value && value <= number(most)?);
            number(value).and_then(between).unwrap_or(false)
        }
        (_, []) => true,
        // One word names a class of characters for Tcl's `string is`; none is in use so far.
        (_, [_]) => kind.is_none() || !value.is_empty(),
        (_, several) => several.iter().any(|one| one == value),
    }
}
