//! The HTML file: markup, style and script of ours, and the data.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::{Picture, embedded};

const MARKUP: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
/// In the order in which they use each other.
const SCRIPTS: [&str; 9] = [
    include_str!("page/model.js"),
    include_str!("page/elements.js"),
    include_str!("page/verdict.js"),
    include_str!("page/waits.js"),
    include_str!("page/timeline.js"),
    include_str!("page/treemap.js"),
    include_str!("page/trees.js"),
    include_str!("page/ranks.js"),
    include_str!("page/main.js"),
];

/// Writes the page.
pub(crate) fn write(picture: &Picture, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let script = format!("'use strict';(()=>{{\n{}}})();\n", SCRIPTS.concat());
    let policy = policy(&script);
    for part in MARKUP.split_inclusive("}}") {
        let Some((markup, name)) = part.strip_suffix("}}").and_then(|part| part.rsplit_once("{{"))
        else {
            out.write_all(part.as_bytes())?;
            continue;
        };
        out.write_all(markup.as_bytes())?;
        match name {
            "policy" => out.write_all(policy.as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => out.write_all(script.as_bytes())?,
            _ => embedded::write(picture, out)?,
        }
    }
    Ok(())
}

/// What the page may do: run this script, have this style, and nothing else; no request leaves it.
fn policy(script: &str) -> String {
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        base64(&Sha256::digest(script)),
        base64(&Sha256::digest(STYLE)),
    )
}

/// RFC 4648's base64 of a digest.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in pairs {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn a_page_asks_no_network_and_sets_no_markup_from_data() {
        let script = SCRIPTS.concat();
        for word in
            ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "fetch("]
        {
            assert!(!script.contains(word), "{word}");
        }
        for text in [MARKUP, STYLE, &script] {
            assert!(!text.replace("http://www.w3.org/2000/svg", "").contains("://"), "{text}");
        }
    }
}
