//! What can be done where the reader of the findings is.
//!
//! A recording does not tell it, and a command that is refused where it is pasted is no advice. So
//! whoever asks for findings says what holds here, or that nothing is known: then only that is
//! advised which needs nothing of the machine.

use std::path::Path;

/// What can be done here; each is asked only where it matters.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether bash takes the builtins of `becalm run --builtins`; of a script that was executed
    /// itself, whether it is bash that runs it, and not as `sh`.
    pub takes_builtins: fn(Option<&Path>) -> bool,
    /// Whether this user can change a file in place.
    pub can_change: fn(&Path) -> bool,
    /// Whether an environment can be packed into an image in the working directory, and the image
    /// be mounted over it.
    pub can_pack: fn(&Path) -> bool,
}

impl Machine {
    /// A recording from somewhere: nothing is known.
    pub const fn unknown() -> Machine {
        Machine { takes_builtins: |_| false, can_change: |_| false, can_pack: |_| false }
    }
}
