//! Runs a command to its end and takes the time.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::child::die_with;
use crate::lookup::{CannotStart, Command};
use crate::{Ended, signals, spawn, wait_for};

/// How long a command took, and what it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// How it ended.
    pub ended: Ended,
    /// From just before its exec to its end, by the monotonic clock. What it left running is
    /// not waited for.
    pub wall: Duration,
    /// CPU time in the program, its own and that of the children it waited for (wait4(2)).
    pub user: Duration,
    /// CPU time in the kernel, of the same.
    pub system: Duration,
    /// The largest resident set of any of them, in bytes. Never below that of the process that
    /// started it, which the kernel counts in (a fork, before its exec).
    pub max_rss: u64,
}

/// Runs a command as [`spawn`] does, untraced, and waits for its end. Should this process be killed, the
/// command is killed with it.
///
/// # Errors
/// [`CannotStart`].
pub fn timed(command: &Command) -> Result<Timed, CannotStart> {
    let parent = std::process::id() as i32;
    let end_with_it = || if die_with(parent) { Ok(()) } else { Err(libc::ESRCH) };
    let mut child = spawn(command, &own_mask(), &end_with_it)?;
    let start = Instant::now();
    child.open()?;
    let timed = awaited(child.pid, start)?;
    child.never_began().map_or(Ok(timed), Err)
}

/// Waits for the end of a child that began at that moment.
pub(crate) fn awaited(pid: i32, start: Instant) -> std::io::Result<Timed> {
    let ended = wait_for(pid, 0)?;
    let (status, usage) = ended.ok_or_else(|| std::io::Error::other("no process has ended"))?;
    Ok(Timed {
        ended: Ended::from_wait(status),
        wall: start.elapsed(),
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
    })
}

pub(crate) fn duration(time: libc::timeval) -> Duration {
    let micros = |number| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(micros(time.tv_sec)) + Duration::from_micros(micros(time.tv_usec))
}

/// The signals that this process blocks.
pub(crate) fn own_mask() -> libc::sigset_t {
    signals::block(&signals::set([]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(argv: &[&str]) -> Result<Timed, CannotStart> {
        timed(&Command::of(argv.iter().map(Into::into).collect()))
    }

    #[test]
    fn wall_time_is_the_clocks_and_cpu_time_the_childs() {
        let slept = run(&["sleep", "0.2"]).unwrap();
        assert_eq!(slept.ended, Ended::Exited(0));
        assert!(slept.wall >= Duration::from_millis(200), "{slept:?}");
        assert!(slept.user + slept.system < Duration::from_millis(100), "{slept:?}");
        let busy = run(&["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]).unwrap();
        assert!(busy.user > Duration::from_millis(20), "{busy:?}");
        assert!(busy.max_rss > 1 << 19, "{busy:?}");
    }

    #[test]
    fn an_end_by_status_or_signal_is_told_apart_and_what_cannot_start_is_an_error() {
        assert_eq!(run(&["sh", "-c", "exit 3"]).unwrap().ended, Ended::Exited(3));
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]).unwrap().ended, Ended::Signaled(9));
        assert_eq!(run(&["no-such-command-here"]).unwrap_err().exit_status(), 127);
        let directory = std::env::temp_dir().join(format!("launch-timed-{}", std::process::id()));
        std::fs::write(&directory, "#!/no/such/interpreter\n").unwrap();
        let made = std::process::Command::new("chmod").arg("+x").arg(&directory).status();
        assert!(made.unwrap().success());
        let error = run(&[directory.to_str().unwrap()]).unwrap_err();
        std::fs::remove_file(&directory).unwrap();
        assert!(matches!(error, CannotStart::NoInterpreter { .. }), "{error}");
    }
}
