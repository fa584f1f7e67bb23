use std::env;
use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use rustix::process::{Resource, getrlimit};

use super::BuiltinsError;

/// Directories of this node, the better first: every bash that starts opens what is put there, so
/// it is to be none of the shared filesystem. A relative one is none: each bash would look for it
/// where it then is, and read what somebody else has put there.
pub(super) fn places() -> Vec<PathBuf> {
    let session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| path.is_dir());
    // Where one has no room, forbids execution, is another user's or has one of another user's of that
    // name, the next may do.
    let own = [env::temp_dir(), "/tmp".into(), "/dev/shm".into(), "/var/tmp".into()];
    session.into_iter().chain(own).filter(|path| path.is_absolute() && is_plain(path)).collect()
}

/// bash expands the name of what it reads first, and the loader splits what `LD_PRELOAD` says.
fn is_plain(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b"$`\"\\ :\t\n".contains(byte))
}

/// A directory for this user alone, where nobody else can put another in its place.
pub(super) fn own(place: &Path) -> Result<PathBuf, BuiltinsError> {
    let user = rustix::process::getuid().as_raw();
    access::keeps_names(place)?;
    let own = place.join(format!("becalm-{user}"));
    private(&own, user)?;
    Ok(own)
}

/// A directory of one content in it: another never takes its place.
pub(super) fn of_content(
    place: &Path,
    libraries: &[&[u8]],
    parts: &[&[u8]],
) -> Result<PathBuf, BuiltinsError> {
    let own = own(place)?;
    let mut hasher = DefaultHasher::new();
    for part in libraries.iter().chain(parts) {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    let directory = own.join(format!("builtins-{:016x}", hasher.finish()));
    private(&directory, rustix::process::getuid().as_raw())?;
    Ok(directory)
}

fn private(directory: &Path, user: u32) -> Result<(), BuiltinsError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(BuiltinsError::at(directory)(error));
        }
        _ => {}
    }
    let not_ours = |_| BuiltinsError::NotOurs(directory.to_path_buf());
    // O_PATH needs no permission: a umask may have taken the owner's away.
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(directory);
    let opened = opened.map_err(not_ours)?;
    let about = opened.metadata().map_err(BuiltinsError::at(directory))?;
    if about.uid() != user || about.mode() & 0o077 != 0 {
        return Err(BuiltinsError::NotOurs(directory.to_path_buf()));
    }
    if about.mode() & 0o700 == 0o700 {
        return Ok(());
    }
    // The very directory that was looked at, whatever has its name by now.
    let itself = format!("/proc/self/fd/{}", opened.as_raw_fd());
    fs::set_permissions(itself, Permissions::from_mode(0o700)).map_err(BuiltinsError::at(directory))
}

/// Whether a file is this user's own, and nobody else may write to it.
fn is_own(about: &Metadata) -> bool {
    about.uid() == rustix::process::getuid().as_raw() && about.mode() & 0o022 == 0
}

/// The content of a regular file of this user's own, if it is no longer than that. Whatever else has
/// its name is not waited for, not followed, and not read.
pub(super) fn read(path: &Path, most: usize) -> Option<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || !is_own(&about) || about.len() > most as u64 {
        return None;
    }
    let mut content = Vec::new();
    file.take(most as u64).read_to_end(&mut content).ok()?;
    Some(content)
}

/// Whether a file is this, byte for byte: what is damaged ends each shell that loads it.
pub(super) fn is_content(path: &Path, content: &[u8]) -> bool {
    read(path, content.len()).is_some_and(|there| there == content)
}

/// Sees that a file has this content. It is never written in place: a shell that reads it, or has it
/// mapped, at this moment has all of what was there.
pub(super) fn keep(path: &Path, content: &[u8]) -> Result<(), BuiltinsError> {
    if is_content(path, content) {
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let new = path.with_extension(format!("{}-{now}.new", std::process::id()));
    let kept = write_new(&new, content).and_then(|()| match fs::rename(&new, path) {
        // What has its name is a directory: it goes if nothing is in it.
        Err(_) if fs::remove_dir(path).is_ok() => fs::rename(&new, path),
        renamed => renamed,
    });
    kept.map_err(|error| {
        let _ = fs::remove_file(&new);
        BuiltinsError::at(path)(error)
    })
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    is_allowed(content.len())?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // Whatever the umask is.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(content)
}

/// A file that would be longer than `ulimit -f` allows ends who writes it, by SIGXFSZ.
pub(super) fn is_allowed(length: usize) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if (length as u64) > most => {
            Err(io::Error::other("it would be longer than a file may be (ulimit -f)"))
        }
        _ => Ok(()),
    }
}

const SEAL: &[u8] = b"# ";

/// A text with a line at its end that tells whether it is still that text.
pub(super) fn sealed(mut text: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&text);
    text.extend(SEAL);
    text.extend(format!("{sum:016x}\n").bytes());
    text
}

/// The text without that line, if it is still that text.
pub(super) fn unsealed(content: &[u8]) -> Option<&[u8]> {
    let at = content.len().checked_sub(SEAL.len() + 17)?;
    let text = &content[..at];
    (sealed(text.to_vec()) == content).then_some(text)
}

/// FNV-1a of 64 bits, as loadable/known.c has it, too: no one byte can change without it.
fn checksum(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Notes, by its time, that a directory is in use.
pub(super) fn note_use(directory: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    let _ = rustix::fs::utimensat(CWD, directory, &times, AtFlags::SYMLINK_NOFOLLOW);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_of_what_is_sealed_changes_unnoticed() {
        let whole = sealed(b"{\"seen\":\"1\"}\n".to_vec());
        assert_eq!(unsealed(&whole), Some(&b"{\"seen\":\"1\"}\n"[..]));
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert_eq!(unsealed(&other), None, "{at}");
            assert_eq!(unsealed(&whole[..at]), None, "{at}");
        }
    }

    /// Each waits for a writer, leads elsewhere, or has no content.
    #[test]
    fn what_is_no_file_of_ours_is_replaced_and_never_waited_for() {
        let scene = tempfile::tempdir().unwrap();
        let path = scene.path().join("programs");
        let elsewhere = scene.path().join("elsewhere");
        let makers: [&dyn Fn(); 4] = [
            &|| {
                rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
                    .unwrap()
            },
            &|| fs::create_dir(&path).unwrap(),
            &|| std::os::unix::fs::symlink(&elsewhere, &path).unwrap(),
            &|| {
                fs::write(&path, b"content").unwrap();
                fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
            },
        ];
        for make in makers {
            fs::write(&elsewhere, b"content").unwrap();
            make();
            assert!(!is_content(&path, b"content"));
            keep(&path, b"content").unwrap();
            assert!(is_content(&path, b"content"));
            assert_eq!(fs::metadata(&elsewhere).unwrap().len(), 7);
            fs::remove_file(&path).unwrap();
        }
        fs::create_dir(&path).unwrap();
        fs::write(path.join("of somebody"), b"").unwrap();
        assert!(keep(&path, b"content").is_err());
        assert_eq!(fs::read_dir(scene.path()).unwrap().count(), 2, "nothing is left behind");
    }
}
