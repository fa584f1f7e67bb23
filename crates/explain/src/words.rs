//! Numbers and names inside sentences.

pub(crate) use term::number::{count, counted};

/// A span of time: `180 ms`, `2.4 s`, `9 min`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.9995 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 9.95 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
    }
}

/// `8,200 questions`.
pub(crate) fn questions(number: u64) -> String {
    counted(number, "question", "questions")
}

/// `was` or `were`.
pub(crate) fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// A part of a whole in percent, never rounded to none or all.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let exact = 100.0 * part as f64 / whole.max(1) as f64;
    match exact.round() as u64 {
        0 if part > 0 => "under 1 %".to_owned(),
        100 if part < whole => "over 99 %".to_owned(),
        rounded => format!("{rounded} %"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A path as a shell takes it back, byte for byte; none where it is not known.
pub(crate) fn pasted(path: &[u8]) -> Option<String> {
    (!path.is_empty()).then(|| term::quoted(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_separators_plurals_and_honest_shares() {
        assert_eq!(questions(8200), "8,200 questions");
        assert_eq!(questions(1), "1 question");
        assert_eq!(percent(999, 1000), "over 99 %");
        assert_eq!(percent(1, 1000), "under 1 %");
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
