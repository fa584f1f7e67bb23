//! A checksum around what becalm keeps for itself and reads back: a byte that a disk or a copy
//! has changed must not become an answer.
//!
//! A line `MAGIC LENGTH CRC32`, then so many bytes with that CRC-32, and nothing else. It keeps
//! out accidents, no adversary: whoever reads asks who may have written the file.

/// Puts content under a checksum. `magic` names its form, with a version: `becalm-names 2`.
pub fn seal(magic: &str, content: &[u8]) -> Vec<u8> {
    [head(magic, content).as_bytes(), content].concat()
}

/// The content, if it is of this form and every byte is as it was written.
pub fn unseal<'a>(magic: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
    let start = sealed.get(..magic.len()).filter(|start| *start == magic.as_bytes())?;
    let end = sealed[start.len()..].iter().position(|byte| *byte == b'\n')?;
    let (line, content) = sealed.split_at(start.len() + end + 1);
    (line == head(magic, content).as_bytes()).then_some(content)
}

fn head(magic: &str, content: &[u8]) -> String {
    format!("{magic} {} {:08x}\n", content.len(), crc32fast::hash(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_it_was_written_is_nothing() {
        let sealed = seal("becalm-test 1", b"0123456789");
        assert_eq!(unseal("becalm-test 1", &sealed), Some(&b"0123456789"[..]));
        assert_eq!(unseal("becalm-test 2", &sealed), None);
        assert_eq!(unseal("becalm-test 1", &[&sealed[..], b"0"].concat()), None);
        for at in 0..sealed.len() {
            assert_eq!(unseal("becalm-test 1", &sealed[..at]), None, "cut at {at}");
            for flipped in 1..=0xff {
                let mut changed = sealed.clone();
                changed[at] ^= flipped;
                assert_eq!(unseal("becalm-test 1", &changed), None, "{flipped:02x} at {at}");
            }
        }
    }
}
