//! What is asked for, looked at: which images, over which paths, and the name under which ranks
//! that ask for the same find each other.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use launch::join::NamespaceId;
use sha2::{Digest, Sha256};

use super::error::{self, MountError, system};
use super::layer::Layer;
use super::overlay::{Form, Opened};
use super::wanted::Wanted;
use crate::sif::{Filesystem, Sif};

/// Where the image goes.
#[derive(Debug)]
pub(super) enum Where {
    /// Over these paths: where it is, and where that lies in the image.
    Over(Vec<(PathBuf, PathBuf)>),
    /// It is all there is.
    Root,
}

/// All that is known before anything is changed.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub wanted: &'a Wanted,
    /// The image's file.
    pub image: PathBuf,
    /// Images, the lowest first.
    pub layers: Vec<Layer>,
    /// Partitions of a SIF that hold an ext3: (file, offset, size), seen by root only.
    pub partitions: Vec<(File, u64, u64)>,
    pub overlays: Vec<Opened>,
    pub place: Where,
    /// The working folder.
    pub folder: PathBuf,
    /// The same for all ranks of this node and job that ask for the same.
    pub name: String,
}

impl Plan<'_> {
    pub fn of(wanted: &Wanted) -> Result<Plan<'_>, MountError> {
        let path = &wanted.image;
        let image = path.canonicalize().map_err(error::file(path, "find"))?;
        let (layers, partitions, is_sif) = layers(&image)?;
        let mut overlays = Vec::new();
        for overlay in &wanted.overlays {
            overlays.push(Opened::of(overlay)?);
        }
        check_writers(&overlays, wanted)?;
        let place = place(&image, &layers[0], wanted, is_sif)?;
        let mut plan = Plan {
            wanted,
            layers,
            partitions,
            overlays,
            place,
            folder: std::env::current_dir().map_err(system("tell the working folder"))?,
            name: String::new(),
            image,
        };
        plan.name = plan.name()?;
        plan.add_squash_overlays()?;
        Ok(plan)
    }

    pub fn is_root(&self) -> bool {
        matches!(self.place, Where::Root)
    }

    /// Whether the command can write over the image.
    pub fn is_writable(&self) -> bool {
        self.wanted.writable_tmpfs || self.overlays.iter().any(|one| !one.wanted.read_only)
    }

    /// Squashfs overlays are served as the image is.
    fn add_squash_overlays(&mut self) -> Result<(), MountError> {
        for overlay in self.overlays.iter().filter(|overlay| overlay.form == Form::Squash) {
            let path = &overlay.wanted.path;
            let file = overlay.file.try_clone().map_err(error::file(path, "open"))?;
            self.layers.push(Layer::open(path, file, None)?);
        }
        Ok(())
    }

    fn name(&self) -> Result<String, MountError> {
        let mut hash = Sha256::new();
        let mut add = |text: String| hash.update(text + "\0");
        add(env!("CARGO_PKG_VERSION").to_owned());
        add(rustix::process::geteuid().as_raw().to_string());
        add(format!("{:?}", NamespaceId::all_own().map_err(system("read /proc/self/ns"))?));
        add(identity(Path::new("/"))?);
        add(job());
        add(identity(&self.image)?);
        for overlay in &self.overlays {
            add(identity(&overlay.wanted.path)? + if overlay.wanted.read_only { ":ro" } else { "" });
        }
        let Wanted { at, writable_tmpfs, binds, by, .. } = self.wanted;
        add(format!("{at:?} {writable_tmpfs} {binds:?} {by:?} {:?}", self.place));
        if self.is_root() {
            // What is bound into it by default.
            add(format!("{:?} {:?}", self.folder, std::env::var_os("HOME")));
        }
        let hash = hash.finalize();
        let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("becalm-{hash}"))
    }
}

/// Which file it is, and which state of it.
fn identity(path: &Path) -> Result<String, MountError> {
    let there = fs::metadata(path).map_err(error::file(path, "find"))?;
    let state = match there.is_dir() {
        // A folder's own time and size change with what is in it.
        true => (0, 0, 0),
        false => (there.len(), there.mtime(), there.mtime_nsec()),
    };
    Ok(format!("{} {} {state:?}", there.dev(), there.ino()))
}

/// What ends together: a holder must not end with another job while ranks of this one live.
fn job() -> String {
    // Slurm, PBS, LSF, Flux, Grid Engine, Fujitsu's.
    const JOBS: [&str; 7] = [
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "PBS_JOBID",
        "LSB_JOBID",
        "FLUX_JOB_ID",
        "JOB_ID",
        "PJM_JOBID",
    ];
    let of = |name: &&str| std::env::var(name).ok().map(|value| format!("{name}={value}"));
    let names: Vec<_> = JOBS.iter().filter_map(of).collect();
    match names.is_empty() {
        // A login session is a group of its own (systemd's logind).
        true => fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        false => names.join(" "),
    }
}

/// The images in a file, the lowest first; those that only root can mount; whether it is a SIF.
#[expect(clippy::type_complexity, reason = "three answers to one question")]
fn layers(path: &Path) -> Result<(Vec<Layer>, Vec<(File, u64, u64)>, bool), MountError> {
    let open = || File::open(path).map_err(error::file(path, "open"));
    let file = open()?;
    if !Sif::is_in(&file).map_err(error::file(path, "read"))? {
        return Ok((vec![Layer::open(path, file, None)?], Vec::new(), false));
    }
    let wrong = |why: String| MountError::Image { path: path.to_owned(), why };
    let sif = Sif::read(&file).map_err(|error| wrong(error.to_string()))?;
    let root = sif.primary().ok_or_else(|| wrong("this SIF has no root partition".to_owned()))?;
    let mut layers = Vec::new();
    let mut partitions = Vec::new();
    for object in [root].into_iter().chain(sif.overlays()) {
        let Some(partition) = &object.partition else { continue };
        match partition.filesystem {
            Filesystem::Squashfs => {
                layers.push(Layer::open(path, open()?, Some((object.offset, object.size)))?);
            }
            Filesystem::Ext3 if object.id != root.id => {
                partitions.push((open()?, object.offset, object.size));
            }
            other => return Err(wrong(format!("its partition {} is {other:?}", object.id))),
        }
    }
    Ok((layers, partitions, true))
}

fn check_writers(overlays: &[Opened], wanted: &Wanted) -> Result<(), MountError> {
    let mut writers = overlays.iter().filter(|overlay| !overlay.wanted.read_only);
    let first = writers.next();
    let why = match (first, writers.next(), wanted.writable_tmpfs) {
        (Some(_), None, true) => "changes cannot go there and into memory (--writable-tmpfs)",
        (_, Some(_), _) => "changes can go to one place only: add :ro to the others",
        _ => return Ok(()),
    };
    let path = first.map(|overlay| overlay.wanted.path.clone()).unwrap_or_default();
    Err(MountError::Overlay { path, why: why.to_owned() })
}

fn place(path: &Path, image: &Layer, wanted: &Wanted, is_sif: bool) -> Result<Where, MountError> {
    let root = Path::new("/");
    if let Some(at) = &wanted.at {
        let at = std::path::absolute(at).map_err(error::file(at, "find"))?;
        return Ok(if at == root { Where::Root } else { Where::Over(vec![(at, root.into())]) });
    }
    if is_sif {
        return Ok(Where::Root);
    }
    if let Some(manifest) = image.manifest() {
        let layout = &manifest.layout;
        let inside = |path: &PathBuf| {
            let inner = path.strip_prefix(layout.base()).unwrap_or(path);
            (path.clone(), root.join(inner))
        };
        return match layout.paths() {
            [only] if only == root => Ok(Where::Root),
            paths => Ok(Where::Over(paths.iter().map(inside).collect())),
        };
    }
    // Somebody else's: a whole root looks like one.
    match ["bin", "etc", "usr"].iter().all(|name| image.has(name)) {
        true => Ok(Where::Root),
        false => Err(MountError::Nowhere(path.to_owned())),
    }
}
