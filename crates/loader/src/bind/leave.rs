//! What is left as it is, and why.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Libraries that must be found anew on each machine: what is at hand where a program is built
/// is a stub, or the driver of another GPU. Spack leaves out the same
/// (`non_bindable_shared_objects` of its CUDA package).
const DRIVERS: &[&str] = &[
    "libcuda.so*",
    "libnvidia-*.so*",
    "libnvcuvid.so*",
    "libnvoptix.so*",
    "libGLX_nvidia.so*",
    "libEGL_nvidia.so*",
    "libze_intel_gpu.so*",
    "libvdpau_nvidia.so*",
];

/// Java's launcher and libraries find each other by the name they were loaded as
/// (`dladdr`, `dlinfo`): OpenJDK, `src/java.base/unix/native/libjli/java_md.c`.
const SELF_FINDING: &[&str] = &["libjvm.so*", "libjli.so*", "libjava.so*"];

/// Names that no object is bound to: exact, or with `*` for any text.
#[derive(Clone, Debug)]
pub struct Leave {
    patterns: Vec<String>,
}

impl Leave {
    /// The built-in list and more of the user's.
    pub fn with(more: &[String]) -> Leave {
        let built_in = DRIVERS.iter().chain(SELF_FINDING).map(|name| (*name).to_owned());
        Leave { patterns: built_in.chain(more.iter().cloned()).collect() }
    }

    /// The pattern that leaves this name out.
    pub fn pattern(&self, name: &OsStr) -> Option<&str> {
        let of_name = |pattern: &&String| matches(pattern.as_bytes(), name.as_bytes());
        self.patterns.iter().find(of_name).map(String::as_str)
    }
}

/// Whether a text is what a pattern with `*` means.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where a text does not fit after the last star, that star takes one byte more: linear in
    // the text for each star, whatever the pattern.
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while from < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, from));
            at += 1;
        } else if pattern.get(at) == Some(&text[from]) {
            (at, from) = (at + 1, from + 1);
        } else if let Some((starred, taken)) = star {
            star = Some((starred, taken + 1));
            (at, from) = (starred + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// A file that stays as it is.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct UnboundFile {
    /// The file.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub path: PathBuf,
    /// Why, in words.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let cases = [
            ("libcuda.so*", "libcuda.so.1", true),
            ("libcuda.so*", "libcudart.so.12", false),
            ("lib*nvidia*.so*", "libEGL_nvidia.so.0", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-cd", false),
            ("libc.so.6", "libc.so.6", true),
            ("libc.so.6", "libcxso.6", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_are_no_trap() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
