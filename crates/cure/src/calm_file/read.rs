//! A calm file from text.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use ahead::{FilePart, ReadAheadFile, ReadAheadList};
use remedy::{Digest, FileState};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{
    CalmEnvironment, CalmFile, CalmFileError, CalmImage, CalmImageBeside, CalmSavings, ReliedFile,
    SCHEMA, ShownCopy,
};

/// No calm file is larger: ten times what the largest program with its libraries takes.
const SIZE_LIMIT: u64 = 16 << 20;

impl CalmFile {
    /// Reads a calm file. Its relative paths start at its directory; at that of the file itself,
    /// where it is a symbolic link.
    ///
    /// # Errors
    /// [`CalmFileError`], which names the line.
    pub fn read(file: &Path) -> Result<CalmFile, CalmFileError> {
        let unreadable = |error| CalmFileError::Unreadable { file: file.to_owned(), error };
        let not_one = |what: &str| CalmFileError::NotOne { file: file.into(), what: what.into() };
        // To open a FIFO waits for a writer.
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(not_one("is no calm file: it is no regular file"));
        }
        let opened = File::open(file).map_err(unreadable)?;
        let mut bytes = Vec::new();
        (&opened).take(SIZE_LIMIT + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > SIZE_LIMIT {
            return Err(not_one("is no calm file: it has more than 16 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(|_| not_one(NONE))?;
        let directory = directory_of(&opened, file).map_err(unreadable)?;
        CalmFile::parse(&text, &directory, file)
    }

    /// A calm file that lies in `directory`, an absolute path, from its text. `file` names it in
    /// errors.
    ///
    /// # Errors
    /// [`CalmFileError`], which names the line.
    pub fn parse(text: &str, directory: &Path, file: &Path) -> Result<CalmFile, CalmFileError> {
        let not_one = |what: String| CalmFileError::NotOne { file: file.into(), what };
        let of_schema = |schema: Option<&str>| match schema {
            Some(SCHEMA) => Ok(()),
            Some(other) if other.starts_with("becalm.calm/") => Err(not_one(format!(
                "{} was written by another version of becalm; this one reads {SCHEMA}: take that \
                 becalm, or write the file again with this one",
                term::plain(other)
            ))),
            _ => Err(not_one(NONE.to_owned())),
        };
        let wrong = |at: usize, what: &str| CalmFileError::Wrong {
            file: file.to_owned(),
            line: 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count(),
            what: what.lines().collect::<Vec<_>>().join(" "),
        };
        let read: CalmText = match toml::from_str(text) {
            Ok(read) => read,
            Err(error) => {
                of_schema(schema(text).as_deref())?;
                return Err(wrong(error.span().map_or(0, |span| span.start), error.message()));
            }
        };
        of_schema(Some(&read.schema))?;
        if read.command.get_ref().is_empty() {
            return Err(wrong(read.command.span().start, "there is no command"));
        }
        let mut files = BTreeSet::new();
        for shown in &read.shown {
            if !files.insert(&shown.file.get_ref().0) {
                let path = term::quoted(&shown.file.get_ref().0);
                return Err(wrong(shown.file.span().start, &format!("{path} is shown twice")));
            }
        }
        let known = read.read_ahead.files.len();
        if let Some(part) = read.read_ahead.parts.iter().find(|part| part.get_ref().0 >= known) {
            let number = part.get_ref().0;
            return Err(wrong(part.span().start, &format!("there is no file of number {number}")));
        }
        Ok(read.at(directory))
    }
}

const NONE: &str = "is no calm file; becalm fix --apply -o FILE -- CMD writes one";

/// What the text says that it is, also where the rest is not understood.
fn schema(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct CalmSchema {
        schema: String,
    }
    if let Ok(CalmSchema { schema }) = toml::from_str(text) {
        return Some(schema);
    }
    // What is no TOML further below says what it is all the same.
    let line = text.lines().find_map(|line| line.trim().strip_prefix("schema"))?;
    let value = line.trim_start().strip_prefix('=')?.trim();
    Some(value.trim_matches('"').to_owned())
}

/// The directory in which an opened file lies, without asking the filesystem again.
fn directory_of(opened: &File, file: &Path) -> io::Result<PathBuf> {
    let by_descriptor = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let path = match by_descriptor {
        Ok(path) if path.is_absolute() => path,
        _ => std::path::absolute(file)?,
    };
    Ok(path.parent().unwrap_or(Path::new("/")).to_owned())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalmText {
    schema: String,
    command: toml::Spanned<Vec<String>>,
    directory: CalmPath,
    made_in: Option<CalmPath>,
    #[serde(default)]
    builtins: bool,
    #[serde(default)]
    hugepages: bool,
    #[serde(default, deserialize_with = "layout")]
    layout: Option<String>,
    image: Option<CalmImageText>,
    #[serde(default)]
    beside: Vec<CalmBesideText>,
    #[serde(default)]
    environment: CalmEnvironmentText,
    #[serde(default)]
    shown: Vec<ShownText>,
    #[serde(default)]
    read_ahead: ReadAheadText,
    #[serde(default)]
    relies_on: Vec<ReliedText>,
    saves: Option<CalmSavings>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalmImageText {
    file: CalmPath,
    over: Vec<CalmPath>,
    bytes: u64,
    digest: Digest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalmBesideText {
    file: CalmPath,
    at: Option<CalmPath>,
    #[serde(default)]
    over: Vec<CalmPath>,
    bytes: u64,
    digest: Digest,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CalmEnvironmentText {
    #[serde(default)]
    set: BTreeMap<VariableName, VariableValue>,
    #[serde(default)]
    unset: Vec<VariableName>,
    #[serde(default)]
    reordered: BTreeMap<VariableName, VariableValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShownText {
    file: toml::Spanned<CalmPath>,
    bytes: u64,
    mtime_ns: i64,
    digest: Digest,
    copy: CalmPath,
    copy_bytes: u64,
    copy_digest: Digest,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadAheadText {
    #[serde(default)]
    parts: Vec<toml::Spanned<(usize, u64, u64)>>,
    #[serde(default)]
    files: Vec<ReadAheadFileText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadAheadFileText {
    path: CalmPath,
    bytes: u64,
    mtime_ns: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReliedText {
    path: CalmPath,
    bytes: u64,
    mtime_ns: i64,
    digest: Digest,
}

/// A path, absolute or relative to the calm file's directory.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CalmPath(PathBuf);

impl CalmPath {
    fn at(self, directory: &Path) -> PathBuf {
        directory.join(self.0).components().collect()
    }
}

impl<'de> Deserialize<'de> for CalmPath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CalmPath, D::Error> {
        match String::deserialize(from)? {
            text if text.is_empty() => Err(D::Error::custom("a path is empty")),
            text if text.contains('\0') => Err(D::Error::custom("a path holds a zero byte")),
            text => Ok(CalmPath(text.into())),
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct VariableName(OsString);

impl<'de> Deserialize<'de> for VariableName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<VariableName, D::Error> {
        match String::deserialize(from)? {
            name if name.is_empty() || name.contains(['=', '\0']) => {
                Err(D::Error::custom(format!("'{}' is no variable's name", term::plain(&name))))
            }
            name => Ok(VariableName(name.into())),
        }
    }
}

struct VariableValue(OsString);

impl<'de> Deserialize<'de> for VariableValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<VariableValue, D::Error> {
        match String::deserialize(from)? {
            value if value.contains('\0') => {
                Err(D::Error::custom("a variable's value holds a zero byte"))
            }
            value => Ok(VariableValue(value.into())),
        }
    }
}

fn layout<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    match text == "off" || text == "job" || text.starts_with("layout:") {
        true => Ok(Some(text)),
        false => Err(D::Error::custom("a layout is off, job or layout:0x1a2b3")),
    }
}

impl CalmText {
    fn at(self, directory: &Path) -> CalmFile {
        let paths = |paths: Vec<CalmPath>| paths.into_iter().map(|path| path.at(directory));
        let CalmEnvironmentText { set, unset, reordered } = self.environment;
        let values = |values: BTreeMap<VariableName, VariableValue>| {
            values.into_iter().map(|(name, value)| (name.0, value.0)).collect()
        };
        CalmFile {
            command: self.command.into_inner().into_iter().map(OsString::from).collect(),
            directory: self.directory.at(directory),
            made_in: self.made_in.map(|made_in| made_in.at(directory)),
            image: self.image.map(|image| CalmImage {
                file: image.file.at(directory),
                over: paths(image.over).collect(),
                bytes: image.bytes,
                digest: image.digest,
            }),
            beside: self.beside.into_iter().map(|image| image.at(directory)).collect(),
            shown: self.shown.into_iter().map(|shown| shown.at(directory)).collect(),
            environment: CalmEnvironment {
                set: values(set),
                unset: unset.into_iter().map(|name| name.0).collect(),
                reordered: values(reordered),
            },
            builtins: self.builtins,
            hugepages: self.hugepages,
            layout: self.layout,
            read_ahead: self.read_ahead.at(directory),
            relies_on: self.relies_on.into_iter().map(|relied| relied.at(directory)).collect(),
            saves: self.saves,
        }
    }
}

impl CalmBesideText {
    fn at(self, directory: &Path) -> CalmImageBeside {
        let CalmBesideText { file, at, over, bytes, digest } = self;
        let over = over.into_iter().map(|path| path.at(directory)).collect();
        let image = CalmImage { file: file.at(directory), over, bytes, digest };
        CalmImageBeside { image, at: at.map(|at| at.at(directory)) }
    }
}

impl ShownText {
    fn at(self, directory: &Path) -> ShownCopy {
        let ShownText { bytes, mtime_ns, digest, copy_bytes, copy_digest, .. } = self;
        ShownCopy {
            file: self.file.into_inner().at(directory),
            was: FileState { bytes, mtime_ns, digest },
            copy: self.copy.at(directory),
            copy_bytes,
            copy_digest,
        }
    }
}

impl ReadAheadText {
    fn at(self, directory: &Path) -> ReadAheadList {
        let file = |file: ReadAheadFileText| ReadAheadFile {
            path: file.path.at(directory),
            bytes: file.bytes,
            mtime_ns: file.mtime_ns,
        };
        let part = |part: toml::Spanned<(usize, u64, u64)>| {
            let (file, offset, bytes) = part.into_inner();
            FilePart { file, offset, bytes }
        };
        ReadAheadList {
            files: self.files.into_iter().map(file).collect(),
            parts: self.parts.into_iter().map(part).collect(),
        }
    }
}

impl ReliedText {
    fn at(self, directory: &Path) -> ReliedFile {
        let ReliedText { path, bytes, mtime_ns, digest } = self;
        let was = FileState { bytes, mtime_ns, digest };
        ReliedFile { path: path.at(directory), was }
    }
}
