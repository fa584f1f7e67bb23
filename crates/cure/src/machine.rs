//! What can be done where the reader of the findings is.
//!
//! A recording does not tell it, and a command that is refused where it is pasted is no cure. So
//! whoever wants cures says what holds here, or that nothing is known: then only that is a cure
//! which needs nothing of the machine.

use std::path::Path;

/// What can be done here; each is looked at only where it matters.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether bash takes the builtins of `becalm run --builtins`; of a script that was executed
    /// itself, whether it is bash that runs it, and not as `sh`.
    pub takes_builtins: fn(Option<&Path>) -> bool,
    /// Whether this user can change a file in place.
    pub can_change: fn(&Path) -> bool,
    /// Whether an image of an environment can be built in the working directory, and be mounted
    /// over it.
    pub can_mount_image: fn(&Path) -> bool,
}

impl Machine {
    /// A recording from somewhere: nothing is known.
    pub const fn unknown() -> Machine {
        Machine { takes_builtins: |_| false, can_change: |_| false, can_mount_image: |_| false }
    }
}
