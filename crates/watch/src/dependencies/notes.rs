//! How a note spells what it is about: letters, digits and `_` stand for themselves, every other byte
//! is `%XX`.

/// A name without its `%XX`; none of a text that is not so spelled.
pub fn unescaped_note(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            name.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        name.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(name)
}
