//! Numbers and names inside sentences.

use recording::Nanos;
pub(crate) use term::number::{count, counted};

/// A span of time: `180 ms`.
pub(crate) fn seconds(seconds: f64) -> String {
    term::number::time(Nanos((seconds * 1e9).round() as u64))
}

/// `8,200 metadata operations`.
pub(crate) fn operations(number: u64) -> String {
    counted(number, "metadata operation", "metadata operations")
}

/// `was` or `were`.
pub(crate) fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// A part of a whole in percent, as it reads in a sentence: never rounded to none or all.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let exact = 100.0 * part as f64 / whole.max(1) as f64;
    match exact.round() as u64 {
        0 if part > 0 => "under 1 %".to_owned(),
        100 if part < whole => "over 99 %".to_owned(),
        rounded => format!("{rounded} %"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_separators_plurals_and_honest_shares() {
        assert_eq!(operations(8200), "8,200 metadata operations");
        assert_eq!(operations(1), "1 metadata operation");
        assert_eq!(percent(999, 1000), "over 99 %");
        assert_eq!(percent(1, 1000), "under 1 %");
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
