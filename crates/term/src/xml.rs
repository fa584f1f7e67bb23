//! Text in XML, and so in SVG.

/// Text for XML 1.0 (its production 2 says which characters there are), in an element or an
/// attribute; for a character that it has no room for stands U+FFFD.
pub fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' | '\t' => escaped.push(char),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::xml;

    #[test]
    fn what_xml_has_no_room_for_is_replaced_and_what_it_reads_is_spelt_out() {
        assert_eq!(xml("a<b>&\"c'\n"), "a&lt;b&gt;&amp;&quot;c&apos;\n");
        assert_eq!(xml("]]>\u{1b}\u{0}\u{ffff}\r"), "]]&gt;\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
    }
}
