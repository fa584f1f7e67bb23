//! The process table: which threads and processes there are, and which of them can run. It asks
//! the kernel nothing.

use recording::{ProcessId, StartCall, Usage};
use rustc_hash::FxHashMap;

use crate::files::FullPath;
use crate::task::{PendingCall, Task, TracedProcess};

/// All threads and processes that are followed.
#[derive(Default)]
pub(crate) struct ProcessTable {
    tasks: FxHashMap<i32, Task>,
    processes: FxHashMap<i32, TracedProcess>,
    /// Ended, and not yet waited for by their parents: what they used.
    zombies: FxHashMap<i32, Usage>,
    /// Threads that are in a call that the tracer will see the end of.
    in_call: usize,
    /// Threads that were found asleep.
    asleep: usize,
    /// The next process's number in the recording.
    next: u32,
}

/// How a child came to be, from the flags of the call that made it (clone(2)); none of a thread.
pub(crate) fn kind_of_birth(flags: u64) -> Option<StartCall> {
    let has = |flag: i32| flags & flag as u64 != 0;
    match has(libc::CLONE_VM) {
        _ if has(libc::CLONE_THREAD) => None,
        true if has(libc::CLONE_VFORK) => Some(StartCall::Vfork),
        true => Some(StartCall::Clone),
        false => Some(StartCall::Fork),
    }
}

impl ProcessTable {
    pub fn task(&self, tid: i32) -> Option<&Task> {
        self.tasks.get(&tid)
    }

    pub fn task_mut(&mut self, tid: i32) -> Option<&mut Task> {
        self.tasks.get_mut(&tid)
    }

    /// All threads, in no order.
    pub fn tasks_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.tasks.values_mut()
    }

    pub fn process(&self, pid: i32) -> Option<&TracedProcess> {
        self.processes.get(&pid)
    }

    pub fn process_mut(&mut self, pid: i32) -> Option<&mut TracedProcess> {
        self.processes.get_mut(&pid)
    }

    /// The process of a thread; the thread itself where nothing is known of it.
    pub fn group_of(&self, tid: i32) -> i32 {
        self.tasks.get(&tid).map_or(tid, |task| task.group)
    }

    /// All threads.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.tasks.len()
    }

    /// How many processes.
    pub fn running(&self) -> usize {
        self.processes.len()
    }

    /// Takes in a new thread of a process.
    pub fn add_thread(&mut self, task: Task) {
        self.in_call += usize::from(task.pending.is_some());
        self.tasks.insert(task.tid, task);
    }

    /// Takes in the first thread of a new process, and numbers that.
    pub fn add_process(&mut self, mut task: Task, parent: Option<i32>) -> ProcessId {
        let id = ProcessId(self.next);
        self.next += 1;
        task.process = id;
        self.processes.insert(task.tid, TracedProcess::new(id, parent));
        // The id of one that has ended is another's now.
        self.zombies.remove(&task.tid);
        self.add_thread(task);
        id
    }

    /// Whether a thread is followed. If so it has just been heard of: it is not asleep.
    pub fn hears_of(&mut self, tid: i32) -> bool {
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        self.asleep -= usize::from(std::mem::take(&mut task.asleep));
        true
    }

    /// A thread enters a call of which its end will be seen.
    pub fn enter_call(&mut self, tid: i32, pending: PendingCall) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            self.in_call += usize::from(task.pending.replace(pending).is_none());
        }
    }

    /// Whether a thread is in a call of which the end is of interest.
    pub fn is_in_call(&self, tid: i32) -> bool {
        self.tasks.get(&tid).is_some_and(|task| task.pending.is_some())
    }

    /// A thread has left its call.
    pub fn leave_call(&mut self, tid: i32) -> Option<PendingCall> {
        let pending = self.tasks.get_mut(&tid)?.pending.take()?;
        self.in_call -= 1;
        Some(pending)
    }

    /// Whether all other threads are in calls, or asleep: only this one can run.
    pub fn others_are_quiet(&self, tid: i32) -> bool {
        let quiet = |task: &Task| usize::from(task.pending.is_some()) + usize::from(task.asleep);
        let own = self.tasks.get(&tid).map_or(0, quiet);
        self.in_call + self.asleep - own + 1 == self.tasks.len()
    }

    /// A thread is about to sleep in a call of which its end will not be seen.
    pub fn falls_asleep(&mut self, tid: i32) {
        if let Some(task) = self.tasks.get_mut(&tid).filter(|task| task.pending.is_none()) {
            self.asleep += usize::from(!std::mem::replace(&mut task.asleep, true));
        }
    }

    /// Looks which threads sleep, besides `awake`, in calls that do not stop.
    pub fn look_who_sleeps(&mut self, awake: i32, is_asleep: impl Fn(i32) -> bool) {
        for task in self.tasks.values_mut() {
            let may = task.tid != awake && task.pending.is_none() && !task.asleep;
            if may && is_asleep(task.tid) {
                task.asleep = true;
                self.asleep += 1;
            }
        }
    }

    /// A process has become another program. When another thread than the first executes
    /// (`former`), it takes over the first one's id, and all others are gone without a word
    /// (ptrace(2), "execve(2) under ptrace"): those are returned.
    pub fn executed(&mut self, tid: i32, former: i32) -> Vec<i32> {
        let mut gone = Vec::new();
        if former != tid && self.tasks.contains_key(&former) {
            if self.tasks.contains_key(&tid) {
                self.remove_thread(tid);
                gone.push(tid);
            }
            if let Some(task) = self.tasks.remove(&former) {
                self.tasks.insert(tid, Task { tid, ..task });
            }
        }
        let others = |task: &&Task| task.group == tid && task.tid != tid;
        let others: Vec<i32> = self.tasks.values().filter(others).map(|task| task.tid).collect();
        others.iter().for_each(|thread| self.remove_thread(*thread));
        gone.extend(others);
        gone
    }

    /// Drops a thread that has ended.
    pub fn remove_thread(&mut self, tid: i32) {
        if let Some(task) = self.tasks.remove(&tid) {
            self.in_call -= usize::from(task.pending.is_some());
            self.asleep -= usize::from(task.asleep);
        }
    }

    /// A thread has ended, and with the first one its process, which is returned. What that used
    /// is kept until its parent waits for it, if that is followed.
    pub fn ended(&mut self, tid: i32, used: Usage) -> Option<TracedProcess> {
        self.remove_thread(tid);
        let process = self.processes.remove(&tid)?;
        if process.parent.is_some_and(|parent| self.processes.contains_key(&parent)) {
            self.zombies.insert(tid, used);
        }
        Some(process)
    }

    /// A process has waited for a child. Whether its end is to be watched for that, and is not
    /// yet.
    pub fn reaped(&mut self, parent: i32, child: i32) -> bool {
        let Some(used) = self.zombies.remove(&child) else { return false };
        let Some(process) = self.processes.get_mut(&parent) else { return false };
        process.reaped(&used);
        !process.watches_exit
    }

    /// Whether a thread that nobody has told of is some followed process's child (of `parent`)
    /// or thread (of `group`).
    pub fn has_parent(&self, tid: i32, parent: Option<i32>, group: Option<i32>) -> bool {
        let knows = |pid: Option<i32>| {
            pid.is_some_and(|pid| pid != tid && self.processes.contains_key(&pid))
        };
        knows(parent) || knows(group)
    }

    /// What was below a renamed directory has another path now: what `asked` says of a thread's link
    /// in /proc.
    pub fn renamed(&mut self, old: &[u8], mut asked: impl FnMut(i32, &str) -> Option<FullPath>) {
        for task in self.tasks.values() {
            let mut directories = task.directories.borrow_mut();
            if directories.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(old)) {
                directories.cwd = asked(task.tid, "cwd").map(|path| path.bytes.to_vec());
            }
            drop(directories);
            let asked = |fd: i32| asked(task.tid, &format!("fd/{fd}"));
            task.files.borrow_mut().renamed(old, asked);
        }
    }
}

#[cfg(test)]
mod tests;
