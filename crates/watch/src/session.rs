//! The front: the process that the user started, and that the shell or `srun` waits for.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use launch::signals::{self, ReceivedSignal, SignalQueue};
use launch::{Command, Ended, SignalMonitor};
use recording::{Blind, LetGo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Signal, WaitOptions, getppid, getrlimit, set_parent_process_death_signal,
    waitpid,
};

use crate::boot::{self, TracerStart};
use crate::inject::DelayPolicy;
use crate::message::{Inbox, Messages, TracerMessage};
use crate::observer::Observer;
use crate::{RecordedStarts, RecorderError, RecorderOptions, Until, host, start_watch};

/// What the command left running gets this long to end before the front goes without it.
const GRACE: Duration = Duration::from_millis(50);

/// A signal sent to becalm is passed on unless the command itself got it, from the same
/// sender, within this time: then it was sent to both (Ctrl-C, `kill` of a group).
const SAME: Duration = Duration::from_millis(30);

/// A command that is being recorded.
pub struct Session {
    inbox: Inbox,
    signals: SignalQueue,
    /// What was held back before.
    mask: libc::sigset_t,
    tracer: Pid,
    /// How often this process was to stop with the command.
    stops: u32,
    /// Signals that the command got, with their senders and when.
    delivered: Vec<(i32, i32, Instant)>,
    over: Option<Finished>,
    end: Option<Instant>,
    /// Who tells which signals came to the whole group of becalm, and so to the command by themselves.
    monitor: SignalMonitor,
    /// Whether the command can be let go of before its end.
    lets_go: bool,
    /// That it was.
    let_go: Option<LetGo>,
}

/// What a recorded command left.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub ended: Ended,
    /// How many of its processes still run; they are recorded further, in the background.
    pub still_running: usize,
    /// What the recording does not show.
    pub blinds: Vec<Blind>,
    /// Why the recording is cut, if it is.
    pub failure: Option<String>,
    /// When and why the command was watched no longer, if it was let go of.
    pub let_go: Option<LetGo>,
}

/// Who has a part in the recording, and how much of the run it is of.
#[derive(Default)]
pub(crate) struct Instruments {
    pub delays: Option<Box<dyn DelayPolicy>>,
    pub observer: Option<Box<dyn Observer>>,
    /// Whether only what starts processes is recorded.
    pub starts: Option<RecordedStarts>,
    /// What ends the watching before the end.
    pub until: Vec<Until>,
}

pub(crate) fn start(
    command: &Command,
    file: File,
    options: &RecorderOptions,
    instruments: Instruments,
) -> Result<Session, RecorderError> {
    if proc::is_of_other_namespace() {
        return Err(RecorderError::OtherProc);
    }
    let around = host::surroundings();
    let lets_go = Until::let_go(&instruments.until);
    let (from, to) = pipe()?;
    let front = rustix::process::getpid();
    let passed_on = signals::set(signals::passed_on());
    let mask = signals::block(&passed_on);
    // This process's copies of what the recorder needs are closed once it has them.
    let options = *options;
    let (tracer, (from, _)) = launch::fork_with((from, to), |(from, to)| {
        drop(from);
        die_with(front);
        // The tracer is never interrupted, nor stopped with the command's group.
        signals::block(&signals::all());
        let messages = Messages::new(to, front);
        let outer_filter = around.has_filter;
        boot::run(TracerStart {
            command,
            file,
            options,
            instruments,
            mask,
            messages,
            outer_filter,
        });
        0
    })?;
    let tracer = Pid::from_raw(tracer).ok_or(Errno::SRCH).map_err(std::io::Error::from)?;
    let monitor = SignalMonitor::call()?;
    let mut session = Session {
        inbox: Inbox::new(from),
        signals: SignalQueue::of(&passed_on)?,
        mask,
        tracer,
        stops: 0,
        delivered: Vec::new(),
        over: None,
        end: None,
        monitor,
        lets_go,
        let_go: None,
    };
    session.wait_for_start()?;
    Ok(session)
}

impl Drop for Session {
    /// From now on signals are for this process itself, whatever it still has to write.
    fn drop(&mut self) {
        // What still waits was meant for a command that has ended.
        while let Ok(Some(_)) = self.signals.take() {}
        signals::block_only(&self.mask);
    }
}

impl Session {
    fn wait_for_start(&mut self) -> Result<(), RecorderError> {
        let mut messages = std::iter::from_fn(|| self.inbox.next());
        match messages.find(|message| !matches!(message, TracerMessage::GoesOn)) {
            Some(TracerMessage::Started) => Ok(()),
            Some(TracerMessage::CannotStart { status, why }) => {
                Err(RecorderError::CannotStart { status, why })
            }
            Some(TracerMessage::Forbidden { error }) => Err(forbidden(error)),
            _ => Err(self.died()),
        }
    }

    /// Waits for the command's end, and for the recording's unless it goes on in the
    /// background.
    ///
    /// # Errors
    /// [`RecorderError::Died`], if the recorder was killed.
    pub fn wait(mut self) -> Result<Finished, RecorderError> {
        loop {
            while self.inbox.has_more() || self.wait_for_message()? {
                let Some(message) = self.inbox.next() else { return self.at_tracers_end() };
                if self.take_in(message) {
                    return self.at_tracers_end();
                }
            }
            if self.end.is_some_and(|end| end <= Instant::now()) {
                return self.at_tracers_end();
            }
            self.pass_signals_on();
        }
    }

    fn at_tracers_end(mut self) -> Result<Finished, RecorderError> {
        match self.over.take() {
            Some(over) => Ok(over),
            None => Err(self.died()),
        }
    }

    /// The tracer's pipe has closed without a last word.
    fn died(&self) -> RecorderError {
        let how = match Ended::from_wait(self.reap()) {
            Ended::Signaled(signal @ (libc::SIGKILL | libc::SIGXCPU)) if limits_cpu() => {
                format!("was killed by signal {signal}, perhaps for the limit of `ulimit -t`")
            }
            Ended::Signaled(signal) => format!("was killed by signal {signal}"),
            Ended::Exited(status) => format!("ended early with status {status}"),
        };
        match self.let_go {
            Some(_) => RecorderError::DiedAfterLettingGo { how },
            None => RecorderError::Died { how },
        }
    }

    /// Waits for the tracer's end, and returns its status.
    fn reap(&self) -> i32 {
        let ended = waitpid(Some(self.tracer), WaitOptions::empty());
        ended.ok().flatten().map_or(0, |(_, status)| status.as_raw())
    }

    /// Waits for a message, a signal or the end of the grace; whether it is a message.
    fn wait_for_message(&self) -> Result<bool, RecorderError> {
        let timeout = self.end.map(until);
        let signals = self.signals.as_fd();
        let mut ready =
            [PollFd::new(self.inbox.file(), PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut ready, timeout.as_ref()) {
            Ok(_) => Ok(!ready[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }

    /// Takes in a message; whether it is the last one to wait for.
    fn take_in(&mut self, message: TracerMessage) -> bool {
        match message {
            TracerMessage::Delivered { signal, from } => {
                self.delivered.push((signal, from, Instant::now()));
            }
            TracerMessage::Stopped { signal } => {
                self.stops += 1;
                launch::stop_by(signal, || !self.inbox.goes_on());
            }
            TracerMessage::StoppedUntraced { signal, command } => {
                self.stops += 1;
                self.monitor.stop_with(command, signal);
            }
            TracerMessage::MainEnded { ended, still_running, blinds } => {
                let let_go = self.let_go.clone();
                self.over = Some(Finished { ended, still_running, blinds, failure: None, let_go });
                if still_running > 0 {
                    self.end = Some(Instant::now() + GRACE);
                }
            }
            TracerMessage::LetGo(let_go) => {
                if let Some(over) = &mut self.over {
                    over.let_go = Some(let_go.clone());
                }
                self.let_go = Some(let_go);
            }
            TracerMessage::Finished { failure } => {
                if let Some(over) = &mut self.over {
                    over.failure = failure;
                    over.still_running = 0;
                }
                // The CPU time of the command becomes this process's, for whoever waits for it.
                self.reap();
                return true;
            }
            _ => {}
        }
        false
    }

    fn pass_signals_on(&mut self) {
        while let Ok(Some(ReceivedSignal { signal, from, code })) = self.signals.take() {
            // The terminal's own signals go to the whole group, the command included, but for its
            // end, of which only the session's leader hears; and the tracer's SIGCONT is for this
            // process only, as is the monitor's.
            let is_hangup = signal == libc::SIGHUP && launch::leads_session();
            let is_ours = [self.tracer.as_raw_pid(), self.monitor.pid()].contains(&from);
            if (code > 0 && !is_hangup) || is_ours {
                if code > 0 && signal == libc::SIGQUIT && self.lets_go {
                    // It may be gone already.
                    let _ = launch::signals::send(self.tracer.as_raw_pid(), start_watch::ASK);
                }
                continue;
            }
            if !self.came_by_itself(signal, from) {
                self.send(signal);
            }
        }
    }

    /// Whether the command got this signal without becalm.
    fn came_by_itself(&mut self, signal: i32, from: i32) -> bool {
        if self.monitor.saw_by_now(signal, from) {
            self.delivered.retain(|(known, by, _)| (*known, *by) != (signal, from));
            return true;
        }
        let stops = self.stops;
        let was_delivered = self.was_delivered(signal, from);
        let has_stopped_since = self.stops > stops || launch::a_stop_is_pending();
        self.monitor.saw_by_now(signal, from)
            || was_delivered
            // A stop takes back each SIGCONT that nobody has taken yet (signal(7)), the monitor's
            // too: a command that has stopped anew must stay stopped.
            || (signal == libc::SIGCONT && has_stopped_since)
    }

    /// Whether the command got this signal itself, or gets it within a moment, as its tracer sees.
    fn was_delivered(&mut self, signal: i32, from: i32) -> bool {
        let deadline = Instant::now() + SAME;
        loop {
            self.delivered.retain(|(_, _, at)| at.elapsed() < SAME * 2);
            let same = |known: &(i32, i32, Instant)| known.0 == signal && known.1 == from;
            if let Some(at) = self.delivered.iter().position(same) {
                self.delivered.remove(at);
                return true;
            }
            if deadline <= Instant::now() {
                return false;
            }
            let mut ready = [PollFd::new(self.inbox.file(), PollFlags::IN)];
            let came = poll(&mut ready, Some(&until(deadline)));
            if self.inbox.has_more() || came.is_ok_and(|ready| ready > 0) {
                match self.inbox.next() {
                    Some(message) => {
                        if self.take_in(message) {
                            self.end = Some(Instant::now());
                            return true;
                        }
                    }
                    None => return true,
                }
            }
        }
    }

    /// Sends a signal to the command, whose process id the tracer knows: through it, so that
    /// the id cannot be another's by then.
    fn send(&self, signal: i32) {
        let children = format!("/proc/{0}/task/{0}/children", self.tracer.as_raw_pid());
        let text = std::fs::read_to_string(children).unwrap_or_default();
        let command = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
        if let Some(command) = command {
            let _ = launch::signals::send(command, signal);
        }
    }
}

/// What forbids ptrace, and what to do about it.
fn forbidden(error: i32) -> RecorderError {
    // A tracer of becalm itself that follows its children has this one, too.
    let tracer = host::surroundings().tracer;
    if tracer != 0 {
        return RecorderError::Traced { tracer, name: name_of(tracer) };
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let reason = if host::surroundings().has_filter {
        "a seccomp filter, such as a container's, forbids it; allow ptrace in it \
         (docker run --cap-add SYS_PTRACE)"
    } else if scope.trim() == "3" {
        "kernel.yama.ptrace_scope is 3, which forbids it to everyone until the next boot"
    } else if scope.trim() == "2" {
        "kernel.yama.ptrace_scope is 2, which allows it to CAP_SYS_PTRACE only; \
         set it to 1 or run as root"
    } else {
        "a security module or another tracer forbids it"
    };
    RecorderError::Forbidden { error: std::io::Error::from_raw_os_error(error), reason }
}

fn limits_cpu() -> bool {
    getrlimit(Resource::Cpu).maximum.is_some()
}

fn name_of(pid: i32) -> String {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!(" ({})", name.trim_end()),
        Err(_) => String::new(),
    }
}

fn pipe() -> Result<(File, File), RecorderError> {
    let (from, to) = std::io::pipe()?;
    Ok((OwnedFd::from(from).into(), OwnedFd::from(to).into()))
}

/// Has the kernel kill this process when its parent ends, and ends it if that has happened.
fn die_with(parent: Pid) {
    // It can only be refused for a signal that is none.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(parent) {
        // SAFETY: ends the process without running what the front prepared for its own end.
        unsafe { libc::_exit(125) };
    }
}

/// How long it is until a moment, for poll(2).
fn until(end: Instant) -> Timespec {
    let left = end.saturating_duration_since(Instant::now());
    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
}
