//! A command that does other work each time: `make` builds once, and has nothing left to do then.
//!
//! A plan is of what was recorded, and is measured on runs that do the same. With `--apply` the command has
//! run before it is recorded, so that the plan may be of other work than one that was shown before.

use std::path::Path;

use recording::Recording;
use term::number::{count, counted};

use crate::{last, load};

/// So many times the operations are other work.
const TIMES: u64 = 2;

/// How many metadata operations this command made in this directory when it was recorded last; none where
/// another one was.
pub(super) fn made_before(command: &Recording) -> Option<u64> {
    let before = load::load(Path::new(last::NAME)).ok()?;
    let (then, now) = (&before.header, &command.header);
    let is_same = then.command() == now.command() && then.cwd == now.cwd;
    is_same.then(|| before.metadata_operations())
}

/// That the command did other work, in words, if it did.
pub(super) fn told(before: u64, now: u64) -> Option<String> {
    let is_other = now.max(before) > TIMES * now.min(before);
    is_other.then(|| {
        format!(
            "the command did other work than when it was last recorded: {}, and not {}; what \
             follows is of what it did now",
            counted(now, "metadata operation", "metadata operations"),
            count(before)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_work_is_less_than_half_or_more_than_twice_the_operations() {
        for (before, now, is_other) in
            [(100, 100, false), (100, 50, false), (100, 49, true), (49, 100, true), (0, 0, false)]
        {
            assert_eq!(told(before, now).is_some(), is_other, "{before} {now}");
        }
    }
}
