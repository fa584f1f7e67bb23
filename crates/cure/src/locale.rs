//! Locales: no cure.
//!
//! Another locale is another behaviour, and where one is installed is the system's to say. The page
//! of the storm tells what can be tried.

use explain::{Finding, Storm};

use crate::cure::{RefusedCure, StormCures};
use crate::plan::PlanInput;

pub(crate) fn cures(_: &PlanInput, _: &Finding) -> StormCures {
    let refused = RefusedCure {
        storm: Storm::Locale,
        text: "LC_ALL=C".to_owned(),
        why: "it turns UTF-8 off, and may change messages and the order of sorting: whether that \
              matters, only the author of the command knows"
            .to_owned(),
    };
    StormCures { not_chosen: vec![refused], ..StormCures::default() }
}
