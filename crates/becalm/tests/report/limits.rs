//! What becalm takes to read a recording, however it was made.

use std::path::Path;
use std::process::Command;

use recording::ExitStatus;
use testkit::made::{Made, ask};

/// Runs a command, and prints the largest resident set of it in KiB (getrusage(2)) and how long it
/// had a processor, in seconds.
const MEASURE: &str = "import resource, subprocess, sys\n\
    ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n\
    used = resource.getrusage(resource.RUSAGE_CHILDREN)\n\
    print(used.ru_maxrss, used.ru_utime + used.ru_stime, ended.returncode)";

/// The peak in bytes, and the seconds, of a verb that reads a recording.
fn taken_by(words: &[&str], file: &Path) -> (u64, f64) {
    let mut measured = Command::new("python3");
    measured.args(["-c", MEASURE, crate::BECALM]).args(words).arg(file);
    let output = measured.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [kib, seconds, status] = numbers[..] else { panic!("{text}") };
    assert!(status == 0.0 || status == 1.0, "{words:?}: {status}");
    (kib as u64 * 1024, seconds)
}

const MB: u64 = 1_000_000;
/// Ways to look at a recording, of which each goes through all of it.
const LOOKS: [&[&str]; 4] =
    [&["report"], &["report", "--by", "prefix"], &["report", "--by", "line"], &["scale"]];

#[test]
fn a_check_of_a_command_with_a_million_calls_takes_less_than_150_mb() {
    const CALLS: &str = "#include <stdio.h>\n#include <sys/stat.h>\n\
        int main(void) { char path[64]; struct stat found;\n\
        for (int n = 0; n < 1000000; n++) {\n\
        snprintf(path, sizeof path, n % 3 ? \"/no/%d\" : \"/usr/../%d\", n % 1000);\n\
        stat(path, &found); } return 0; }\n";
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("calls.c"), directory.path().join("calls"));
    std::fs::write(&source, CALLS).unwrap();
    let built = Command::new("gcc").arg(&source).arg("-o").arg(&program).status().unwrap();
    assert!(built.success());
    for options in [
        &["check", "--until", "exit", "--"][..],
        &["check", "--until", "exit", "--profile", "lustre", "--"],
    ] {
        let (peak, _) = taken_by(options, &program);
        assert!(peak < 150 * MB, "{options:?}: {peak} bytes");
    }
}

#[test]
fn paths_that_are_as_deep_as_they_are_long_take_no_more_memory_than_others() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("deep.becalm");
    let mut made = Made::new();
    let command = made.command("/bin/demo");
    for number in 0..100 {
        let path = format!("/{number}{}", "/a".repeat(2000));
        made.call(
            command,
            if number % 2 == 0 { ask("openat", &path) } else { ask("stat", &path).missing() },
        );
    }
    made.end(command, ExitStatus::Exited(0));
    let bytes = made.finish();
    assert!(bytes.len() < 30_000, "{}", bytes.len());
    std::fs::write(&file, bytes).unwrap();
    for words in [&["report", "--by", "prefix"][..], &["scale", "--cold-server"]] {
        let (peak, _) = taken_by(words, &file);
        assert!(peak < 300 * MB, "{words:?}: {peak} bytes");
    }
}

#[test]
fn a_chain_of_200_000_processes_is_read_in_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nested.becalm");
    let mut made = Made::new();
    let mut last = made.command("/bin/sh");
    for number in 0..200_000 {
        last = made.start(Some(last));
        made.exec(last, "/bin/sh", "/bin/sh", &["sh", "-c", &format!("{number}")]);
        made.call(last, ask("stat", "/etc/passwd"));
    }
    std::fs::write(&file, made.finish()).unwrap();
    for words in LOOKS {
        let (_, seconds) = taken_by(words, &file);
        assert!(seconds < 60.0, "{words:?}: {seconds} s");
    }
}
