//! Numbers and names inside sentences.

/// A count with thousands separators: `8,200`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and what is counted: `1 question`, `8,200 questions`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
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

/// A path as a shell takes it back; none where it is no text, or steers a terminal.
pub(crate) fn pasted(path: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(path).ok().filter(|text| !text.is_empty())?;
    if text.chars().any(char::is_control) {
        return None;
    }
    let is_bare = |char: char| char.is_ascii_alphanumeric() || "/._-+=:,@%".contains(char);
    match text.chars().all(is_bare) {
        true => Some(text.to_owned()),
        false => Some(format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_pasted_whole_or_not_at_all() {
        assert_eq!(pasted(b"/opt/a-1.2/lib").as_deref(), Some("/opt/a-1.2/lib"));
        assert_eq!(pasted(b"/it's $HOME").as_deref(), Some(r"'/it'\''s $HOME'"));
        assert_eq!(pasted(b"/a\nb"), None);
        assert_eq!(pasted(b"/\xff"), None);
    }

    #[test]
    fn sentences_have_separators_plurals_and_honest_shares() {
        assert_eq!(questions(8200), "8,200 questions");
        assert_eq!(questions(1), "1 question");
        assert_eq!(percent(999, 1000), "over 99 %");
        assert_eq!(percent(1, 1000), "under 1 %");
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
