//! Locales: no cure.
//!
//! Another locale is another behaviour, and where one is installed is the system's to say. The page
//! of the storm tells what can be tried.

use crate::cure::StormCures;

pub(crate) fn cures() -> StormCures {
    StormCures::default()
}
