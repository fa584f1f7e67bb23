//! Where indexes are, who may have written them, and how they are replaced.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use recording::{seal, unseal};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::journal::IndexJournal;
use super::names::{IndexNames, PathState};
use super::site::SiteNotes;
use crate::site::Environment;
use crate::tree::rights::{Everyone, way_is_open};

/// What an index begins with; another number for another form.
const MAGIC: &str = "becalm-names 3";

/// An index of a million names has 60 MB.
const MOST: u64 = 256 << 20;

/// The directory that the administrator fills for everybody.
const FOR_ALL: &str = "/var/cache/becalm/modules";

/// Directories with indexes, the first is looked at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStore {
    directories: Vec<PathBuf>,
}

/// Why an index is not taken, or was not written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is none.
    #[error("no index of {}", of.display())]
    Absent {
        /// What it would be of.
        of: PathBuf,
    },
    /// Somebody else may have written it.
    #[error("{}: not root's or one's own, or others may write it", path.display())]
    Untrusted {
        /// The index.
        path: PathBuf,
    },
    /// It is no index, one of another becalm, or not as it was written.
    #[error("{}: not an index of this becalm, or a damaged one", path.display())]
    Unknown {
        /// The index.
        path: PathBuf,
    },
    /// It could not be written so that it can be undone.
    #[error(transparent)]
    Journal(#[from] remedy::Error),
    /// A file could not be read or written.
    #[error("{}: cannot {operation}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl IndexStore {
    /// `$BECALM_MODULES_INDEX` (directories, between colons), else the user's own in
    /// `$XDG_CACHE_HOME/becalm/modules`, then /var/cache/becalm/modules. Where root writes, it is
    /// the latter.
    pub fn of(environment: &Environment) -> IndexStore {
        let set = |name| environment.get(name).filter(|value| !value.is_empty());
        if let Some(directories) = set("BECALM_MODULES_INDEX") {
            let directories = directories.as_bytes().split(|byte| *byte == b':');
            let directories = directories.filter(|directory| directory.starts_with(b"/"));
            let path =
                |bytes: &[u8]| PathBuf::from(OsString::from(std::ffi::OsStr::from_bytes(bytes)));
            return IndexStore { directories: directories.map(path).collect() };
        }
        let home = || set("HOME").map(|home| Path::new(home).join(".cache"));
        let cache = set("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let own = cache.map(|cache| cache.join("becalm/modules"));
        let for_all = Some(PathBuf::from(FOR_ALL));
        let directories =
            if rustix::process::geteuid().is_root() { [for_all, own] } else { [own, for_all] };
        IndexStore { directories: directories.into_iter().flatten().collect() }
    }

    /// One directory.
    pub fn at(directory: &Path) -> IndexStore {
        IndexStore { directories: vec![directory.to_owned()] }
    }

    /// Where indexes are written.
    pub fn directory(&self) -> Option<&Path> {
        self.directories.first().map(PathBuf::as_path)
    }

    /// Whether everyone gets at what is written.
    pub fn is_for_everyone(&self) -> bool {
        let mut everyone = Everyone::default();
        self.directory().is_some_and(|directory| {
            way_is_open(Path::new("/"), directory, |at| everyone.may_enter(at))
                && everyone.may_enter(directory)
        })
    }

    /// The index of a modulepath, as it is kept.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn held(&self, root: &Path) -> Result<TrustedIndex, StoreError> {
        self.find(root, "names")
    }

    /// Notes of a site's Modules.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn site(&self, command: &Path) -> Result<SiteNotes, StoreError> {
        let held = self.find(command, "site")?;
        let notes: SiteNotes = held.value()?;
        if notes.site.command != command {
            return Err(StoreError::Absent { of: command.to_owned() });
        }
        Ok(notes)
    }

    /// Puts an index in place, all at once; by the journal, if there is one. Where it is.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn keep(
        &self,
        names: &IndexNames<'_>,
        journal: Option<&mut IndexJournal>,
    ) -> Result<PathBuf, StoreError> {
        self.write(Path::new(&names.root), "names", names, journal)
    }

    /// Puts notes in place, all at once. Where they are.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn keep_site(
        &self,
        notes: &SiteNotes,
        journal: Option<&mut IndexJournal>,
    ) -> Result<PathBuf, StoreError> {
        self.write(&notes.site.command, "site", notes, journal)
    }

    /// Removes the index of a modulepath, where one would be kept: it is no longer true.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn forget(&self, root: &Path) -> Result<(), StoreError> {
        let Some(directory) = self.directory() else { return Ok(()) };
        let path = directory.join(file_name(root, "names"));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::Io { path, operation: "remove", error })
            }
            _ => Ok(()),
        }
    }

    fn find(&self, of: &Path, kind: &str) -> Result<TrustedIndex, StoreError> {
        let name = file_name(of, kind);
        for directory in &self.directories {
            match trusted(&directory.join(&name)) {
                Err(StoreError::Absent { .. }) => {}
                found => return found,
            }
        }
        Err(StoreError::Absent { of: of.to_owned() })
    }

    fn write<T: Serialize>(
        &self,
        of: &Path,
        kind: &str,
        value: &T,
        journal: Option<&mut IndexJournal>,
    ) -> Result<PathBuf, StoreError> {
        let Some(directory) = self.directory() else {
            return Err(StoreError::Absent { of: of.to_owned() });
        };
        let path = directory.join(file_name(of, kind));
        let failed = |operation| {
            let path = path.clone();
            move |error| StoreError::Io { path, operation, error }
        };
        let content =
            postcard::to_allocvec(value).map_err(|_| StoreError::Unknown { path: path.clone() })?;
        if let Some(journal) = journal {
            journal.put(&path, seal(MAGIC, &content))?;
            return Ok(path);
        }
        make_directory(directory).map_err(failed("make its directory"))?;
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed("write"))?;
        file.write_all(&seal(MAGIC, &content)).map_err(failed("write"))?;
        // It holds nothing that not everyone may read.
        let all = Permissions::from_mode(0o644);
        file.as_file().set_permissions(all).map_err(failed("set its permissions"))?;
        file.as_file().sync_all().map_err(failed("sync"))?;
        file.persist(&path).map_err(|error| failed("rename")(error.error))?;
        Ok(path)
    }
}

/// An index that can be trusted, as it is kept.
#[derive(Clone, Debug)]
pub struct TrustedIndex {
    path: PathBuf,
    content: Vec<u8>,
    /// Which file it is.
    pub seen: PathState,
    /// How long ago it was written.
    pub age: Duration,
}

impl TrustedIndex {
    /// The index.
    ///
    /// # Errors
    /// [`StoreError`], also where it is of another modulepath.
    pub fn names(&self, root: &Path) -> Result<IndexNames<'_>, StoreError> {
        let names: IndexNames<'_> = self.value()?;
        if Path::new(&names.root) != root {
            return Err(StoreError::Absent { of: root.to_owned() });
        }
        Ok(names)
    }

    /// What it is kept as.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.content
    }

    fn value<'a, T: Deserialize<'a>>(&'a self) -> Result<T, StoreError> {
        let value = decoded(&self.content);
        value.ok_or_else(|| StoreError::Unknown { path: self.path.clone() })
    }
}

/// An index of names, by the bytes that it is kept as; none if they are no such index.
pub fn parse(content: &[u8]) -> Option<IndexNames<'_>> {
    decoded(content)
}

fn decoded<'a, T: Deserialize<'a>>(content: &'a [u8]) -> Option<T> {
    postcard::from_bytes(unseal(MAGIC, content)?).ok()
}

/// Makes a directory, and those above it that are missing. Nobody else may write to them; root's
/// are for everyone, whatever the umask.
fn make_directory(directory: &Path) -> io::Result<()> {
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
    for directory in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o755).create(directory) {
            // Another becalm has made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        if rustix::process::geteuid().is_root() {
            std::fs::set_permissions(directory, Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

/// A name of fixed length for a path of any.
fn file_name(of: &Path, kind: &str) -> String {
    let hash = Sha256::digest(of.as_os_str().as_bytes());
    let hex: String = hash[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}.{kind}")
}

/// A file of root or of the user that nobody else may write: asked of the open file, so that
/// nothing else is read than what was asked about.
fn trusted(path: &Path) -> Result<TrustedIndex, StoreError> {
    let failed =
        |error: io::Error| StoreError::Io { path: path.to_owned(), operation: "read", error };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
            return Err(StoreError::Absent { of: path.to_owned() });
        }
        Err(error) => return Err(failed(error.into())),
    };
    let about = file.metadata().map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    let is_ours = [0, own].contains(&about.uid()) && about.mode() & 0o022 == 0;
    if !about.is_file() || !is_ours {
        return Err(StoreError::Untrusted { path: path.to_owned() });
    }
    if about.len() > MOST {
        return Err(StoreError::Unknown { path: path.to_owned() });
    }
    // Whoever writes one renames it into place: it does not grow.
    let mut content = vec![0; about.len() as usize];
    file.read_exact(&mut content).map_err(failed)?;
    let age = about.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok());
    // From the future: it is no age to rely on.
    let age = age.unwrap_or(Duration::MAX);
    Ok(TrustedIndex { path: path.to_owned(), content, seen: PathState::from(&about), age })
}
