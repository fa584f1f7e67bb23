//! An image of a whole root, with what Singularity shows in one by default: /proc, /sys, /dev,
//! the home directory, /tmp, /var/tmp, the working directory, and who and where one is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sandbox::mounts::{self, PathHandle};

use super::beside;
use super::build::{BindSource, Build};
use super::error::{self, MountError};
use super::points::{self, MountPointKind};

/// Makes the image the root of all that the calling process sees.
pub(super) fn enter(build: &mut Build<'_>) -> Result<(), MountError> {
    let binds = build.sources()?;
    let directories = build.directories()?;
    let system = sources(["/proc", "/sys", "/dev"].map(PathBuf::from));
    let usual = sources(usual(build.plan.directory, build.plan.wanted.no_home));
    let host = sources(["/etc/hosts", "/etc/resolv.conf", "/etc/localtime"].map(PathBuf::from));
    let bound: Vec<&Path> =
        binds.iter().chain(&usual).map(|source| source.from.as_path()).collect();
    let stage = points::anywhere(&bound)?;
    // Below the image, and out of sight: what is written for it.
    mounts::tmpfs(&stage, "becalm")?;
    let notes = PathHandle::at(&stage).map_err(error::file(&stage, "open"))?;
    build.stack(&stage, directories)?;
    let accounts = ["passwd", "group"].map(|name| account(&stage, &notes, name));

    build.points.writable = build.plan.is_writable();
    // /proc comes first: through it lead the paths of all that is bound later.
    for source in system {
        let at = build
            .points
            .make(&stage.join(source.at.strip_prefix("/").unwrap_or(&source.at)), source.kind)?;
        mounts::bind(&source.place, &at, false)?;
    }
    build.points.become_root(&stage)?;
    build.bind(usual)?;
    beside::into_root(build)?;
    // Files that the image does not have are not missed.
    let files = host.into_iter().chain(accounts.into_iter().flatten());
    build.bind(files.filter(|source| source.at.is_file()).collect())?;
    build.bind(binds)?;
    leave_mark(&build.mark)
}

/// Has the mark seen from the new root, from which the one below the image is not. It lies below
/// /dev, which is there always.
fn leave_mark(mark: &str) -> Result<(), MountError> {
    let at = Path::new("/dev");
    let devices = PathHandle::at(at).map_err(error::file(at, "open"))?;
    mounts::tmpfs(at, mark)?;
    mounts::bind(&devices, at, false)?;
    // What is mounted on the devices comes with them, and the mark is by now: its copy would hide them.
    Ok(mounts::take_away(at)?)
}

/// Those of these paths that are there.
fn sources(paths: impl IntoIterator<Item = PathBuf>) -> Vec<BindSource> {
    let open = |path: PathBuf| {
        let place = PathHandle::at(&path).ok()?;
        let kind =
            if place.is_dir().ok()? { MountPointKind::Directory } else { MountPointKind::File };
        Some(BindSource { place, kind, from: path.clone(), at: path, read_only: false })
    };
    paths.into_iter().filter_map(open).collect()
}

/// Home, temporary directories, and the working directory where it is in none of them.
fn usual(directory: &Path, no_home: bool) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").filter(|_| !no_home).map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute() && home.parent().is_some());
    let mut paths: Vec<_> = home.into_iter().collect();
    paths.extend(["/tmp", "/var/tmp"].map(PathBuf::from));
    let is_shown = |paths: &[PathBuf]| paths.iter().any(|shown| directory.starts_with(shown));
    // System directories are the image's own.
    let own = ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"];
    let is_own = own.iter().any(|own| directory.starts_with(own)) || directory.parent().is_none();
    if !is_shown(&paths) && !is_own {
        paths.push(directory.to_owned());
    }
    // What lies in another of them is seen with it.
    paths.sort();
    paths.dedup_by(|later, earlier| later.starts_with(earlier));
    paths
}

/// The image's passwd or group with the user's line, where the image has the file and not the
/// line.
fn account(stage: &Path, notes: &PathHandle, name: &str) -> Option<BindSource> {
    let text = fs::read_to_string(stage.join("etc").join(name)).ok()?;
    let id = match name {
        "passwd" => rustix::process::getuid().as_raw(),
        _ => rustix::process::getgid().as_raw(),
    };
    let line_of = |text: &str| {
        let is_mine = |line: &&str| line.split(':').nth(2) == Some(id.to_string().as_str());
        text.lines().find(is_mine).map(str::to_owned)
    };
    if line_of(&text).is_some() {
        return None;
    }
    let here = fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
    let home = std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
    let user = std::env::var("USER").unwrap_or_else(|_| format!("user{id}"));
    let line = line_of(&here).unwrap_or_else(|| match name {
        "passwd" => format!("{user}:x:{id}:{}::{home}:/bin/sh", rustix::process::getgid().as_raw()),
        _ => format!("{user}:x:{id}:"),
    });
    let write = || -> io::Result<PathHandle> {
        let path = notes.path().join(name);
        let mut file = File::create(&path)?;
        writeln!(file, "{}\n{line}", text.trim_end())?;
        PathHandle::at(&path)
    };
    let at = Path::new("/etc").join(name);
    Some(BindSource {
        place: write().ok()?,
        kind: MountPointKind::File,
        from: at.clone(),
        at,
        read_only: false,
    })
}
