//! Why names are left to the search, and that in words.

use super::working::WORKING_DIRECTORY;

/// Why a name is left to the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SearchedReason {
    /// It is on the list of names that are not bound.
    Listed,
    /// Nothing serves it today.
    Missing,
    /// Two starts find two files.
    Conflict,
    /// It is served by what the process has loaded, not by what the library's own search finds.
    Served,
    /// A program's list leads to it, and not the library's own: another program's may lead elsewhere.
    Inherited,
    /// Where the library is opened by name, another file serves it, or none.
    Opened,
    /// It is found through `$ORIGIN`: a pin would tie the tree to its place.
    Relocatable,
    /// It is found through `$ORIGIN` by a file with names in several directories.
    Linked,
    /// Some who may use the file may not read what root finds: they load another.
    Closed,
    /// The loader chooses among files by the processor: `$PLATFORM`, glibc-hwcaps.
    Processor,
    /// Another name is missing there, so that the start relies on LD_LIBRARY_PATH.
    Incomplete,
    /// Once a path names it, nobody else in the process finds it by its name: it has no DT_SONAME of
    /// that name, or the loader is musl's and something opens libraries by name.
    Unnamed,
    /// A variable of a start leads to it: the next user's start leads elsewhere.
    Environment,
    /// The directory's name has a `$`, which not every loader takes as it is written.
    Dollar,
    /// It is not in the image that the file is packed into.
    Outside,
    /// The directory in which the program is started is asked before.
    WorkingDirectory,
    /// A directory or link that is asked before it leads out of the image, or nowhere today.
    AskedBefore,
    /// The machine's own directories have it, and it costs no search, or the file lies in a tree that
    /// can be moved.
    Movable,
    /// There are several files of that name, and another run may load another one first.
    SeveralCopies,
    /// The library is in no known start, and only the machine's own directories have it.
    Unknown,
}

impl SearchedReason {
    /// Why, in words; nothing where the name costs no search.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            SearchedReason::Served | SearchedReason::Conflict | SearchedReason::Movable => None,
            SearchedReason::Listed => Some("on the list of names that are not bound"),
            SearchedReason::Missing => Some("not found today"),
            SearchedReason::Inherited => Some(INHERITED),
            SearchedReason::Opened => {
                Some("where the library is opened by name, another file serves it, or none")
            }
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
            SearchedReason::WorkingDirectory => Some(WORKING_DIRECTORY),
            SearchedReason::Unknown => Some("found by the system, in no program that is known"),
        }
    }
}

/// Why a name stays that a library finds by a program's list alone ([`super::BindOptions::others_load`]).
pub const INHERITED: &str = "the program's list leads to it, not the library's own: another \
                             program's may lead elsewhere";

/// Why a name stays in an image ([`super::BindOptions::packed`]) though its library is packed.
pub const ASKED_BEFORE: &str = "what is asked before it leads out of the image";
