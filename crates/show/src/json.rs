//! JSON that is safe on a terminal too.

use std::fmt::Write;

use serde::Serialize;

/// `value` as indented JSON that ends in a newline. Control characters that JSON lets through
/// (DEL and U+0080 to U+009F, which some terminals obey) are escaped like the others.
///
/// # Errors
/// If the value has no JSON form.
pub fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let raw = serde_json::to_string_pretty(value)?;
    let mut text = String::with_capacity(raw.len() + 1);
    for char in raw.chars() {
        // Only strings hold anything but ASCII, so an escape is right wherever this is met.
        if char.is_control() && char != '\n' {
            let _ = write!(text, "\\u{:04x}", u32::from(char));
        } else {
            text.push(char);
        }
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left_and_the_value_is_the_same() {
        let value = "\u{1b}[31m\u{7f}\u{9b}\n\u{e9}文";
        let text = json(&[value]).unwrap();
        assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{text:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [value]);
    }
}
