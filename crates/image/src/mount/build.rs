//! The mounts, made by the first rank.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use sandbox::Loopback;
use sandbox::mounts::{self, PathHandle};
use sandbox::namespace::{self, FuseMount, NamespaceError, NamespaceKind};

use super::beside::{self, BesideImage};
use super::door::{self, DoorMessage};
use super::error::{self, MountError, no_means, system};
use super::fresh::{self, UntracedLook};
use super::holder::{self, HeldImage, Holder};
use super::launched::RankOfLaunch;
use super::live;
use super::overlay::{self, OverlayForm};
use super::plan::{MountPlan, MountTarget};
use super::points::{self, MountPointKind, Points};
use super::replaced;
use super::root;
use super::wanted::{Bind, MountMethod};

/// Makes the mounts and starts the holder. The calling process sees them.
pub(super) fn first(
    plan: &MountPlan<'_>,
    door: Option<UnixListener>,
) -> Result<HeldImage, MountError> {
    let untraced = UntracedLook::of(plan.wanted);
    let (live, compared) = match plan.wanted.live {
        true => {
            let found = fresh::changes(plan, untraced)?;
            (live::directories(&found, plan), found.compared)
        }
        false => (Vec::new(), fresh::check(plan, untraced)?),
    };
    let mark = mark()?;
    let mut held = HeldImage {
        image: plan.image.to_owned(),
        beside: plan.beside.iter().map(BesideImage::mounts).collect(),
        over: plan.over(),
        around: plan.is_root().then(|| plan.around.to_owned()),
        by_kernel: false,
        hot: plan.hot_part(),
        live: live.clone(),
        checked: plan.wanted.freshness,
        checked_at: holder::since_start(),
        library_path: plan.library_path.to_owned(),
        checked_by: RankOfLaunch::own(),
        looked_up: Vec::new(),
        compared,
    };
    let line = start_holder(plan, door, &mark, &held)?;
    said(&line, plan)?;
    let means = namespace::own_mounts().map_err(|error| no_means(plan, error))?;
    let mut build = Build {
        plan,
        means,
        line,
        mark,
        points: Points::default(),
        mounted: 0,
        beside: Vec::new(),
        by: MountMethod::Fuse,
        live,
    };
    match &plan.place {
        MountTarget::Over(_) if !plan.beside.is_empty() => beside::over(&mut build)?,
        MountTarget::Over(paths) => build.over(paths)?,
        MountTarget::Root => root::enter(&mut build)?,
    }
    build.points.done()?;
    super::back_to(plan.directory, plan.is_root())?;
    replaced::check(plan)?;
    let own = File::open("/proc/self/ns/mnt").map_err(system("open the own mounts"))?;
    door::send(&build.line, holder::READY, "", &[own.as_fd()])
        .map_err(system("tell the holder"))?;
    said(&build.line, plan)?;
    held.by_kernel = build.by == MountMethod::Kernel;
    Ok(held)
}

/// A word that no other mounts have.
fn mark() -> Result<String, MountError> {
    let path = "/proc/sys/kernel/random/uuid";
    let random = fs::read_to_string(path).map_err(error::file(path, "read"))?;
    Ok(format!("becalm-{}", random.trim()))
}

fn start_holder(
    plan: &MountPlan<'_>,
    door: Option<UnixListener>,
    mark: &str,
    held: &HeldImage,
) -> Result<UnixStream, MountError> {
    let failed = || system("start the image's holder");
    let (line, theirs) = UnixStream::pair().map_err(failed())?;
    let holder = Holder {
        line: theirs,
        door,
        images: &plan.squashes(),
        overlays: &plan.overlays,
        first: std::process::id() as i32,
        mark,
        held,
    };
    holder.start().map_err(failed())?;
    Ok(line)
}

/// Waits for the holder's word.
fn said(line: &UnixStream, plan: &MountPlan<'_>) -> Result<(), MountError> {
    let gone = |why: String| MountError::Holder { pid: 0, why };
    match door::receive(line).map_err(|error| gone(error.to_string()))? {
        Some(DoorMessage { tag: holder::DONE, .. }) => Ok(()),
        Some(DoorMessage { tag: holder::IN_USE, text, .. }) => {
            let (index, why) = text.split_once(' ').unwrap_or_default();
            let overlay = index.parse::<usize>().ok().and_then(|index| plan.overlays.get(index));
            let path = overlay.map(|overlay| overlay.wanted.path.clone()).unwrap_or_default();
            Err(MountError::Overlay { path, why: why.to_owned() })
        }
        Some(DoorMessage { text, .. }) => Err(gone(text)),
        None => Err(gone("has ended too early".to_owned())),
    }
}

/// The work of the first rank.
pub(super) struct Build<'a> {
    pub plan: &'a MountPlan<'a>,
    pub means: NamespaceKind,
    line: UnixStream,
    pub points: Points,
    /// The source of a mount that no other mounts have.
    pub mark: String,
    /// How many mounts are stacked.
    pub mounted: usize,
    /// The other images, whole.
    pub beside: Vec<PathHandle>,
    /// What mounts the image.
    by: MountMethod,
    /// Directories that are shown from their source.
    pub live: Vec<PathBuf>,
}

/// A bind, its source opened before anything is mounted over it.
pub(super) struct BindSource {
    pub place: PathHandle,
    pub kind: MountPointKind,
    pub from: PathBuf,
    pub at: PathBuf,
    pub read_only: bool,
}

impl Build<'_> {
    /// The image over the paths that it was made of.
    fn over(&mut self, paths: &[(PathBuf, PathBuf)]) -> Result<(), MountError> {
        let sources = self.sources()?;
        let upper = self.directories()?;
        let changed = live::open(self.plan.layers.first(), &self.live, paths)?;
        let mut targets = Vec::new();
        for (path, inner) in paths {
            let is_dir = self.plan.layers[0].is_dir(inner);
            let kind = if is_dir { MountPointKind::Directory } else { MountPointKind::File };
            targets.push((self.points.make(path, kind)?, inner));
        }
        let directory = targets.iter().map(|(path, _)| path).find(|path| path.is_dir());
        let stage = match directory {
            Some(path) => path.clone(),
            None => points::anywhere(&[])?,
        };
        let covered = match directory {
            Some(_) => None,
            None => Some(PathHandle::at(&stage).map_err(error::file(&stage, "open"))?),
        };
        self.stack(&stage, upper)?;
        if let [(path, inner)] = &targets[..]
            && inner.as_path() == Path::new("/")
        {
            debug_assert_eq!(path, &stage);
        } else {
            let whole = PathHandle::at(&stage).map_err(error::file(&stage, "open"))?;
            for (path, inner) in targets {
                let inner = inner.strip_prefix("/").unwrap_or(inner);
                let part = PathHandle::at(&whole.path().join(inner));
                let part = part.map_err(error::file(inner, "find in the image"))?;
                mounts::bind(&part, &path, false)?;
            }
            // What was there is to be seen again, without the copy of the mark that comes with it.
            if let Some(before) = covered {
                (1..self.mounted).try_for_each(|_| mounts::take_away(&stage))?;
                mounts::bind(&before, &stage, false)?;
                mounts::take_away(&stage)?;
            }
        }
        live::lay(&self.live, &changed)?;
        self.bind(sources)
    }

    /// Opens what is to be bound.
    pub fn sources(&self) -> Result<Vec<BindSource>, MountError> {
        let open = |bind: &Bind| -> Result<BindSource, MountError> {
            let wrong = |error: std::io::Error| MountError::Bind {
                path: bind.from.clone(),
                why: error.to_string(),
            };
            let place = PathHandle::at(&bind.from).map_err(wrong)?;
            let is_dir = place.is_dir().map_err(wrong)?;
            let kind = if is_dir { MountPointKind::Directory } else { MountPointKind::File };
            let Bind { from, at, read_only } = bind.clone();
            Ok(BindSource { place, kind, from, at, read_only })
        };
        self.plan.wanted.binds.iter().map(open).collect()
    }

    pub fn bind(&mut self, sources: Vec<BindSource>) -> Result<(), MountError> {
        for source in sources {
            let at = self.points.make(&source.at, source.kind)?;
            mounts::bind(&source.place, &at, source.read_only)?;
        }
        Ok(())
    }

    /// The directories of overlays, opened before anything is mounted over them: what is only seen,
    /// and what is written to with its work directory.
    pub fn directories(&self) -> Result<OverlayDirectories, MountError> {
        let mut directories = OverlayDirectories { lower: Vec::new(), upper: None };
        for overlay in self.plan.overlays.iter().filter(|one| one.form == OverlayForm::Directory) {
            let path = &overlay.wanted.path;
            let open = |name: &str| {
                let path = path.join(name);
                PathHandle::at(&path).map_err(error::file(path, "open"))
            };
            match overlay.wanted.read_only {
                false => directories.upper = Some((open("upper")?, open("work")?)),
                true if path.join("upper").is_dir() => directories.lower.push(open("upper")?),
                true => directories.lower.push(open("")?),
            }
        }
        Ok(directories)
    }

    /// Mounts images and overlays at a directory, one over the other, until it shows all of them as
    /// one. What is below is hidden by what is above, and needs no other place.
    pub fn stack(
        &mut self,
        stage: &Path,
        directories: OverlayDirectories,
    ) -> Result<(), MountError> {
        // Below all: by it the holder tells these mounts from others of the same number.
        mounts::tmpfs(stage, &self.mark)?;
        self.mounted += 1;
        let (mut lower, devices) = self.images(stage)?;
        self.beside = lower.drain(..self.plan.beside.len()).collect();
        let all_mine = match self.means {
            NamespaceKind::UserNamespace => holder::ALL_MINE,
            NamespaceKind::Privileged => "",
        };
        let devices: Vec<_> = devices.iter().map(AsFd::as_fd).collect();
        door::send(&self.line, holder::DEVICES, all_mine, &devices)
            .map_err(system("hand the image to its holder"))?;
        said(&self.line, self.plan)?;
        let mut upper = directories.upper;
        lower.extend(directories.lower);
        self.ext(stage, &mut lower, &mut upper)?;
        if self.plan.wanted.writable_tmpfs {
            upper = Some(overlay::in_memory(stage, &lower[0])?);
            self.mounted += 1;
        }
        if lower.len() < 2 && upper.is_none() {
            return Ok(());
        }
        let topmost_first: Vec<&PathHandle> = lower.iter().rev().collect();
        let upper = upper.as_ref().map(|(upper, work)| (upper, work));
        let done = mounts::overlay(&topmost_first, upper, stage, self.means);
        self.mounted += 1;
        done.map_err(|error| self.why_no_overlay(error))
    }

    /// Whether the kernel is to mount the images. It would read all from the image's own file, and ask
    /// nobody whether what is looked up is as it was.
    fn is_for_kernel(&self) -> bool {
        let layers = self.plan.squashes();
        match self.plan.wanted.by {
            Some(by) => by == MountMethod::Kernel,
            None if !fresh::door_to_fuse_is_there() => true,
            None => layers.iter().all(|layer| layer.hot.is_none() && layer.untraced().is_none()),
        }
    }

    /// The squashfs images, the lowest first, each at the same place, and the devices of those
    /// that the holder is to serve.
    fn images(&mut self, stage: &Path) -> Result<(Vec<PathHandle>, Vec<OwnedFd>), MountError> {
        let (mut places, mut devices) = (Vec::new(), Vec::new());
        let mut by_kernel = self.means == NamespaceKind::Privileged && self.is_for_kernel();
        for image in &self.plan.squashes() {
            if by_kernel {
                let mounted = Loopback::attach(&image.file, image.offset, image.size, true)
                    .map_err(error::file("/dev/loop-control", "make a loop device"))
                    .and_then(|device| Ok(mounts::device(device.path(), "squashfs", stage, true)?));
                match mounted {
                    Err(error) if self.plan.wanted.by == Some(MountMethod::Kernel) => {
                        return Err(error);
                    }
                    // A container without loop devices, a kernel without squashfs or zstd.
                    Err(_) => by_kernel = false,
                    Ok(()) => {}
                }
            } else if self.plan.wanted.by == Some(MountMethod::Kernel) {
                let why = "only root can have the kernel mount it: leave out --by kernel";
                return Err(MountError::Image {
                    path: self.plan.image.to_owned(),
                    why: why.into(),
                });
            }
            if !by_kernel {
                devices.push(self.fuse(stage)?);
            }
            self.mounted += 1;
            places.push(PathHandle::at(stage).map_err(error::file(stage, "open"))?);
        }
        self.by = if by_kernel { MountMethod::Kernel } else { MountMethod::Fuse };
        Ok((places, devices))
    }

    fn fuse(&self, stage: &Path) -> Result<OwnedFd, MountError> {
        let device = namespace::fuse_device().map_err(|error| no_means(self.plan, error))?;
        let options = FuseMount {
            source: "becalm",
            subtype: "becalm-image",
            check_permissions: true,
            flags: libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV,
        };
        namespace::mount_fuse(device.as_fd(), stage, &options)?;
        Ok(device)
    }

    /// ext3 images that are not served: the kernel mounts them, for root.
    fn ext(
        &mut self,
        stage: &Path,
        lower: &mut Vec<PathHandle>,
        upper: &mut Option<(PathHandle, PathHandle)>,
    ) -> Result<(), MountError> {
        let given = self.plan.overlays.iter();
        let given = given.filter(|it| it.form == OverlayForm::Ext && !it.is_served());
        let given = given.map(|overlay| {
            let path = overlay.wanted.path.as_path();
            (path, &overlay.file, 0, 0, overlay.wanted.read_only)
        });
        let parts = self.plan.partitions.iter();
        let parts = parts.map(|(file, offset, size)| (self.plan.image, file, *offset, *size, true));
        for (path, file, offset, size, read_only) in parts.chain(given) {
            let refused = |why: String| MountError::Overlay { path: path.to_owned(), why };
            if self.means != NamespaceKind::Privileged {
                return Err(refused(
                    "only root can have the kernel mount an ext3 image, and so write to one: give a \
                     directory instead (mkdir DIR; --overlay DIR), or look only, with :ro"
                        .to_owned(),
                ));
            }
            let device = Loopback::attach(file, offset, size, read_only)
                .map_err(error::file("/dev/loop-control", "make a loop device"))?;
            mounts::device(device.path(), "ext4", stage, read_only).map_err(|error| {
                // The kernel would have to write to it first (fs/ext4/super.c).
                refused(format!(
                    "{error}; where it was not unmounted cleanly, e2fsck -p puts that right"
                ))
            })?;
            self.mounted += 1;
            let open = |name: &str| {
                let path = stage.join(name);
                PathHandle::at(&path).map_err(|error| refused(format!("{name}: {error}")))
            };
            match read_only {
                true if stage.join("upper").is_dir() => lower.push(open("upper")?),
                true => lower.push(open("")?),
                false => *upper = Some((open("upper")?, open("work")?)),
            }
        }
        Ok(())
    }

    /// What the kernel's EINVAL for an overlay means.
    fn why_no_overlay(&self, error: NamespaceError) -> MountError {
        let mut writers = self.plan.overlays.iter().filter(|one| !one.wanted.read_only);
        let kind = |path: &Path| {
            rustix::fs::statfs(path).map(|stat| stat.f_type as u64).unwrap_or_default()
        };
        match writers.next() {
            Some(overlay) => MountError::Overlay {
                path: overlay.wanted.path.clone(),
                why: format!(
                    "{error}: its directories must be on a local filesystem (ext4, xfs, tmpfs; this \
                     is {:#x}), and the kernel at least 5.11",
                    kind(&overlay.wanted.path)
                ),
            },
            None => error.into(),
        }
    }
}

/// Directories of overlays.
pub(super) struct OverlayDirectories {
    lower: Vec<PathHandle>,
    upper: Option<(PathHandle, PathHandle)>,
}
