//! Which arm of the experiment a file is of.

use std::path::{Path, PathBuf};

/// A file or directory to analyze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Which.
    pub path: PathBuf,
    /// The arm that it is of; else its log says, or its name.
    pub arm: Option<String>,
}

/// The arm that a name tells of, by its words: `run_aslr-off.3.log` is `off`.
pub(super) fn named(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let mut words = name.split(|char: char| !char.is_ascii_alphanumeric());
    words.find_map(|word| match word {
        "on" | "aslron" => Some("on"),
        "off" | "noaslr" | "aslroff" => Some("off"),
        "job" | "perjob" => Some("job"),
        _ => None,
    })
}

/// The arm that a file's name tells of, or else the directories that it lies in, up to `top`.
pub(super) fn named_below(path: &Path, top: &Path) -> Option<&'static str> {
    path.ancestors().take_while(|directory| *directory != top).find_map(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_the_name_tells_the_arm_and_a_part_of_one_does_not() {
        assert_eq!(named(Path::new("logs/run_ASLR-off.3.log")), Some("off"));
        assert_eq!(named(Path::new("on")), Some("on"));
        assert_eq!(named(Path::new("control.log")), None);
        let (path, top) = (Path::new("/data/on/c1/off/7.log"), Path::new("/data/on/c1"));
        assert_eq!(named_below(path, top), Some("off"));
        assert_eq!(named_below(Path::new("/data/on/c1/7.log"), top), None);
    }
}
