//! What is asked for, as far as it is known without opening anything, and the names under which
//! ranks that ask for the same find each other: each file that a rank opens is a question to a
//! shared filesystem, times the ranks of all nodes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox::join::NamespaceId;
use sha2::{Digest, Sha256};

use super::error::{self, MountError, system};
use super::overlay::WritableOverlay;
use super::replaced;
use super::wanted::MountRequest;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct SharedMountRequest<'a> {
    pub wanted: &'a MountRequest,
    /// The image's file; none where there are only binds.
    pub image: Option<PathBuf>,
    /// The files of the others, in their order.
    pub beside: Vec<PathBuf>,
    /// The working directory.
    pub directory: PathBuf,
    /// The same for all ranks of this node and job that ask for the same, and see the same.
    pub name: String,
    /// The same for all of them, whatever namespaces they are in.
    pub request: String,
    /// The same for those with the same LD_LIBRARY_PATH; where it names relative directories, in the same
    /// working directory.
    pub library_path: String,
    /// What a whole root depends on besides: the working directory and the home, which are bound
    /// into it by default.
    pub around: String,
}

impl SharedMountRequest<'_> {
    /// Looks at the image's file and at overlays, and opens none.
    pub fn of(wanted: &MountRequest) -> Result<SharedMountRequest<'_>, MountError> {
        let directory = std::env::current_dir().map_err(system("tell the working directory"))?;
        SharedMountRequest::in_directory(wanted, directory)
    }

    /// The same where the working directory decides nothing: nothing is started.
    pub fn in_directory(
        wanted: &MountRequest,
        directory: PathBuf,
    ) -> Result<SharedMountRequest<'_>, MountError> {
        check_writers(wanted)?;
        let find = |image: &PathBuf| image.canonicalize().map_err(error::file(image, "find"));
        let image = wanted.image.as_ref().map(find).transpose()?;
        let beside = wanted.beside.iter().map(|image| find(&image.file));
        let beside = beside.collect::<Result<Vec<_>, _>>()?;
        let request = request(wanted, image.as_deref(), &beside)?;
        let namespaces = NamespaceId::all_own().map_err(system("read /proc/self/ns"))?;
        let root = identity(&look(Path::new("/"))?);
        let name = format!("becalm-{}", digest([request.clone(), format!("{namespaces:?}"), root]));
        let around = digest([format!("{directory:?} {:?}", std::env::var_os("HOME"))]);
        let library_path = library_path(wanted, &directory);
        Ok(SharedMountRequest {
            wanted,
            image,
            beside,
            directory,
            name,
            request,
            library_path,
            around,
        })
    }

    /// The name for ranks with the same working directory and home, if the image is a whole root
    /// and ranks with others came first.
    pub fn name_around(&self) -> String {
        format!("{}-{}", self.name, self.around)
    }

    /// A name for those that have something else in common besides.
    pub fn request_with(&self, other: String) -> String {
        digest([self.request.clone(), other])
    }
}

fn request(
    wanted: &MountRequest,
    image: Option<&Path>,
    beside: &[PathBuf],
) -> Result<String, MountError> {
    let mut parts = vec![
        env!("CARGO_PKG_VERSION").to_owned(),
        rustix::process::geteuid().as_raw().to_string(),
        job(),
        image.map(look).transpose()?.as_ref().map(identity).unwrap_or_default(),
        wanted.condition.as_ref().map(|condition| condition.of.clone()).unwrap_or_default(),
    ];
    for (file, image) in beside.iter().zip(&wanted.beside) {
        let at = image.at.as_ref().map(std::path::absolute).transpose();
        parts.push(format!("{} {:?}", identity(&look(file)?), at.map_err(system("find a place"))?));
    }
    for overlay in &wanted.overlays {
        let mode = if overlay.read_only { ":ro" } else { "" };
        parts.push(identity(&overlay.look()?) + mode);
    }
    let MountRequest { at, writable_tmpfs, binds, no_home, by, live, .. } = wanted;
    // A relative path is another one in another directory.
    let at = at.as_ref().map(std::path::absolute).transpose().map_err(system("find --at"))?;
    parts.push(format!("{at:?} {writable_tmpfs} {binds:?} {no_home} {by:?} {live}"));
    Ok(digest(parts))
}

/// Empty where there is none.
fn library_path(wanted: &MountRequest, directory: &Path) -> String {
    let Some(list) = &wanted.library_path else { return String::new() };
    let is_relative = replaced::entries(list).any(|entry| !entry.starts_with(b"/"));
    digest([format!("{list:?} {:?}", is_relative.then_some(directory))])
}

fn digest(parts: impl IntoIterator<Item = String>) -> String {
    let mut hash = Sha256::new();
    parts.into_iter().for_each(|part| hash.update(part + "\0"));
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn look(path: &Path) -> Result<fs::Metadata, MountError> {
    fs::metadata(path).map_err(error::file(path, "find"))
}

/// Which file it is, and which state of it.
fn identity(there: &fs::Metadata) -> String {
    let state = match there.is_dir() {
        // A directory's own time and size change with what is in it.
        true => [0; 5],
        false => [
            there.size() as i64,
            there.mtime(),
            there.mtime_nsec(),
            // Whoever writes into it may set the time of modification back, not this one.
            there.ctime(),
            there.ctime_nsec(),
        ],
    };
    format!("{} {} {state:?}", there.dev(), there.ino())
}

/// By which variables Slurm, PBS, LSF, Flux, Grid Engine and Fujitsu's name a job.
pub(crate) const JOBS: [&str; 7] = [
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "JOB_ID",
    "PJM_JOBID",
];

/// What ends together: a holder must not end with another job while ranks of this one live.
fn job() -> String {
    let of = |name: &&str| std::env::var(name).ok().map(|value| format!("{name}={value}"));
    let names: Vec<_> = JOBS.iter().filter_map(of).collect();
    match names.is_empty() {
        // A login session is a group of its own (systemd's logind).
        true => fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        false => names.join(" "),
    }
}

fn check_writers(wanted: &MountRequest) -> Result<(), MountError> {
    let mut writers = wanted.overlays.iter().filter(|overlay| !overlay.read_only);
    let first: Option<&WritableOverlay> = writers.next();
    let why = match (first, writers.next(), wanted.writable_tmpfs) {
        (Some(_), None, true) => "changes cannot go there and into memory (--writable-tmpfs)",
        (_, Some(_), _) => "changes can go to one place only: add :ro to the others",
        _ => return Ok(()),
    };
    let path = first.map(|overlay| overlay.path.clone()).unwrap_or_default();
    Err(MountError::Overlay { path, why: why.to_owned() })
}
