//! Directory walks: no cure.
//!
//! A walk is what the program was run for. The page of the storm tells what can be tried.

use crate::cure::StormCures;

pub(crate) fn cures() -> StormCures {
    StormCures::default()
}
