//! FUSE: images mounted by an ordinary process.

use std::ffi::CStr;
use std::fs::metadata;
use std::io::{Cursor, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::OFlags;
use rustix::mount::MountFlags;

use crate::answer::{MachineProbe, ProbeSubject, RefusedBy, Refuser};
use crate::child::{ProbeFailure, ProbeStop, ask};
use crate::host::Host;
use crate::probe::namespace;
use crate::sys::{enter_private_mounts, mount as mount_at, open};

const DEVICE: &str = "/dev/fuse";

/// The device can be opened.
pub(crate) fn device(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "fuse_device",
        title: DEVICE,
        used_for: "images and rehearsals without root, by FUSE",
    };
    match ask(|| open_device().map(|_| 1)) {
        Ok(_) => about.works("opened for reading and writing"),
        Err(failure) => not_opened(about, host, &failure),
    }
}

/// In a mount namespace, a FUSE filesystem can be mounted with the device's descriptor.
pub(crate) fn mount(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "fuse_mount",
        title: "FUSE mount",
        used_for: "images and rehearsals without fusermount",
    };
    match ask(mount_fuse) {
        Ok(0) => about.works("mounted, as root without a user namespace"),
        Ok(_) => about.works("mounted, inside a user namespace"),
        Err(failure) if failure.call() == OPEN => not_opened(about, host, &failure),
        Err(failure) => about.refused(&failure, namespace::refuser(host, &failure)),
    }
}

const OPEN: &str = "open(/dev/fuse)";
const MOUNT: &str = "mount(fuse)";

fn open_device() -> Result<OwnedFd, ProbeStop> {
    open(OPEN, c"/dev/fuse", OFlags::RDWR)
}

fn mount_fuse() -> Result<u64, ProbeStop> {
    // The device must be opened inside: the kernel compares its opener's user namespace.
    let inside = enter_private_mounts()?;
    let device = open_device()?;
    let mut options = Cursor::new([0; 80]);
    write!(options, "fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd())
        .map_err(|_| ProbeStop::last(MOUNT))?;
    let options =
        CStr::from_bytes_until_nul(options.get_ref()).map_err(|_| ProbeStop::last(MOUNT))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount_at(MOUNT, c"becalm-doctor", c"/", c"fuse", flags, options)?;
    Ok(u64::from(inside))
}

fn not_opened(about: ProbeSubject, host: &Host, failure: &ProbeFailure) -> MachineProbe {
    if let Some(refuser) = host.usual_refuser(failure, None) {
        return about.refused(failure, refuser);
    }
    match failure.errno() {
        Some(libc::ENOENT) => about.absent(
            "there is no /dev/fuse",
            "In a container, pass it in (--device /dev/fuse); else: modprobe fuse.",
        ),
        Some(libc::ENODEV | libc::ENXIO) => {
            about.absent("the kernel has no FUSE", "An administrator can load it: modprobe fuse.")
        }
        Some(libc::EACCES) => about.refused(
            failure,
            Refuser::new(
                RefusedBy::Permission,
                format!("the permissions of /dev/fuse{}", permissions()),
                "Where FUSE is installed the device is for everyone: chmod 666 /dev/fuse.",
            ),
        ),
        _ => about.refused(
            failure,
            Refuser::new(
                RefusedBy::Unknown,
                "the device rules of a container or service, most likely",
                "Pass the device in (--device /dev/fuse).",
            ),
        ),
    }
}

fn permissions() -> String {
    match metadata(DEVICE) {
        Ok(found) => format!(" (mode {:03o}, owner {})", found.mode() & 0o777, found.uid()),
        Err(_) => String::new(),
    }
}
