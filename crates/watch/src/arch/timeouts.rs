//! Calls that return EINTR and do not restart by themselves, although they have a timeout
//! (signal(7)): how long that is.

use recording::Nanos;

use crate::memory;

/// The timeout of such a call of the machine's own table, and what the call returns when that is
/// over.
pub(super) fn of(tid: i32, number: i64, args: [u64; 6]) -> Option<(Nanos, i64)> {
    let (at, result) = match number {
        // The one of epoll_wait(2), too, which Arm has not.
        libc::SYS_epoll_pwait => {
            let millis = u64::try_from(args[3] as i32).ok()?;
            return Some((Nanos(millis * 1_000_000), 0));
        }
        libc::SYS_semtimedop => (args[3], -i64::from(libc::EAGAIN)),
        libc::SYS_rt_sigtimedwait => (args[2], -i64::from(libc::EAGAIN)),
        libc::SYS_epoll_pwait2 => (args[3], 0),
        libc::SYS_io_getevents => (args[4], 0),
        _ => return None,
    };
    // struct timespec; a null one waits for ever.
    let seconds = memory::read_u64(tid, at).ok()?;
    let nanos = memory::read_u64(tid, at.wrapping_add(8)).ok()?;
    Some((Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)), result))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process stands for the stopped one: its memory is read in the same way.
    fn own(number: i64, args: [u64; 6]) -> Option<(Nanos, i64)> {
        of(std::process::id() as i32, number, args)
    }

    #[test]
    fn the_timeout_of_an_interrupted_call_is_read_from_where_it_lies() {
        let time = [3u64, 500];
        let at = time.as_ptr() as u64;
        let (long, again) = (Nanos(3_000_000_500), -i64::from(libc::EAGAIN));
        assert_eq!(own(libc::SYS_semtimedop, [9, 9, 9, at, 9, 9]), Some((long, again)));
        assert_eq!(own(libc::SYS_rt_sigtimedwait, [9, 9, at, 9, 9, 9]), Some((long, again)));
        assert_eq!(own(libc::SYS_epoll_pwait2, [9, 9, 9, at, 9, 9]), Some((long, 0)));
        assert_eq!(own(libc::SYS_io_getevents, [9, 9, 9, 9, at, 9]), Some((long, 0)));
        assert_eq!(own(libc::SYS_semtimedop, [9, 9, 9, 0, 9, 9]), None, "for ever");
        let polls = |millis: u64| own(libc::SYS_epoll_pwait, [9, 9, 9, millis, 9, 9]);
        assert_eq!(polls(20), Some((Nanos(20_000_000), 0)));
        assert_eq!(polls(u64::MAX), None, "for ever");
        assert_eq!(own(libc::SYS_read, [9, 9, 9, at, 9, 9]), None);
    }
}
