//! Configuration cascades: no cure.
//!
//! What a file in one of the places would say, no recording of this start tells: it may be there
//! tomorrow, and is then meant to count. What programs have to look less is said, with that reason.

use explain::{ConfigurationSource, Finding, Storm, StormSource};
use recording::Name;

use crate::cure::{RefusedCure, StormCures};
use crate::plan::PlanInput;

/// What has a program look in fewer places, by its own documentation: git(1), matplotlib's
/// `matplotlib_fname`, pip's "Configuration", fontconfig's "Environment variables".
const KNOWN: &[(&[u8], &str)] = &[
    (b"gitconfig", "GIT_CONFIG_NOSYSTEM=1"),
    (b"gitattributes", "GIT_ATTR_NOSYSTEM=1"),
    (b"matplotlibrc", "MATPLOTLIBRC=FILE"),
    (b"pip.conf", "PIP_CONFIG_FILE=/dev/null"),
    (b"fonts.conf", "FONTCONFIG_FILE=FILE"),
];

pub(crate) fn cures(_: &PlanInput, finding: &Finding) -> StormCures {
    let known = finding.sources.iter().filter_map(|source| known(name(source)?));
    let refused = |text: &str, why: &str| RefusedCure {
        storm: Storm::Configuration,
        text: text.to_owned(),
        why: why.to_owned(),
    };
    let known = known.map(|setting| {
        refused(setting, "what is configured in the places left out would count no more")
    });
    let general = refused(
        "Fewer places",
        "whether somebody will put a file into one of them, no recording of this start tells",
    );
    StormCures { not_chosen: known.chain([general]).collect(), ..StormCures::default() }
}

fn name(source: &StormSource) -> Option<&Name> {
    match source {
        StormSource::Configuration(ConfigurationSource::Configuration {
            configuration, ..
        }) => Some(configuration),
        _ => None,
    }
}

fn known(name: &Name) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == name.bytes()).map(|(_, setting)| *setting)
}
