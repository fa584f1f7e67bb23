//! What the answer on a recording takes: its explanation, its wait, its cures.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use cure::{CureOptions, CurePlan, FileWriter, Machine, ModuleCure};
use explain::{ExplainOptions, explain};
use recording::{Recording, Writer};
use testkit::made::{header, storm};

/// The file that a process of its own is to answer on.
const FILE: &str = "BECALM_TEST_ANSWERS_ON";

/// A machine where all can be done.
const ABLE: Machine = Machine {
    takes_builtins: |_| true,
    file_writer: |_| FileWriter::You,
    can_mount: || true,
    why_no_image: |_| None,
    directories_below: |_, _| 10,
    files_below: |_, _| Some(Vec::new()),
    module_cure: |_| ModuleCure::Index { shell: "bash" },
};

/// Answers on a recording as `becalm check` and `becalm fix` do, and prints the largest resident set
/// of this process (proc_pid_status(5)).
fn answer(file: &Path) {
    let recording = Recording::open(file).unwrap();
    let other = cost::FilesystemProfile::find("lustre".as_ref()).unwrap();
    let other = cost::CostModel { profile: other, ..cost::CostModel::default() };
    let options = ExplainOptions { other_models: vec![other], ..ExplainOptions::default() };
    let findings = explain(&recording, &options);
    let how = CureOptions::new(&options);
    let plan = CurePlan::of(&recording, &findings, &ABLE, &how);
    assert_eq!(plan.storms.len(), findings.storms.len());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("peak {}", peak.trim().trim_end_matches(" kB"));
}

#[test]
fn the_answer_on_a_million_calls_takes_less_than_150_mb() {
    if let Some(file) = std::env::var_os(FILE) {
        return answer(Path::new(&file));
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("million.becalm");
    let mut writer = Writer::new(Box::new(File::create(&file).unwrap()), &header()).unwrap();
    let ended = storm::record(&mut writer, 1_000_000);
    writer.finish(ended).unwrap();
    let name = "the_answer_on_a_million_calls_takes_less_than_150_mb";
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([name, "--exact", "--nocapture"]).env(FILE, &file);
    let output = again.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let peak = text.split("peak ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let kib: u64 = peak.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    assert!(kib * 1024 < 150_000_000, "{kib} KiB");
}
