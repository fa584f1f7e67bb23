//! How much memory a recording may take: a file of a few kilobytes that unpacks to gigabytes was
//! made to do harm.

use crate::{Exec, MappedElf, Mount, Origin, Record, RecordingReadError};

/// What any recording may take, in bytes.
const FREE: u64 = 64 << 20;
/// What each byte of the file may take besides. A call takes about 100 bytes in memory and, packed,
/// seldom less than 3; the longest paths that the kernel takes, each of them another, 200 for one.
const FOR_EACH_BYTE: u64 = 512;
/// What a component of a path takes besides, wherever the path is known and for each call that names
/// it: both are walked along, a component at a time, and each may be a request to a server.
const FOR_EACH_COMPONENT: usize = 32;
/// All that leads to a path is looked up by its own bytes: of so many of them, one is counted.
const LOOKED_UP: usize = 8;
/// A path is no longer than the kernel's own limit (PATH_MAX, 4096) for a working directory and for
/// what is asked for below it.
const LONGEST_PATH: usize = 16 << 10;

/// What was read of the file, and what is held of it.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    read: u64,
    held: u64,
}

impl Budget {
    /// Takes in that so many bytes of the file were read.
    pub(crate) fn earn(&mut self, bytes: usize) {
        self.read += bytes as u64;
    }

    /// Takes in a record that will be held; a call names paths of so many components.
    ///
    /// # Errors
    /// [`RecordingReadError::Damaged`], where that is more than the file can be worth.
    pub(crate) fn spend(
        &mut self,
        record: &Record,
        components: usize,
    ) -> Result<(), RecordingReadError> {
        if matches!(record, Record::Path(path) if path.len() > LONGEST_PATH) {
            return Err(RecordingReadError::Damaged("a path longer than any that Linux takes"));
        }
        self.held += (size(record) + FOR_EACH_COMPONENT * components) as u64;
        match self.held > FREE + FOR_EACH_BYTE.saturating_mul(self.read) {
            true => Err(RecordingReadError::Damaged(
                "it unpacks to more than any recording of its size",
            )),
            false => Ok(()),
        }
    }
}

/// About how many bytes of memory a record takes, once it is held.
fn size(record: &Record) -> usize {
    let inline = size_of::<Record>();
    match record {
        // It is kept twice: by number, and by its bytes to find the number.
        Record::Path(path) => {
            let each = FOR_EACH_COMPONENT + path.len() / LOOKED_UP;
            2 * path.len() + 96 + each * components(path)
        }
        Record::Exec { exec: Exec { argv, env, .. }, .. } => {
            let variables = env.iter().flat_map(|(name, value)| [name, value]);
            inline + texts(argv.iter().chain(variables))
        }
        Record::Words { words, .. } => {
            inline + words.iter().map(|word| text_of(word.bytes().len())).sum::<usize>()
        }
        Record::Image {
            image: MappedElf { soname, needed, rpath, runpath, interpreter }, ..
        } => {
            let lists = needed.iter().chain(rpath).chain(runpath);
            inline + texts(lists.chain(soname).chain(interpreter))
        }
        Record::Origin { origin: Origin { frames, .. }, .. } => {
            inline + 16 * frames.len() + texts(frames.iter().map(|frame| &frame.function))
        }
        Record::Mounts(change) => {
            let texts =
                |mount: &Mount| 128 + 2 * mount.point.len() + mount.fs.len() + mount.source.len();
            inline + change.mounts.iter().map(texts).sum::<usize>()
        }
        _ => inline,
    }
}

/// How many components a path has.
pub(crate) fn components(path: &[u8]) -> usize {
    path.iter().filter(|byte| **byte == b'/').count()
}

fn texts<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| text_of(text.len())).sum()
}

fn text_of(length: usize) -> usize {
    // A short text takes what the allocator gives at least.
    size_of::<String>() + length.max(16)
}
