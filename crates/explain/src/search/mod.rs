//! How programs searched lists of directories, and which lists these were.
//!
//! | file | what it holds |
//! |---|---|
//! | `roots` | which part of a path is the list's directory, and which the name that is searched |
//! | `names` | one name searched in one directory after the other |
//! | `declared` | where a list is written: a variable, options, a program's own |
//! | `lists` | the searches of one list together |
//! | `order` | what another order of the directories would take |

mod declared;
mod lists;
mod names;
mod order;
mod roots;

pub(crate) use declared::lists_of;
pub use declared::{ListName, declared_entries};
pub(crate) use lists::{FAILS_IN, SearchedList, search_lists};
pub use lists::{ListEntry, ListSearches, NameSearch};
pub use order::OrderChange;
pub use roots::stem;
