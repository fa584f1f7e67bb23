//! How many system calls `becalm elf bind` makes for a file.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use testkit::bound::Site;
use testkit::run;

/// What memory and threads take, a check of std's in builds for tests (F_GETFD at each close), and leases, which this
/// machine gives or not and no server is asked for.
const NOT_OF_FILES: [&str; 9] =
    ["brk", "fcntl", "futex", "madvise", "mmap", "mprotect", "mremap", "munmap", "sched_yield"];

/// The calls of one binding of a store of so many libraries, by name.
fn calls(libraries: u64) -> BTreeMap<String, i64> {
    let site = Site::new();
    site.store(libraries, &[]);
    let counts = site.scene.at("counts");
    let mut strace = Command::new("strace");
    strace.args(["--follow-forks", "-c", "--summary-columns=calls,name", "-o", &counts]);
    strace.arg(crate::BECALM).args(["elf", "bind", &site.tree()]).env_clear();
    let ran = run(strace.env("XDG_STATE_HOME", site.scene.at("state")));
    assert!(ran.out().starts_with(&format!("Bound {} files", libraries + 1)), "{}", ran.err());
    let counts = fs::read_to_string(counts).unwrap();
    let row = |line: &str| {
        let (calls, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), calls.parse().ok()?))
    };
    let rows = counts.lines().filter_map(row);
    rows.filter(|(name, _)| name != "total" && !NOT_OF_FILES.contains(&name.as_str())).collect()
}

/// Each library has two directories of its own, which are listed, asked about and given their times again.
/// To read the old version and write the new one takes 21 calls: nothing of what the file has may be lost.
#[test]
fn a_file_more_in_a_directory_of_its_own_takes_at_most_45_calls() {
    let (few, many) = (calls(60), calls(120));
    let more: BTreeMap<&String, i64> =
        many.iter().map(|(name, calls)| (name, calls - few.get(name).unwrap_or(&0))).collect();
    let calls: i64 = more.values().sum();
    assert!(calls > 60 * 20, "strace has counted nothing: {more:?}");
    assert!(calls <= 60 * 45, "{} calls a file: {more:?}", calls as f64 / 60.0);
}
