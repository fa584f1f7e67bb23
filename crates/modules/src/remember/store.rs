//! Where answers are kept: a directory of the user's own, which nobody else may look into.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use recording::{seal, unseal};
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RememberedAnswer;

/// What a file begins with; another number for another form.
const MAGIC: &str = "becalm-answer 4";
/// The most files, of questions and of answers.
const FILES_MOST: usize = 2_000;
/// Their most bytes, and one's.
const BYTES_MOST: u64 = 64 << 20;
const FILE_MOST: u64 = 8 << 20;
/// What was made longer ago goes first.
const AGE_MOST: Duration = Duration::from_secs(30 * 24 * 3600);

/// The answers of a user. What cannot be read is as if it were not there; what cannot be written is
/// not.
#[derive(Clone, Debug)]
pub struct AnswerStore {
    directory: PathBuf,
}

impl AnswerStore {
    /// Below becalm's state directory ([`remedy::state_directory`]).
    pub fn below(state: &Path) -> AnswerStore {
        AnswerStore { directory: state.join("answers") }
    }

    /// Where.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Why nothing can be kept here, and which directory is the reason; none where it can.
    pub fn refusal(&self) -> Option<(PathBuf, io::Error)> {
        for directory in self.directory.ancestors() {
            let refused = match directory.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => Some(error),
                Ok(about) if directory == self.directory && !is_own(&about) => {
                    Some(io::Error::other("it is another user's, or others may use it"))
                }
                Ok(_) => {
                    let may = Access::WRITE_OK | Access::EXEC_OK;
                    accessat(CWD, directory, may, AtFlags::EACCESS).err().map(io::Error::from)
                }
            };
            return refused.map(|error| (directory.to_owned(), error));
        }
        None
    }

    /// What is kept under a name, if it is the user's own and as it was written.
    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(self.directory.join(name));
        let mut file = file.ok()?;
        let about = file.metadata().ok()?;
        if !is_own(&about) || !about.is_file() || about.len() > FILE_MOST {
            return None;
        }
        let mut sealed = vec![0; about.len() as usize];
        file.read_exact(&mut sealed).ok()?;
        postcard::from_bytes(unseal(MAGIC, &sealed)?).ok()
    }

    /// Keeps something under a name, in place of what was there.
    ///
    /// # Errors
    /// It is not kept.
    pub(super) fn put<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let content = postcard::to_allocvec(value).map_err(io::Error::other)?;
        let sealed = seal(MAGIC, &content);
        if sealed.len() as u64 > FILE_MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let about = self.directory.metadata()?;
        if !is_own(&about) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut beside = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory)?;
        beside.write_all(&sealed)?;
        beside.persist(self.directory.join(name)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Takes away what is too old or too much, the oldest first.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub(super) fn tidy(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.directory)?.flatten() {
            if let Ok(about) = entry.metadata()
                && let Ok(made) = about.modified()
            {
                files.push((made, about.len(), entry.path()));
            }
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        let mut count = files.len();
        for (made, size, path) in files {
            let age = SystemTime::now().duration_since(made).unwrap_or_default();
            // A quarter is made room for, so that this is seldom.
            let is_too_much = count > FILES_MOST / 4 * 3 || bytes > BYTES_MOST / 4 * 3;
            if age < AGE_MOST && !is_too_much {
                break;
            }
            let _ = std::fs::remove_file(path);
            count -= 1;
            bytes -= size;
        }
        Ok(())
    }

    /// Whether there is so much that it is to be tidied: looked at once in a while.
    pub(super) fn is_full(&self) -> bool {
        let files = std::fs::read_dir(&self.directory);
        files.is_ok_and(|files| files.count() > FILES_MOST)
    }

    /// All answers, the newest first.
    ///
    /// # Errors
    /// The directory is there and cannot be listed.
    pub fn answers(&self) -> io::Result<Vec<RememberedAnswer>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let answers = names.filter(|name| name.starts_with("a-"));
        let mut answers: Vec<RememberedAnswer> =
            answers.filter_map(|name| self.get(&name)).collect();
        answers.sort_by_key(|answer| std::cmp::Reverse(answer.answered));
        Ok(answers)
    }

    /// Forgets everything; how many files that were.
    ///
    /// # Errors
    /// One of them cannot be removed.
    pub fn forget(&self) -> io::Result<usize> {
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut count = 0;
        for entry in entries {
            std::fs::remove_file(entry?.path())?;
            count += 1;
        }
        Ok(count)
    }
}

/// Whether it is this user's, and nobody else's to look into.
fn is_own(about: &Metadata) -> bool {
    about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o077 == 0
}
