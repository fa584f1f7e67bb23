//! What a pack says of itself, at its end; and one opened, checked before it is used.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{ContentIdentity, PackError};

/// What a pack says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackAbout {
    /// The version of the format.
    pub format: u32,
    /// The program, as it was named: absolute.
    pub program: PathBuf,
    /// Its file.
    pub identity: ContentIdentity,
    /// The program's copy that names this pack as its interpreter: where, and what it is.
    pub copy: PathBuf,
    /// The copy's file.
    pub copy_identity: ContentIdentity,
    /// Whether the program's layout must not be randomised in form 2.
    pub fixed_layout: bool,
    /// The soft limit of the stack under which it was made; none: unlimited.
    pub stack_limit: Option<u64>,
    /// Why the pack cannot be the executable (form 1).
    pub not_as_executable: Option<String>,
    /// Libraries in it.
    pub libraries: usize,
    /// Files and directories that are looked at when it starts.
    pub files_checked: usize,
    /// Its segments.
    pub segments: usize,
    /// Words that are made anew in each start.
    pub words: usize,
    /// Where the pack lies: the copy names it so.
    pub file: PathBuf,
    /// Its length, in bytes.
    pub length: u64,
    /// Of its head (what decides whether it is used), length and SHA-256.
    pub head: (u64, String),
}

const FORMAT: u32 = 1;
const MAGIC: &[u8; 16] = b"becalm-pack 1\n\0\0";

#[cfg(target_arch = "x86_64")]
impl PackAbout {
    /// As it ends the file: JSON, its length, and the magic.
    pub(crate) fn trailer(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        let length = bytes.len() as u64;
        bytes.extend(length.to_le_bytes());
        bytes.extend(MAGIC);
        Ok(bytes)
    }

    pub(crate) const FORMAT: u32 = FORMAT;
}

/// SHA-256, as text.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a file ends as a pack does.
pub(crate) fn is_pack(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    let end = file.metadata().map_or(0, |about| about.len());
    let at = end.saturating_sub(magic.len() as u64);
    file.read_exact_at(&mut magic, at).is_ok() && magic == *MAGIC
}

/// A pack that is whole, belongs to the user or to root, and can be written by nobody else.
pub struct OpenedPack {
    /// What it says of itself.
    pub about: PackAbout,
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// The path of the program's copy.
    pub copy: PathBuf,
}

/// Whether the calling process may execute a file, by its mode and its access control list.
fn may_execute(file: &Path) -> bool {
    accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

impl OpenedPack {
    /// Opens a pack.
    ///
    /// # Errors
    /// [`PackError::Unusable`], with the reason.
    pub fn open(path: &Path) -> Result<OpenedPack, PackError> {
        let real = path.canonicalize().map_err(PackError::at("find", path))?;
        let is_file = real.metadata().is_ok_and(|about| about.is_file());
        if !is_file {
            return Err(PackError::NoPack(path.to_owned()));
        }
        let file = File::open(&real).map_err(PackError::at("open", path))?;
        let unusable = |reason: &str| PackError::unusable(path, reason);
        if !is_pack(&file) {
            return Err(PackError::NoPack(path.to_owned()));
        }
        let cut = || unusable("is damaged: make it again with becalm elf pack");
        let metadata = file.metadata().map_err(PackError::at("look at", path))?;
        let at = metadata.len() - MAGIC.len() as u64 - 8;
        let mut length = [0; 8];
        file.read_exact_at(&mut length, at).map_err(|_| cut())?;
        let length = u64::from_le_bytes(length);
        let start = at.checked_sub(length).filter(|_| length < 1 << 20).ok_or_else(cut)?;
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, start).map_err(|_| cut())?;
        let about: PackAbout = serde_json::from_slice(&bytes).map_err(|_| cut())?;
        if about.format != FORMAT {
            return Err(unusable("is of another version of becalm: make it again"));
        }
        if about.length != start {
            return Err(cut());
        }
        let mut head = vec![0; about.head.0.min(1 << 26) as usize];
        file.read_exact_at(&mut head, 0).map_err(|_| cut())?;
        if digest(&head) != about.head.1 {
            return Err(cut());
        }
        if about.file != real {
            let was = about.file.display();
            return Err(unusable(&format!("was made as {was}: make it again where it lies now")));
        }
        let copy = about.copy.clone();
        let pack = OpenedPack { about, path: real, copy };
        pack.is_ours(path, &metadata)?;
        let gone = |error| PackError::unusable(&pack.copy, format!("{error}: make the pack again"));
        let copy = pack.copy.symlink_metadata().map_err(gone)?;
        pack.is_ours(&pack.copy, &copy)?;
        is_kept(pack.path.parent().unwrap_or(Path::new("/")))?;
        if !ContentIdentity::of(&copy).is_content_of(&pack.about.copy_identity) {
            return Err(PackError::unusable(&pack.copy, "has changed: make the pack again"));
        }
        Ok(pack)
    }

    /// Refuses what somebody else may have written.
    fn is_ours(&self, file: &Path, about: &std::fs::Metadata) -> Result<(), PackError> {
        let user = rustix::process::geteuid().as_raw();
        if about.uid() != 0 && about.uid() != user {
            let owner = about.uid();
            let reason = format!("belongs to user {owner}, neither to you nor to root: not used");
            return Err(PackError::unusable(file, reason));
        }
        let mode = about.mode() & 0o7777;
        let wrong = match mode {
            mode if mode & 0o022 != 0 => "others may write it: chmod 0755, if it is yours alone",
            mode if mode & 0o6000 != 0 => "it would give rights: chmod 0755",
            mode if mode & 0o111 == 0o111 => return Ok(()),
            // Of root, the kernel asks for one bit of the three.
            mode if mode & 0o111 == 0 || !may_execute(file) => {
                "you may not execute it: chmod +x, as it was when it was made"
            }
            _ => return Ok(()),
        };
        Err(PackError::unusable(file, format!("its mode is {mode:04o}, {wrong}")))
    }

    /// Whether the program is what it was when the pack was made.
    pub fn is_of_todays_program(&self) -> bool {
        self.about
            .program
            .metadata()
            .is_ok_and(|about| ContentIdentity::of(&about) == self.about.identity)
    }
}

/// Refuses a directory where somebody else may put another file in a pack's place, also between a look at it and its
/// use.
fn is_kept(directory: &Path) -> Result<(), PackError> {
    let reason =
        "others than you and root may put another file in the pack's place there: not used";
    access::keeps_names(directory).map_err(|why| PackError::unusable(&why.path, reason))
}
