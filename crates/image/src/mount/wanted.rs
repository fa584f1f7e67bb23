//! What is asked for.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::overlay::WritableOverlay;

/// How a command is to see an image, or files in the place of others.
#[derive(Clone, Debug, Default)]
pub struct MountRequest {
    /// A squashfs, or a SIF; none: only binds.
    pub image: Option<PathBuf>,
    /// Where it is mounted; none: where it says that it belongs. `/`: it is a whole root.
    pub at: Option<PathBuf>,
    /// Other images, each at its own place, seen together with that one.
    pub beside: Vec<PlacedImage>,
    /// What lies on top of it; the last one uppermost.
    pub overlays: Vec<WritableOverlay>,
    /// Changes go into memory, and are gone with the last rank.
    pub writable_tmpfs: bool,
    /// What will be run, where that is known: what another command asks for than the traced one is
    /// not fetched before it does.
    pub command: Vec<OsString>,
    /// What else is seen, and where.
    pub binds: Vec<Bind>,
    /// A whole root does not have the user's home, unless the working directory lies in it.
    pub no_home: bool,
    /// Mounted by what; none: by the best there is.
    pub by: Option<MountMethod>,
    /// How closely its sources are compared with it before.
    pub freshness: Freshness,
    /// Directories that have changed since are shown as they are now, rather than to refuse.
    pub live: bool,
    /// The command's LD_LIBRARY_PATH, where it is known and has one.
    pub library_path: Option<OsString>,
    /// What else must hold.
    pub condition: Option<MountCondition>,
}

/// An image, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedImage {
    /// A squashfs, or a SIF.
    pub file: PathBuf,
    /// Where it is mounted; none: where it says that it belongs. `/`: it is a whole root.
    pub at: Option<PathBuf>,
}

impl PlacedImage {
    /// From `FILE` or `FILE:/PLACE`, as squashfs-mount and uenv take it. The longest name of a file
    /// that is there is meant; where none is, all before the last `:/`.
    ///
    /// # Errors
    /// What is wrong with the place.
    pub fn parse(text: &OsStr) -> Result<PlacedImage, String> {
        let bytes = text.as_bytes();
        let part = |bytes| PathBuf::from(OsStr::from_bytes(bytes));
        let there = |file: &Path| file.exists() && !file.is_dir();
        let whole = PlacedImage { file: text.into(), at: None };
        if Path::new(text).exists() {
            return Ok(whole);
        }
        let named = (1..bytes.len())
            .rev()
            .filter(|at| bytes[*at] == b':')
            .find(|colon| there(&part(&bytes[..*colon])));
        let absolute = bytes.windows(2).rposition(|two| two == b":/");
        let Some(colon) = named.or(absolute).filter(|colon| *colon > 0) else {
            return Ok(whole);
        };
        let (file, at) = (part(&bytes[..colon]), part(&bytes[colon + 1..]));
        match at.is_absolute() {
            true => Ok(PlacedImage { file, at: Some(at) }),
            false => Err(format!(
                "{}: {:?} is no absolute path: give FILE:/PLACE",
                text.display(),
                at.display()
            )),
        }
    }
}

/// What must hold before anything is mounted, beside that the image is as its sources are. It is
/// looked at as often as those: once a node and job.
#[derive(Clone)]
pub struct MountCondition {
    /// What it is a condition of: ranks with another one do not share their mounts.
    pub of: String,
    /// Says in one line what does not hold.
    pub holds: Arc<dyn Fn(Freshness) -> Result<(), String> + Send + Sync>,
}

impl fmt::Debug for MountCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MountCondition").field(&self.of).finish()
    }
}

/// What mounts an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountMethod {
    /// The kernel's squashfs, over a loop device: root only.
    Kernel,
    /// The holder, through FUSE.
    Fuse,
}

/// How closely an image's sources are compared with it, where they are there; the closest last.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum Freshness {
    /// Not at all.
    No,
    /// The times of all directories, and of the files that the trace opened; of another file, when
    /// it is looked up.
    #[default]
    Quick,
    /// Every file.
    Full,
}

/// A file or directory that is seen at another path too, as Singularity's `--bind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// What.
    pub from: PathBuf,
    /// Where.
    pub at: PathBuf,
    /// Cannot be written to there.
    pub read_only: bool,
}

impl Bind {
    /// From `SRC`, `SRC:DST` or `SRC:DST:ro`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &OsStr) -> Result<Bind, String> {
        let mut parts = text.as_bytes().split(|byte| *byte == b':');
        let mut next = || parts.next().map(OsStr::from_bytes);
        let (from, at, how, more) = (next().unwrap_or_default(), next(), next(), next());
        let read_only = match (how.map(OsStr::as_bytes), more) {
            (None | Some(b"rw"), None) => false,
            (Some(b"ro"), None) => true,
            _ => return Err("give SRC, SRC:DST or SRC:DST:ro".to_owned()),
        };
        let from = std::path::absolute(from).map_err(|error| error.to_string())?;
        let at = at.filter(|at| !at.is_empty()).map_or(from.clone(), PathBuf::from);
        match at.is_absolute() && at != Path::new("/") {
            true => Ok(Bind { from, at, read_only }),
            false => Err(format!("{}: give an absolute path other than /", at.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_may_have_a_place_and_a_colon_in_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let odd = directory.path().join("env:");
        std::fs::create_dir(&odd).unwrap();
        std::fs::write(odd.join("a.sqsh"), "").unwrap();
        let odd = odd.join("a.sqsh");
        let parse = |text: &str| {
            let PlacedImage { file, at } = PlacedImage::parse(OsStr::new(text)).unwrap();
            (file.display().to_string(), at.map(|at| at.display().to_string()))
        };
        let place = |at: &str| Some(at.to_owned());
        assert_eq!(parse("a.sqsh"), ("a.sqsh".into(), None));
        assert_eq!(parse("a.sqsh:/opt/a"), ("a.sqsh".into(), place("/opt/a")));
        assert_eq!(parse("a:b.sqsh:/"), ("a:b.sqsh".into(), place("/")));
        assert_eq!(parse("a:b.sqsh"), ("a:b.sqsh".into(), None));
        assert_eq!(parse(":/a"), (":/a".into(), None));
        let odd = odd.display().to_string();
        assert_eq!(parse(&odd), (odd.clone(), None));
        assert_eq!(parse(&format!("{odd}:/x")), (odd.clone(), place("/x")));
        let wrong = PlacedImage::parse(OsStr::new(&format!("{odd}:rel"))).unwrap_err();
        assert!(wrong.contains("no absolute path"), "{wrong}");
    }

    #[test]
    fn a_bind_has_a_source_a_place_and_a_mode() {
        let parse = |text: &str| Bind::parse(OsStr::new(text));
        let bind = |from: &str, at: &str, read_only| {
            Ok(Bind { from: from.into(), at: at.into(), read_only })
        };
        assert_eq!(parse("/a"), bind("/a", "/a", false));
        assert_eq!(parse("/a:/b"), bind("/a", "/b", false));
        assert_eq!(parse("/a:/b:ro"), bind("/a", "/b", true));
        assert_eq!(parse("/a::ro"), bind("/a", "/a", true));
        for wrong in ["", "/a:b", "/a:/", "/a:/b:rx", "/a:/b:ro:ro"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
