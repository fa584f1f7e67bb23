//! User and mount namespaces: a mount of one's own, without root.

use rustix::mount::MountFlags;

use crate::answer::{MachineProbe, ProbeSubject, RefusedBy, Refuser};
use crate::child::{ProbeFailure, ProbeStop, ask};
use crate::host::{Host, Nonsense, sysctl};
use crate::sys::{
    MAKE_PRIVATE, become_root_of_a_user_namespace, checked, enter_private_mounts,
    mount as mount_at, unshare,
};

/// A child can become root of a user namespace of its own.
pub(crate) fn user(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "user_namespace",
        title: "user namespace",
        used_for: "mounts of one's own, without root",
    };
    match ask(|| become_root_of_a_user_namespace().map(|()| 1)) {
        Ok(_) => about.works("unshared, and its uid and gid maps written"),
        Err(failure) => about.refused(&failure, refuser(host, &failure)),
    }
}

/// Inside it (or as root), a child can mount a tmpfs that nobody else sees.
pub(crate) fn mount(host: &Host) -> MachineProbe {
    let about = ProbeSubject {
        name: "mount_namespace",
        title: "mount namespace",
        used_for: "an image over its own path, for one command",
    };
    let question = || {
        let inside = enter_private_mounts()?;
        mount_at("mount(tmpfs)", c"tmpfs", c"/", c"tmpfs", MountFlags::empty(), c"")?;
        Ok(u64::from(inside))
    };
    match ask(question) {
        Ok(0) => about.works("a tmpfs was mounted, as root without a user namespace"),
        Ok(_) => about.works("a tmpfs was mounted, inside a user namespace"),
        Err(failure) => about.refused(&failure, refuser(host, &failure)),
    }
}

/// Who refused a user namespace, or a mount in one.
pub(super) fn refuser(host: &Host, failure: &ProbeFailure) -> Refuser {
    let nonsense =
        if failure.call().starts_with("mount") { MOUNT_NOWHERE } else { UNSHARE_NOTHING };
    if let Some(refuser) = host.usual_refuser(failure, Some(nonsense)) {
        return refuser;
    }
    let is = |path: &str, value| sysctl(path) == Some(value);
    if is("user/max_user_namespaces", 0) {
        return Refuser::sysctl("user.max_user_namespaces", 0, 15000);
    }
    if is("kernel/unprivileged_userns_clone", 0) && host.uid != 0 {
        return Refuser::sysctl("kernel.unprivileged_userns_clone", 0, 1);
    }
    if is("kernel/apparmor_restrict_unprivileged_userns", 1) && host.uid != 0 {
        return Refuser::sysctl("kernel.apparmor_restrict_unprivileged_userns", 1, 0);
    }
    match failure.errno() {
        Some(libc::ENOSPC | libc::EUSERS) => Refuser::new(
            RefusedBy::Sysctl,
            "a limit of user namespaces (user.max_user_namespaces, or 32 levels of nesting)",
            "An administrator can raise it.",
        ),
        Some(libc::EINVAL) if failure.call() == MAKE_PRIVATE => Refuser::new(
            RefusedBy::Kernel,
            "the kernel, because / is no mount of its own here (a chroot)",
            "Mount an image outside the chroot.",
        ),
        Some(libc::EINVAL) => Refuser::new(
            RefusedBy::Kernel,
            "the kernel, built without user namespaces",
            as_root_or(host, "Root needs none: see mount namespace."),
        ),
        _ => Refuser::unknown(format!(
            "A chroot or a security module may be the reason. {}",
            as_root_or(host, "Mount an image outside of it: being root does not help in it.")
        )),
    }
}

/// What to do where root may; of root, what else.
fn as_root_or(host: &Host, else_said: &'static str) -> &'static str {
    match host.uid {
        0 => else_said,
        _ => "Run becalm as root where an image is to be mounted.",
    }
}

/// The kernel checks the flags of unshare first; 1 is none of them.
const UNSHARE_NOTHING: Nonsense =
    Nonsense { call: || unshare("unshare", 1).map(|()| 0), usual: libc::EINVAL };

/// The kernel looks up where to mount before it asks whether this process may.
const MOUNT_NOWHERE: Nonsense = Nonsense { call: mount_nowhere, usual: libc::EFAULT };

fn mount_nowhere() -> Result<u64, ProbeStop> {
    let nothing = std::ptr::null();
    // SAFETY: null pointers; the call fails with EFAULT.
    let done = unsafe { libc::mount(nothing, nothing, nothing, 0, nothing.cast()) };
    checked("mount", done.into())
}
