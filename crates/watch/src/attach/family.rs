//! Which threads a process has, and which children each of them: /proc/PID/task.

use std::collections::BTreeSet;

use proc::ProcessStatus;

/// So often a list of the kernel's is read anew until it stays as it is.
const READS: usize = 5;

/// The threads of a process, by id; none once it is gone.
///
/// The kernel's list ends early where the thread it stands at ends while it is read (`next_tid` in
/// the kernel's fs/proc/base.c).
pub(crate) fn threads(pid: i32) -> BTreeSet<i32> {
    let list = || {
        let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        Some(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
    };
    settled(list).unwrap_or_default()
}

/// The processes that a thread has made, and those left to it.
///
/// The kernel's list can lack one that lives, where another ends while it is read
/// (proc_tid_children(5)).
pub(crate) fn children(pid: i32, tid: i32) -> BTreeSet<i32> {
    settled(|| listed(pid, tid)).unwrap_or_else(|| by_parent(pid))
}

/// All that a list names that is read until it is twice the same.
fn settled(list: impl Fn() -> Option<BTreeSet<i32>>) -> Option<BTreeSet<i32>> {
    let (mut all, mut last) = (BTreeSet::new(), None);
    for _ in 0..READS {
        let now = list()?;
        all.extend(now.iter().copied());
        if last.as_ref() == Some(&now) {
            break;
        }
        last = Some(now);
    }
    Some(all)
}

/// The list of a living thread; none where the kernel was built without it.
fn listed(pid: i32, tid: i32) -> Option<BTreeSet<i32>> {
    let list = format!("/proc/{pid}/task/{tid}/children");
    match std::fs::read_to_string(list) {
        Ok(text) => Some(text.split_whitespace().filter_map(|id| id.parse().ok()).collect()),
        Err(_) => has_lists().then(BTreeSet::new),
    }
}

/// Whether the kernel was built with lists of children (CONFIG_PROC_CHILDREN).
fn has_lists() -> bool {
    let own = std::process::id();
    std::fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or(false)
}

/// The children of all threads of a process, found by looking at every process there is.
fn by_parent(pid: i32) -> BTreeSet<i32> {
    let is_child = |id: &i32| {
        let parent = ProcessStatus::of(*id).and_then(|status| status.number("PPid"));
        parent == u64::try_from(pid).ok()
    };
    proc::process_ids().filter(is_child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_while_others_come_and_go() {
        let own = std::process::id() as i32;
        let id = rustix::thread::gettid().as_raw_pid();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| std::thread::spawn(|| ()).join().unwrap()));
            }
            for _ in 0..1000 {
                assert!(threads(own).contains(&id));
            }
        });
    }

    #[test]
    fn a_child_is_found_by_the_threads_list_and_by_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("20").spawn().unwrap();
        let (own, id) = (std::process::id() as i32, child.id() as i32);
        let of_threads: BTreeSet<i32> =
            threads(own).into_iter().flat_map(|tid| children(own, tid)).collect();
        assert!(of_threads.contains(&id) && by_parent(own).contains(&id));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(threads(id).is_empty() && children(id, id).is_empty());
    }
}
