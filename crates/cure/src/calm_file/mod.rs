//! The calm file: what `becalm run` does at launch, as a small text that can be committed, moved and
//! shared. docs/calm-file.md describes it.
//!
//! | file | what it holds |
//! |---|---|
//! | `read` | from text, strictly: what is not understood is refused, with its line |
//! | `write` | to text |
//! | `holds` | whether what it relies on is still as it was |
//! | `order` | whether directories in another order still have what they had there |

mod holds;
mod order;
mod read;
mod write;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use std::os::unix::fs::MetadataExt;

use ahead::ReadAheadList;
use remedy::{Digest, FileState};

pub use holds::CalmChange;

/// What a calm file says that it is.
const SCHEMA: &str = "becalm.calm/1";

/// What is done at launch. All paths are absolute here; in the text, those below the calm file's
/// directory are relative to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CalmFile {
    /// The command that it was made for, as it was typed; never empty in a file.
    pub command: Vec<OsString>,
    /// The working directory in which it was.
    pub directory: PathBuf,
    /// The working directory in which it was, where images belong over what lies there: wherever the calm file lies now.
    pub made_in: Option<PathBuf>,
    /// The image that is mounted.
    pub image: Option<CalmImage>,
    /// Others that are mounted with it, each at its own place.
    pub beside: Vec<CalmImageBeside>,
    /// Copies that are shown in the place of files.
    pub shown: Vec<ShownCopy>,
    /// The variables that are changed.
    pub environment: CalmEnvironment,
    /// Whether bash is given builtins (`--builtins`).
    pub builtins: bool,
    /// Whether malloc asks for huge pages (`--hugepages`).
    pub hugepages: bool,
    /// How memory is laid out, as `--aslr` takes it: `off`, `job` or `layout:…`.
    pub layout: Option<String>,
    /// What is read ahead while the command starts; nothing depends on it.
    pub read_ahead: ReadAheadList,
    /// What else was looked at, and must be as it was.
    pub relies_on: Vec<ReliedFile>,
    /// What it is expected to save.
    pub saves: Option<CalmSavings>,
}

/// An image, mounted over the directories that it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalmImage {
    /// The image.
    pub file: PathBuf,
    /// The paths that it says it belongs over; it itself decides.
    pub over: Vec<PathBuf>,
    /// Its size.
    pub bytes: u64,
    /// The digest of its content.
    pub digest: Digest,
}

/// One of several images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalmImageBeside {
    /// The image.
    pub image: CalmImage,
    /// Where it is mounted; none: where it says that it belongs.
    pub at: Option<PathBuf>,
}

/// A copy of a file that the command sees in the file's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCopy {
    /// The file.
    pub file: PathBuf,
    /// What it was when it was copied.
    pub was: FileState,
    /// The copy.
    pub copy: PathBuf,
    /// The copy's size.
    pub copy_bytes: u64,
    /// The digest of the copy's content.
    pub copy_digest: Digest,
}

/// Variables of the command that are other than the caller's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalmEnvironment {
    /// Names and values.
    pub set: BTreeMap<OsString, OsString>,
    /// Names.
    pub unset: Vec<OsString>,
    /// The lists of directories that are set in another order only: as they were before.
    pub reordered: BTreeMap<OsString, OsString>,
}

/// A file that must be as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReliedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it was.
    pub was: FileState,
}

/// What a launch is expected to save, as it was measured or predicted when the file was written.
#[derive(
    Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct CalmSavings {
    /// Metadata operations of one start before.
    pub metadata_ops_before: u64,
    /// The same after.
    pub metadata_ops_after: u64,
    /// Of those before, failed lookups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enoent_before: Option<u64>,
    /// The same after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enoent_after: Option<u64>,
    /// What starts wait for shared filesystems, predicted.
    #[serde(default)]
    pub waits: Vec<CalmWait>,
}

/// What the starts of so many ranks wait for a shared filesystem, predicted.
#[derive(
    Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct CalmWait {
    /// The filesystem's profile: `nfs`.
    pub profile: String,
    /// How many ranks.
    pub ranks: u64,
    /// On how many nodes.
    pub nodes: u64,
    /// Seconds before.
    pub seconds_before: f64,
    /// Seconds after.
    pub seconds_after: f64,
}

/// Why a calm file cannot be read, or not be written.
#[derive(Debug, thiserror::Error)]
pub enum CalmFileError {
    /// It cannot be opened or read.
    #[error("{}: cannot read the calm file: {error}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// It is none, or no file that becalm would write.
    #[error("{}: {what}", .file.display())]
    NotOne {
        /// The file.
        file: PathBuf,
        /// Why it is none, and what to do.
        what: String,
    },
    /// A line says what is not understood.
    #[error(
        "{}:{line}: {what}: mend this line, or write the file again with: {again}",
        .file.display(), again = write_again(.file, None)
    )]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A name that no TOML file can hold.
    #[error(
        "{what} {} is no UTF-8, which a calm file has to be: rename it, or change the launch by \
         hand (becalm run --help)", term::quoted(.name)
    )]
    NoText {
        /// What it is: `the path`.
        what: &'static str,
        /// The name.
        name: OsString,
    },
}

impl CalmFile {
    /// Whether one of its images belongs over something in its working directory.
    fn covers_what_is_beside_it(&self) -> bool {
        let images = self.image.iter().chain(self.beside.iter().map(|beside| &beside.image));
        images.flat_map(|image| &image.over).any(|over| over.starts_with(&self.directory))
    }

    /// Why its images are of no use here, where its directory was moved or copied since it was made: they belong over
    /// what was there.
    pub fn why_images_are_elsewhere(&self) -> Option<String> {
        let made_in = self.made_in.as_ref().filter(|made_in| **made_in != self.directory)?;
        let place = |path: &PathBuf| path.metadata().ok().map(|it| (it.dev(), it.ino()));
        // By another mount of it, say.
        if place(made_in).is_some_and(|made_in| place(&self.directory) == Some(made_in)) {
            return None;
        }
        Some(format!(
            "it was made in {}: its image belongs over what lies there, and what lies here is read as it is",
            made_in.display()
        ))
    }

    /// The command line that writes the file again, to be typed in the working directory.
    pub fn write_again_from_here(&self, file: &Path) -> String {
        if std::env::current_dir().is_ok_and(|here| here == self.directory) {
            return write_again(file, Some(&self.command));
        }
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let again = write_again(&file, Some(&self.command));
        format!("cd {} && {again}", term::quoted_path(&self.directory))
    }
}

fn write_again(file: &Path, command: Option<&[OsString]>) -> String {
    let command = command.map_or_else(|| "CMD".to_owned(), term::shell_line);
    format!("becalm fix --apply -o {} -- {command}", term::quoted_path(file))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use ahead::{FilePart, ReadAheadFile};

    use super::*;

    fn state(content: &[u8]) -> FileState {
        let digest = Digest::of(content);
        FileState { bytes: content.len() as u64, mtime_ns: 1_790_000_000_123_456_789, digest }
    }

    fn full() -> CalmFile {
        let words =
            ["./my app", "it's", "a\nb", "\"q\" $x [y] {z}", "", "Gr\u{fc}\u{df}e", "\u{1}"];
        CalmFile {
            command: words.map(OsString::from).to_vec(),
            directory: "/work/project".into(),
            made_in: Some("/work/project".into()),
            image: Some(CalmImage {
                file: "/work/project/env.sqsh".into(),
                over: vec!["/work/project/venv".into(), "/opt/base".into()],
                bytes: 3,
                digest: Digest::of(b"img"),
            }),
            beside: vec![
                CalmImageBeside {
                    image: CalmImage {
                        file: "/work/project/data.sqsh".into(),
                        over: vec!["/opt/data".into()],
                        bytes: 4,
                        digest: Digest::of(b"data"),
                    },
                    at: None,
                },
                CalmImageBeside {
                    image: CalmImage {
                        file: "/opt/other's.sqsh".into(),
                        over: Vec::new(),
                        bytes: 5,
                        digest: Digest::of(b"other"),
                    },
                    at: Some("/opt/other".into()),
                },
            ],
            shown: vec![ShownCopy {
                file: "/opt/spack/bin/a \"b\"".into(),
                was: state(b"original"),
                copy: "/work/project/app.calm.d/0 'b'".into(),
                copy_bytes: 4,
                copy_digest: Digest::of(b"copy"),
            }],
            environment: CalmEnvironment {
                set: [("A.b c", "1\n2"), ("LC_ALL", "")]
                    .map(|(name, value)| (name.into(), value.into()))
                    .into(),
                unset: vec!["LD_LIBRARY_PATH".into()],
                reordered: [("PERL5LIB".into(), "/a:/b".into())].into(),
            },
            builtins: true,
            hugepages: true,
            layout: Some("layout:0x1a2b3".to_owned()),
            read_ahead: ReadAheadList {
                files: vec![ReadAheadFile {
                    path: "/opt/lib/torch.so".into(),
                    bytes: 1 << 30,
                    mtime_ns: 5,
                }],
                parts: vec![
                    FilePart { file: 0, offset: 1 << 20, bytes: 65_536 },
                    FilePart { file: 0, offset: 0, bytes: 4096 },
                ],
            },
            relies_on: vec![ReliedFile { path: "/etc/hosts".into(), was: state(b"") }],
            saves: Some(CalmSavings {
                metadata_ops_before: 5737,
                metadata_ops_after: 153,
                enoent_before: Some(5479),
                enoent_after: None,
                waits: vec![CalmWait {
                    profile: "nfs".to_owned(),
                    ranks: 1000,
                    nodes: 16,
                    seconds_before: 4.25,
                    seconds_after: 0.125,
                }],
            }),
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_moves_with_its_directory() {
        let text = full().to_text(Path::new("/work/project")).unwrap();
        let read = |text: &str, directory: &str| {
            CalmFile::parse(text, Path::new(directory), Path::new("app.calm")).unwrap()
        };
        assert_eq!(read(&text, "/work/project"), full(), "{text}");
        let moved = read(&text, "/elsewhere");
        assert_eq!(moved.directory, Path::new("/elsewhere"));
        assert_eq!(moved.shown[0].copy, Path::new("/elsewhere/app.calm.d/0 'b'"));
        assert_eq!(moved.shown[0].file, full().shown[0].file);
        let image = moved.image.unwrap();
        // The image itself says the same.
        assert_eq!(image.over, ["/work/project/venv", "/opt/base"].map(PathBuf::from));
        let least =
            CalmFile { command: vec!["app".into()], directory: "/".into(), ..CalmFile::default() };
        let text = least.to_text(Path::new("/work")).unwrap();
        assert_eq!(read(&text, "/anywhere"), least, "{text}");
    }

    #[test]
    fn a_file_of_the_operating_system_that_is_relied_on_must_only_be_there() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        std::fs::write(&other, "updated").unwrap();
        let changes = |path: &Path| {
            let relied = ReliedFile { path: path.into(), was: state(b"before") };
            let calm = CalmFile { relies_on: vec![relied], ..CalmFile::default() };
            let changes = calm.changes(remedy::FileLook::Content);
            changes.into_iter().map(|change| change.what).collect::<Vec<_>>()
        };
        assert_eq!(changes(&other), ["has changed"]);
        assert_eq!(changes(Path::new("/usr/bin/env")), [""; 0]);
        assert_eq!(changes(Path::new("/usr/lib/becalm-has-none")), ["is gone"]);
    }

    #[test]
    fn what_is_no_utf_8_is_not_written() {
        let name = OsStr::from_bytes(b"/opt/\xff");
        let calm = CalmFile { directory: name.into(), ..full() };
        let why = calm.to_text(Path::new("/work/project")).unwrap_err().to_string();
        assert!(why.starts_with(r#"the path "$(printf '/opt/\377')" is no UTF-8"#), "{why}");
        let calm = CalmFile { command: vec!["app".into(), name.into()], ..full() };
        assert!(calm.to_text(Path::new("/work")).unwrap_err().to_string().contains("the word"));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        let text = full().to_text(Path::new("/work/project")).unwrap();
        let said = |text: &str| {
            let read = CalmFile::parse(text, Path::new("/w"), Path::new("a.calm"));
            read.unwrap_err().to_string()
        };
        let changed = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}: {text}");
            said(&text.replacen(from, to, 1))
        };
        let line = |needle: &str| {
            let at = text.lines().position(|line| line.contains(needle)).unwrap() + 1;
            format!("a.calm:{at}: ")
        };
        let why = changed("builtins = true", "builtin = true");
        assert!(why.starts_with(&line("builtins = true")), "{why}");
        assert!(why.contains("unknown field `builtin`"), "{why}");
        assert!(why.ends_with("with: becalm fix --apply -o a.calm -- CMD"), "{why}");
        let why = changed("layout:0x1a2b3", "of\u{fc}");
        assert!(why.starts_with(&line("layout")) && why.contains("layout:0x1a2b3"), "{why}");
        let why = changed("becalm.calm/1", "becalm.calm/2");
        assert!(why.contains("another version of becalm"), "{why}");
        let why = changed("schema = \"becalm.calm/1\"", "# none");
        assert!(why.contains("is no calm file"), "{why}");
        let why = changed("file = \"env.sqsh\"", "file = \"\"");
        assert!(why.contains("a path is empty"), "{why}");
        let why = changed("\"LD_LIBRARY_PATH\"", "\"LD=\"");
        assert!(why.contains("is no variable"), "{why}");
        let why = changed("mtime_ns = ", "mtime_ns = 99999999999999999999 # ");
        assert_eq!(why.lines().count(), 1, "{why}");
        for wrong in ["", "\0", "a = [", "#!/bin/sh\necho", "\u{7f}ELF", "command = 1"] {
            assert!(said(wrong).contains("is no calm file"), "{wrong}: {}", said(wrong));
        }
        let again = text.split_once("[[shown]]").unwrap().1.split("\n\n").next().unwrap();
        let why = said(&format!("{text}\n[[shown]]{again}"));
        assert!(why.contains("is shown twice"), "{why}");
        let why = changed("[0, 1048576,", "[7, 1048576,");
        assert!(why.contains("there is no file of number 7"), "{why}");
        let why = changed("command = [", "command = [] # ");
        assert!(why.contains("no command") || why.contains("a.calm:"), "{why}");
    }

    #[test]
    fn a_text_that_is_damaged_anywhere_is_refused_in_one_line_or_read_and_written_again() {
        let text = full().to_text(Path::new("/work/project")).unwrap();
        let (directory, file) = (Path::new("/work/project"), Path::new("a.calm"));
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let (before, after) = text.split_at(at);
            let rest = &after[after.chars().next().map_or(0, char::len_utf8)..];
            for damaged in
                [before.to_owned(), format!("{before}{rest}"), format!("{before}\n{rest}")]
            {
                match CalmFile::parse(&damaged, directory, file) {
                    Ok(calm) => {
                        let again = calm.to_text(directory).unwrap();
                        assert_eq!(CalmFile::parse(&again, directory, file).unwrap(), calm);
                    }
                    Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
                }
            }
        }
    }
}
