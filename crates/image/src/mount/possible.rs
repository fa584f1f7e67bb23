//! Whether anything can be mounted here, tried out by a process of its own: whoever tries is in
//! other namespaces afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use sandbox::namespace::{self, FuseMount, NamespaceError, NamespaceKind};
use sandbox::{Loopback, mounts};

use super::PATIENCE;
use super::asked::SharedMountRequest;
use super::door::{self, SocketState};
use super::error::{MountError, system};
use super::holder::ENTER;
use super::plan::MountPlan;
use super::wanted::MountRequest;

/// Why no image can be mounted here; none where it can. The process must have one thread, and
/// stays as it is.
///
/// # Errors
/// An image or overlay that is not there; [`MountError::System`] where nothing can be tried.
pub fn why_impossible(wanted: &MountRequest) -> Result<Option<String>, MountError> {
    let asked = SharedMountRequest::of(wanted)?;
    for name in [&asked.name, &asked.name_around()] {
        // What another rank has mounted can be joined.
        if lets_in(name) {
            return Ok(None);
        }
    }
    let failed = || system("try out a mount");
    let (answer, to) = std::io::pipe().map_err(failed())?;
    let (child, (mut answer, to)) = launch::fork_with((answer, to), |(answer, to)| {
        drop(answer);
        match tried(&asked) {
            Ok(()) => 0,
            Err(why) => i32::from((&to).write_all(why.as_bytes()).is_ok()) + 1,
        }
    })
    .map_err(failed())?;
    drop(to);
    let mut why = Vec::new();
    let read = answer.read_to_end(&mut why);
    let ended = launch::wait_for(child, 0).map_err(failed())?;
    let can = ended.is_some_and(|(status, _)| status == 0);
    read.map_err(failed())?;
    let killed = || "the process that tried to mount was killed".to_owned();
    let said = String::from_utf8(why).ok().filter(|why| !why.is_empty());
    Ok((!can).then(|| said.unwrap_or_else(killed)))
}

/// Whether somebody lets ranks in under a name. One whose first rank has failed, or is about to,
/// can still be reached for a moment, and says nothing: then it is for this rank to try.
fn lets_in(name: &str) -> bool {
    let Ok(Some(SocketState::Holder(stream))) = door::knock(name) else { return false };
    let answer = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| door::receive(&stream));
    match answer {
        Ok(message) => message.is_some_and(|message| message.tag == ENTER),
        // One that is stuck: whoever enters is told so.
        Err(_) => true,
    }
}

fn tried(asked: &SharedMountRequest<'_>) -> Result<(), String> {
    let said = |error: NamespaceError| error.to_string();
    let means = namespace::own_mounts().map_err(said)?;
    let by_fuse = namespace::fuse_device().and_then(|device| {
        let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV;
        let options =
            FuseMount { source: "becalm", subtype: "becalm-try", check_permissions: true, flags };
        namespace::mount_fuse(device.as_fd(), Path::new("/"), &options)
    });
    match (by_fuse, means) {
        (Ok(()), _) => Ok(()),
        (Err(error), NamespaceKind::UserNamespace) => Err(said(error)),
        (Err(error), NamespaceKind::Privileged) => by_kernel(asked).map_err(|_| said(error)),
    }
}

/// Has the kernel mount the image itself, as it may lack its compression.
fn by_kernel(asked: &SharedMountRequest<'_>) -> Result<(), MountError> {
    let plan = MountPlan::of(asked)?;
    let Some(image) = plan.layers.first() else { return Ok(()) };
    let file: &File = &image.file;
    let device = Loopback::attach(file, image.offset, image.size, true)
        .map_err(system("make a loop device"))?;
    Ok(mounts::device(device.path(), "squashfs", Path::new("/"), true)?)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// What a rank finds where another has bound the name, and does this with whoever knocks.
    fn found(name: &str, answer: fn(std::os::unix::net::UnixStream)) -> bool {
        let name = format!("becalm-test-{name}-{}", std::process::id());
        let SocketState::Free(door) = door::knock_or_take(&name).unwrap() else { panic!("taken") };
        let holder = thread::spawn(move || answer(door.accept().unwrap().0));
        let found = lets_in(&name);
        holder.join().unwrap();
        found
    }

    #[test]
    fn only_a_holder_that_lets_in_can_be_joined_not_one_whose_first_rank_has_failed() {
        assert!(found("in", |stream| door::send(&stream, ENTER, "{}", &[]).unwrap()));
        assert!(!found("failed", drop));
        // Not even listened to: the holder ends with who knocked still waiting.
        let name = format!("becalm-test-gone-{}", std::process::id());
        let SocketState::Free(door) = door::knock_or_take(&name).unwrap() else { panic!("taken") };
        let knocking = name.clone();
        let knock = thread::spawn(move || lets_in(&knocking));
        let waits = rustix::event::PollFlags::IN;
        rustix::event::poll(&mut [rustix::event::PollFd::new(&door, waits)], None).unwrap();
        drop(door);
        assert!(!knock.join().unwrap());
        assert!(!lets_in(&name));
    }
}
