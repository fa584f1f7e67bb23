//! A plan: what is to be done to which files, as data that can be read before it is applied.
//!
//! docs/schema/becalm.plan.md describes its JSON.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::ByteUnits;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text;
use crate::{Digest, Error};

/// What a plan's JSON says that it is.
const SCHEMA: &str = "becalm.plan/1";

/// No plan is larger than this: what claims to be one is not read.
const SIZE_LIMIT: u64 = 1 << 30;

/// An ordered list of steps, and what they are expected to bring.
///
/// [`crate::apply`] takes the steps by kind: what is added first, then patches, then removals;
/// each in the plan's order. So no file refers to something that is not there yet.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(transform = with_schema)]
pub struct Plan {
    /// The command that made it: `elf bind /opt/spack`.
    pub title: String,
    /// What to do.
    pub steps: Vec<Step>,
    /// What may go wrong once it is applied, one sentence each.
    pub risks: Vec<String>,
    /// What it is expected to change in a command's start.
    pub predicted: Option<PredictedCounts>,
}

/// The schema of a plan has the field that says what it is.
fn with_schema(plan: &mut schemars::Schema) {
    if let Some(fields) = plan.get_mut("properties").and_then(|fields| fields.as_object_mut()) {
        fields.insert("schema".into(), serde_json::json!({ "const": SCHEMA }));
    }
    if let Some(required) = plan.get_mut("required").and_then(|names| names.as_array_mut()) {
        required.push("schema".into());
    }
}

/// One change to the files of a user. Every path is absolute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Replace bytes of a regular file. It is rewritten beside and renamed, so that a process
    /// that has it open keeps what it has.
    Patch {
        /// The file. Through a symbolic link, the file behind it; the link stays.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
        /// The file's other names, where it has hard links: all of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "text::paths")]
        #[schemars(with = "Vec<text::TextForm>")]
        also: Vec<PathBuf>,
        /// What the planner saw; another file is not patched.
        seen: Seen,
        /// The replacements, by rising offset; none overlaps another. Shared: a plan, what is made of it and
        /// what made it have the same ones.
        #[serde(with = "text::shared")]
        #[schemars(with = "Vec<Edit>")]
        edits: Arc<[Edit]>,
    },
    /// Create a regular file. There must be nothing at its path.
    Create {
        /// The file.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
        /// Its permissions, as chmod(2) takes them; the umask is not applied.
        #[serde(with = "text::mode")]
        #[schemars(with = "String")]
        mode: u32,
        /// Its content.
        #[serde(with = "text::bytes")]
        #[schemars(with = "text::TextForm")]
        content: Vec<u8>,
    },
    /// Put a new regular file in the place of a regular file with one name, or of a symbolic link
    /// (not of what it points to), by one rename. Nothing of the old one is on the new one.
    Replace {
        /// The file.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
        /// The new one's permissions, as for one that is created.
        #[serde(with = "text::mode")]
        #[schemars(with = "String")]
        mode: u32,
        /// The new one's content.
        #[serde(with = "text::bytes")]
        #[schemars(with = "text::TextForm")]
        content: Vec<u8>,
    },
    /// Write a regular file with one name anew, in its place by one rename: the new one has the
    /// owner, group, permissions, lists and flags of the old one, and the time of now.
    Rewrite {
        /// The file.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
        /// The new content.
        #[serde(with = "text::bytes")]
        #[schemars(with = "text::TextForm")]
        content: Vec<u8>,
    },
    /// Give a regular file that becalm has written in the same directory the name of this step: of
    /// nothing, or of a regular file as for [`Step::Replace`]. For what is too large for a plan: the
    /// journal knows it by its inode, size and time.
    Take {
        /// The name that it gets.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
        /// The name that it has. It is gone afterwards, and after a failure.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        source: PathBuf,
        /// Whether there must be nothing at its path.
        #[serde(default)]
        is_new: bool,
    },
    /// Create a symbolic link. There must be nothing at its path.
    Link {
        /// The link.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
        /// What it says.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        target: PathBuf,
    },
    /// Create a directory. One that is there already stays as it is.
    Directory {
        /// The directory.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
        /// Its permissions, as for a file.
        #[serde(with = "text::mode")]
        #[schemars(with = "String")]
        mode: u32,
    },
    /// Change nothing: the other steps hold only if this file is still what was seen, when the plan is checked
    /// and when all new files are written. It is followed through symbolic links.
    Rely {
        /// The file.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
        /// What the planner saw.
        seen: Seen,
    },
    /// Remove a regular file with one name, a symbolic link (not what it points to), or a
    /// directory that is empty by then.
    Remove {
        /// What to remove.
        #[serde(with = "text::path")]
        #[schemars(with = "text::TextForm")]
        path: PathBuf,
    },
}

/// A replacement of bytes in a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Where, in bytes from the file's start.
    pub offset: u64,
    /// What is there now: as long as `new`, unless the file ends after it.
    #[serde(with = "text::bytes")]
    #[schemars(with = "text::TextForm")]
    pub old: Vec<u8>,
    /// What is to be there. Longer than `old` only at the end of the file, which then grows.
    #[serde(with = "text::bytes")]
    #[schemars(with = "text::TextForm")]
    pub new: Vec<u8>,
}

/// What a planner saw of a file, to tell whether it is still the same.
///
/// With a digest, size and digest decide, so that a plan holds on another machine, too. Without,
/// all else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// The file's size.
    pub size: ByteUnits,
    /// The inode's number.
    pub inode: u64,
    /// When its content was changed last, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When its inode was changed last, in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// The digest of its content, where the planner took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Seen {
    /// What is seen of the file at `path` now, through symbolic links, without a digest.
    ///
    /// # Errors
    /// Those of stat(2).
    pub fn of(path: &Path) -> Result<Seen, Error> {
        let found = std::fs::metadata(path).map_err(|error| Error::at("stat", path, error))?;
        Ok(Seen::from_metadata(&found))
    }

    /// Whether stat(2) says the same of a file that may have been renamed, or linked, since.
    pub(crate) fn is_still(&self, found: &std::fs::Metadata) -> bool {
        let now = Seen::from_metadata(found);
        Seen { ctime_ns: self.ctime_ns, digest: self.digest, ..now } == *self
    }

    /// The same from what stat(2) or fstat(2) said.
    pub fn from_metadata(found: &std::fs::Metadata) -> Seen {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000) + nanos;
        Seen {
            size: ByteUnits(found.size()),
            inode: found.ino(),
            mtime_ns: nanos(found.mtime(), found.mtime_nsec()),
            ctime_ns: nanos(found.ctime(), found.ctime_nsec()),
            digest: None,
        }
    }
}

/// What a plan is expected to change in a command's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PredictedCounts {
    /// The calls that search, as things are.
    pub before: Counts,
    /// The same, once the plan is applied.
    pub after: Counts,
}

/// How many calls search for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Opens, failed ones included.
    pub opens: u64,
    /// Opens that failed.
    pub failed_opens: u64,
    /// Stats by path, failed ones included.
    pub stats: u64,
    /// Stats by path that failed.
    pub failed_stats: u64,
}

/// A plan as its JSON has it.
#[derive(Serialize, Deserialize)]
struct StoredPlan<Title, Steps, Risks> {
    schema: std::borrow::Cow<'static, str>,
    title: Title,
    steps: Steps,
    #[serde(default)]
    risks: Risks,
    #[serde(default)]
    predicted: Option<PredictedCounts>,
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Plan { title, steps, risks, predicted } = self;
        let schema = SCHEMA.into();
        StoredPlan { schema, title, steps, risks, predicted: *predicted }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Plan, D::Error> {
        let stored = StoredPlan::<String, Vec<Step>, Vec<String>>::deserialize(deserializer)?;
        if stored.schema != SCHEMA {
            let problem = format!("its schema is {}, not {SCHEMA}", stored.schema);
            return Err(serde::de::Error::custom(problem));
        }
        let StoredPlan { title, steps, risks, predicted, .. } = stored;
        Ok(Plan { title, steps, risks, predicted })
    }
}

impl Plan {
    /// The files that the steps hold by, and do not change.
    pub(crate) fn relied_on(&self) -> Vec<PathBuf> {
        let relied = self.steps.iter().filter_map(|step| match step {
            Step::Rely { path, .. } => Some(path.clone()),
            _ => None,
        });
        relied.collect()
    }

    /// Reads a plan's JSON.
    ///
    /// # Errors
    /// If the file cannot be read, is no plan, or one of a version that this becalm does not know.
    pub fn read(path: &Path) -> Result<Plan, Error> {
        let mut json = Vec::new();
        let read = File::open(path)
            .and_then(|file| file.take(SIZE_LIMIT + 1).read_to_end(&mut json))
            .map_err(|error| Error::at("read", path, error))?;
        if read as u64 > SIZE_LIMIT {
            return Err(Error::NoPlan { path: path.into(), problem: "it is too large".into() });
        }
        Plan::from_json(&json).map_err(|problem| Error::NoPlan { path: path.into(), problem })
    }

    fn from_json(json: &[u8]) -> Result<Plan, String> {
        /// Told first: of another version, nothing else is understood either.
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if head.schema != SCHEMA {
            return Err(format!("its schema is {}, not {SCHEMA}", head.schema));
        }
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// Writes the plan as JSON, one step a line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{{\"schema\": \"{SCHEMA}\",")?;
        writeln!(out, "\"title\": {},", serde_json::to_string(&self.title)?)?;
        writeln!(out, "\"risks\": {},", serde_json::to_string(&self.risks)?)?;
        writeln!(out, "\"predicted\": {},", serde_json::to_string(&self.predicted)?)?;
        write!(out, "\"steps\": [")?;
        for (at, step) in self.steps.iter().enumerate() {
            out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, step)?;
        }
        writeln!(out, "\n]}}")
    }
}
