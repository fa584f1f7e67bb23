//! Paths as a person would write them.

use std::borrow::Cow;

/// A path without `//`, `/./`, `/../` and a `/` at its end.
///
/// This is done on the text: `/a/b/../c` is `/a/c` even where `b` is a symbolic link to
/// elsewhere, because a recording does not know the links. `..` at the root is the root.
pub fn clean(path: &[u8]) -> Cow<'_, [u8]> {
    if is_clean(path) {
        return Cow::Borrowed(path);
    }
    let rooted = path.first() == Some(&b'/');
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if kept.last().is_some_and(|last| *last != b"..") => {
                kept.pop();
            }
            b".." if rooted => {}
            part => kept.push(part),
        }
    }
    let mut clean = if rooted { vec![b'/'] } else { Vec::new() };
    clean.extend_from_slice(&kept.join(&b'/'));
    Cow::Owned(clean)
}

/// Whether cleaning would change nothing: the usual case, told without allocating.
fn is_clean(path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(b"/") else {
        return path.split(|byte| *byte == b'/').all(is_plain);
    };
    rest.is_empty() || rest.split(|byte| *byte == b'/').all(is_plain)
}

fn is_plain(part: &[u8]) -> bool {
    !matches!(part, b"" | b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_slashes_dots_and_parents_go_away() {
        for (path, cleaned) in [
            ("/usr//lib/./x", "/usr/lib/x"),
            ("/opt/a/lib/../../b/lib", "/opt/b/lib"),
            ("/../..", "/"),
            ("/usr/lib/", "/usr/lib"),
            ("//", "/"),
            ("/", "/"),
            ("", ""),
            ("a/../../b", "../b"),
            ("/..a/b..", "/..a/b.."),
        ] {
            assert_eq!(clean(path.as_bytes()), cleaned.as_bytes(), "{path}");
        }
    }
}
