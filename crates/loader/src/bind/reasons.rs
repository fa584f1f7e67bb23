//! Why names are left to the search, in words.

use super::pins::SearchedReason;

impl SearchedReason {
    /// Why, in words; nothing where the name costs no search.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            SearchedReason::Served | SearchedReason::Conflict | SearchedReason::Movable => None,
            SearchedReason::Listed => Some("on the list of names that are not bound"),
            SearchedReason::Missing => Some("not found today"),
            SearchedReason::Inherited => Some(INHERITED),
            SearchedReason::Relocatable => {
                Some("found through $ORIGIN: --absolute binds it to its place")
            }
            SearchedReason::Linked => {
                Some("found through $ORIGIN by a file with names in several directories")
            }
            SearchedReason::Closed => Some("not everyone may read the file that is found"),
            SearchedReason::Processor => Some("the loader chooses the file by the processor"),
            SearchedReason::Incomplete => {
                Some("another library is missing: LD_LIBRARY_PATH will decide")
            }
            SearchedReason::Unnamed => Some("no DT_SONAME of that name: bound, it has none"),
            SearchedReason::Environment => {
                Some("the environment of this start decides (LD_LIBRARY_PATH, LD_PRELOAD)")
            }
            SearchedReason::Dollar => Some("found in a directory with a $ in its name"),
            SearchedReason::SeveralCopies => Some(
                "there are several of that name, and the order decides: --name-copies names this one",
            ),
            SearchedReason::Outside => Some("not in the image"),
            SearchedReason::AskedBefore => Some(ASKED_BEFORE),
            SearchedReason::Unknown => Some("found by the system, in no program that is known"),
        }
    }
}

/// Why a name stays that a library finds by a program's list alone ([`super::BindOptions::others_load`]).
pub const INHERITED: &str = "the program's list leads to it, not the library's own: another \
                             program's may lead elsewhere";

/// Why a name stays in an image ([`super::BindOptions::packed`]) though its library is packed.
pub const ASKED_BEFORE: &str = "what is asked before it leads out of the image";
