//! What a job's layout is drawn from: the same for all of its ranks, another one for each job, and
//! not to be guessed by anybody else.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use access::{ForeignPath, OwnDirectory};
use sha2::{Digest, Sha256};

/// The file of the state directory that holds the user's secret.
const SECRET: &str = "layout-secret";
const BYTES: usize = 32;

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A file operation.
    #[error("cannot {doing} {}: {error}", .path.display())]
    File {
        /// What failed.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Somebody else can change it, or has put it there.
    #[error("{why}; a secret that others know or choose is none: {}", way_out(.why))]
    Foreign {
        /// What, and whose it is.
        #[from]
        why: ForeignPath,
    },
    /// Others may read it.
    #[error("{} is no secret: others may read it (remove it, and a new one is made)", .0.display())]
    Open(PathBuf),
    /// The file holds something else.
    #[error("{} is no secret of becalm's (remove it, and a new one is made)", .0.display())]
    Malformed(PathBuf),
}

fn way_out(why: &ForeignPath) -> String {
    let chmod = why.closing().map(|chmod| format!("{chmod}, or ")).unwrap_or_default();
    format!("{chmod}set XDG_STATE_HOME to a directory that only you can write to")
}

/// A number that all who give the same words share.
pub fn drawn_from(secret: &[u8], job: &str) -> u64 {
    let digest = Sha256::new()
        .chain_update((secret.len() as u64).to_le_bytes())
        .chain_update(secret)
        .chain_update(job)
        .finalize();
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number that nobody else gets.
///
/// # Errors
/// Those of /dev/urandom.
pub fn fresh() -> Result<u64, SecretError> {
    Ok(drawn_from(&random()?, ""))
}

/// The user's secret in this directory, readable by the user alone. Made by whoever asks first: of
/// any number of ranks that ask at once, all get the same.
///
/// # Errors
/// [`SecretError`].
pub fn secret(state: &Path) -> Result<Vec<u8>, SecretError> {
    if let Some(secret) = kept(state)? {
        return Ok(secret);
    }
    make(state, &state.join(SECRET))?;
    kept(state)?.ok_or_else(|| at("read", &state.join(SECRET))(ErrorKind::NotFound.into()))
}

/// The secret, if there is one. It is looked at first whether anybody else may have put it there.
fn kept(state: &Path) -> Result<Option<Vec<u8>>, SecretError> {
    let path = OwnDirectory::at(state)?.file(SECRET)?;
    let bytes = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(about) if about.mode() & 0o077 != 0 => return Err(SecretError::Open(path)),
        _ => fs::read(&path).map_err(at("read", &path))?,
    };
    if bytes.len() == BYTES { Ok(Some(bytes)) } else { Err(SecretError::Malformed(path)) }
}

/// Writes a secret beside, and links it: the link is either the first one, or another's is there,
/// and whole (link(2) is atomic on NFS, too).
fn make(state: &Path, path: &Path) -> Result<(), SecretError> {
    let directories = DirBuilder::new().recursive(true).mode(0o700).create(state);
    directories.map_err(at("create the directory", state))?;
    // No other rank, thread or container takes this name.
    let beside = state.join(format!("{SECRET}.{:016x}", fresh()?));
    let file = File::options().write(true).create_new(true).mode(0o600).open(&beside);
    let written = file.and_then(|mut file| {
        file.write_all(&random().map_err(io::Error::other)?)?;
        file.sync_all()
    });
    let linked = written.and_then(|()| fs::hard_link(&beside, path));
    let _ = fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(at("write", path)(error)),
        _ => Ok(()),
    }
}

fn random() -> Result<[u8; BYTES], SecretError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; BYTES];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(at("read", path))
}

fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SecretError {
    let path = path.to_owned();
    move |error| SecretError::File { doing, path, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn all_who_ask_at_once_get_one_secret_that_only_the_user_reads() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("a/b");
        let ask = || secret(&state).unwrap();
        let secrets: Vec<_> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(secrets.iter().all(|one| *one == secrets[0]));
        let found: Vec<_> = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_secret_that_is_cut_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(SECRET);
        fs::write(&path, "short").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(secret(directory.path()), Err(SecretError::Malformed(_))));
    }

    #[test]
    fn another_job_or_another_secret_draws_another_number() {
        let numbers = [drawn_from(b"a", "b"), drawn_from(b"a", "c"), drawn_from(b"ab", "")];
        assert_ne!(numbers[0], numbers[1]);
        assert_ne!(numbers[0], numbers[2]);
        assert_eq!(numbers[0], drawn_from(b"a", "b"));
    }
}
