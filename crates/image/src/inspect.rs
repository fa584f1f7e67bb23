//! What is in an image's file, whatever it is: SIF, squashfs or ext3.
//!
//! Said is what the file says of itself, where that can be; nothing is unpacked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use image_format::sif::{self, Filesystem, INSPECT_METADATA, Sif, SifObjectKind, uuid_text};
use image_format::squash::{SquashImage, SquashReadError, SuperblockFacts};
use image_format::{ReadAt, ext3};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Manifest;

/// No label, definition file or other text in an image is longer, in bytes.
const MOST_TEXT: usize = 1 << 20;

/// Why an image could not be looked into.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It is something else.
    #[error("is no image: neither SIF nor squashfs nor ext3")]
    NoImage,
    /// It is a SIF that cannot be.
    #[error(transparent)]
    Sif(#[from] sif::SifReadError),
    /// It is a squashfs that cannot be.
    #[error(transparent)]
    Squashfs(#[from] SquashReadError),
    /// Reading failed.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// What a file holds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Inspection {
    /// Its size in bytes.
    pub bytes: u64,
    /// What it is.
    #[serde(flatten)]
    pub holds: Holds,
}

/// What a file is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Holds {
    /// A container in one file.
    Sif(SifFacts),
    /// A read-only filesystem.
    Squashfs {
        /// What it says of itself.
        squashfs: Box<SquashFacts>,
    },
    /// A filesystem of the ext family.
    Ext {
        /// What it says of itself.
        ext: ExtFacts,
    },
}

/// What a squashfs says of itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SquashFacts {
    /// What every squashfs says.
    #[serde(flatten)]
    pub facts: SuperblockFacts,
    /// What one of becalm's says besides.
    pub manifest: Option<Manifest>,
}

/// What a SIF holds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SifFacts {
    /// Its number.
    pub uuid: String,
    /// For which processors its root is, as Go names them; `unknown` without a root.
    pub arch: &'static str,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// When it was last changed, in seconds since 1970.
    pub modified: i64,
    /// Whether there is a signature in it. It is not verified.
    pub signed: bool,
    /// Whether a partition of it is encrypted.
    pub encrypted: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its objects, in the order of its table.
    pub objects: Vec<ObjectFacts>,
}

/// An object of a SIF.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ObjectFacts {
    /// Its number.
    pub id: u32,
    /// What it is.
    pub object: String,
    /// Its name; may be empty.
    pub name: String,
    /// The group that it belongs to.
    pub group: Option<u32>,
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Of a partition, what it is for.
    pub role: Option<String>,
    /// Of a partition, the filesystem that its row names.
    pub filesystem: Option<String>,
    /// Of a partition, for which processors it is.
    pub arch: Option<&'static str>,
    /// Of a signature, the key's fingerprint.
    pub fingerprint: Option<String>,
    /// Of a squashfs, what it says of itself.
    pub squashfs: Option<SquashFacts>,
    /// Of an ext3, what it says of itself.
    pub ext: Option<ExtFacts>,
    /// Why it is not what its row says.
    pub problem: Option<String>,
}

/// What an ext3 says of itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExtFacts {
    /// `ext3`, or `ext` for one that Apptainer does not take as an overlay.
    pub filesystem: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of it that are taken.
    pub used_bytes: u64,
    /// How many files it can hold.
    pub inodes: u32,
    /// How many of those are there.
    pub used_inodes: u32,
    /// Whether it was unmounted cleanly; if not, it is mounted now, or e2fsck is due.
    pub clean: bool,
    /// Its number.
    pub uuid: String,
    /// When it was last written to, in seconds since 1970.
    pub written: u32,
}

/// Says what is in a file.
///
/// # Errors
/// Where it is no image, cannot be one, or cannot be read. A SIF with a broken partition is no
/// error: its row says so.
pub fn inspect(file: &File) -> Result<Inspection, InspectError> {
    let bytes = file.size()?;
    let holds = if Sif::is_in(file)? {
        Holds::Sif(sif_facts(file, &Sif::read(file)?))
    } else if begins_as_squashfs(file)? {
        Holds::Squashfs { squashfs: Box::new(squash_facts(file, 0, bytes)?) }
    } else if let Some(facts) = ext3::Ext3Facts::read(file)? {
        Holds::Ext { ext: ext_facts(&facts) }
    } else {
        return Err(InspectError::NoImage);
    };
    Ok(Inspection { bytes, holds })
}

/// The definition file in a SIF; None if it has none.
///
/// # Errors
/// Where it is no SIF, or cannot be read.
pub fn deffile(file: &File) -> Result<Option<String>, InspectError> {
    let sif = Sif::read(file)?;
    let deffile = sif.objects.iter().find(|object| object.kind == SifObjectKind::Deffile);
    let bytes = deffile.map(|object| object.start(file, MOST_TEXT)).transpose()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn sif_facts(file: &File, sif: &Sif) -> SifFacts {
    SifFacts {
        uuid: sif.uuid_text(),
        arch: sif.arch.name(),
        created: sif.created,
        modified: sif.modified,
        signed: sif.is_signed(),
        encrypted: sif.is_encrypted(),
        labels: labels(file, sif),
        objects: sif.objects.iter().map(|object| object_facts(file, object)).collect(),
    }
}

/// The labels, from the object that has no other purpose, or from what `apptainer inspect`
/// answers from, which is where Apptainer keeps them. Labels that are not a map of texts are none.
fn labels(file: &File, sif: &Sif) -> BTreeMap<String, String> {
    let json = |object: &sif::SifObject| -> Option<serde_json::Value> {
        serde_json::from_slice(&object.start(file, MOST_TEXT).ok()?).ok()
    };
    let own = sif.objects.iter().find(|object| object.kind == SifObjectKind::Labels);
    let inspect = |object: &&sif::SifObject| {
        object.kind == SifObjectKind::Json && object.name == INSPECT_METADATA
    };
    let inspect = sif.objects.iter().find(inspect);
    let in_inspect = || Some(json(inspect?)?.pointer("/data/attributes/labels")?.clone());
    let labels = own.and_then(json).or_else(in_inspect).unwrap_or_default();
    serde_json::from_value(labels).unwrap_or_default()
}

fn object_facts(file: &File, object: &sif::SifObject) -> ObjectFacts {
    let partition = object.partition;
    let mut facts = ObjectFacts {
        id: object.id,
        object: object.kind.to_string(),
        name: object.name.clone(),
        group: object.group,
        offset: object.offset,
        bytes: object.size,
        role: partition.map(|partition| partition.role.to_string()),
        filesystem: partition.map(|partition| partition.filesystem.to_string()),
        arch: partition.map(|partition| partition.arch.name()),
        fingerprint: object.fingerprint.clone(),
        squashfs: None,
        ext: None,
        problem: None,
    };
    // What the partition's row names is looked for in it.
    let looked = match partition.map(|partition| partition.filesystem) {
        Some(Filesystem::Squashfs) => squash_facts(file, object.offset, object.size)
            .map(|squashfs| facts.squashfs = Some(squashfs))
            .map_err(|error| error.to_string()),
        Some(Filesystem::Ext3) => ext_of(file, object).map(|ext| facts.ext = Some(ext)),
        _ => Ok(()),
    };
    facts.problem = looked.err();
    facts
}

fn begins_as_squashfs(file: &File) -> io::Result<bool> {
    let mut magic = [0; 4];
    match file.read_exact_at(&mut magic, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        done => done.map(|()| magic == *b"hsqs"),
    }
}

fn squash_facts(file: &File, offset: u64, size: u64) -> Result<SquashFacts, SquashReadError> {
    let part = image_format::ReadWindow::of(file, offset, size)?;
    let part = part.ok_or(SquashReadError::NotSquashfs("it is cut"))?;
    let facts = SuperblockFacts::of(&part)?;
    let manifest = match SquashImage::open_part(file.try_clone()?, offset, size) {
        Ok(image) => Manifest::of(&image)?,
        // Compressed as becalm compresses nothing: not its own.
        Err(SquashReadError::Unsupported(_)) => None,
        Err(error) => return Err(error),
    };
    Ok(SquashFacts { facts, manifest })
}

fn ext_of(file: &File, object: &sif::SifObject) -> Result<ExtFacts, String> {
    let window = object.window(file).map_err(|error| error.to_string())?.ok_or("is cut")?;
    let facts = ext3::Ext3Facts::read(&window).map_err(|error| error.to_string())?;
    Ok(ext_facts(&facts.ok_or("is no ext3")?))
}

fn ext_facts(facts: &ext3::Ext3Facts) -> ExtFacts {
    ExtFacts {
        filesystem: if facts.is_ext3 { "ext3" } else { "ext" },
        bytes: facts.size,
        used_bytes: facts.size - facts.free,
        inodes: facts.inodes,
        used_inodes: facts.inodes - facts.free_inodes,
        clean: facts.is_clean,
        uuid: uuid_text(&facts.uuid),
        written: facts.written,
    }
}
