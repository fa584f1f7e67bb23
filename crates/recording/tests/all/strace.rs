//! Against the real strace: its log is read here, recorded, and must come out again as strace
//! wrote it.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use recording::export::{self, ExportFormat, ExportOptions};
use recording::query::{CallFilter, GroupBy, table};
use recording::{Abi, Header, ProcessId};
use testkit::made::{Ask, Made, ask, bare, header};

/// Runs a command under strace and returns what it wrote.
fn strace(options: &[&str], command: &[&str], directory: &Path) -> String {
    let log = directory.join("log");
    let status = Command::new("strace")
        .arg("-f")
        .arg("-o")
        .arg(&log)
        .args(options)
        .args(command)
        .current_dir(directory)
        .env("LC_ALL", "C")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .expect("strace must be installed");
    assert!(status.success(), "{command:?}");
    String::from_utf8(std::fs::read(log).unwrap()).unwrap()
}

/// Every call that returned: its name, and the error's if it failed.
fn returned(log: &str) -> Vec<(&str, bool)> {
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((_, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let (name, ends) = match rest.strip_prefix("<... ") {
            Some(resumed) => (resumed.split(' ').next(), true),
            None => (rest.split('(').next(), !rest.ends_with("<unfinished ...>")),
        };
        let Some((_, result)) = rest.rsplit_once(" = ") else { continue };
        if ends && result != "?" {
            let failed = result.starts_with("-1 E") || result.starts_with("? ERESTART");
            calls.push((name.unwrap(), failed));
        }
    }
    calls
}

#[test]
fn the_summary_is_straces_own_byte_for_byte_but_for_the_order_of_equals() {
    let directory = tempfile::tempdir().unwrap();
    let script = "cat /nonexistent; ls /usr >/dev/null; (cd /; test -e x); true";
    let commands: [&[&str]; 5] = [
        &["true"],
        &["bash", "-c", script],
        &["ls", "-lR", "/usr/share/common-licenses"],
        &["python3", "-c", "import json, os; os.access('/x', 0)"],
        &["find", "/etc/alternatives"],
    ];
    for command in commands {
        let output = strace(&["-C"], command, directory.path());
        let at = output.find("% time     seconds").unwrap();
        let (log, summary) = output.split_at(at);
        let mut took = times(summary);
        let mut made = Made::new();
        let demo = made.command("/bin/demo");
        for (name, failed) in returned(log) {
            let call = if failed { bare(name).missing() } else { bare(name) };
            // All of a name's time is its first call's.
            made.call(demo, call.took(took.remove(name).unwrap_or_default()));
        }
        let table = table(&made.recording(), GroupBy::Syscall, &CallFilter::default());
        // Of two that took as long, strace has the one with the smaller number first.
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(lines(&table.strace_text()), lines(summary), "{command:?}");
    }
}

/// The seconds that a summary has of each call, in nanoseconds.
fn times(summary: &str) -> HashMap<&str, u64> {
    let rows = summary.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let seconds: f64 = words.get(1)?.parse().ok()?;
        Some((*words.last()?, (seconds * 1e9).round() as u64))
    });
    rows.collect()
}

/// What strace 6.1 printed for a program that makes 32-bit calls by `int 0x80`; its longest
/// name, and a column of errors that is empty.
#[test]
fn calls_of_another_table_have_a_summary_of_their_own() {
    let mut made = Made::new();
    let demo = made.command("/bin/demo");
    made.call(demo, bare("close").took(0));
    made.call(demo, bare("landlock_restrict_self").took(0));
    made.call(demo, bare("close").abi(Abi::I386, 6).failed(9).took(2_000));
    for _ in 0..3 {
        made.call(demo, bare("close").abi(Abi::I386, 20).took(2_000));
    }
    let text = table(&made.recording(), GroupBy::Syscall, &CallFilter::default()).strace_text();
    let expected = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- -----------------------
  0.00    0.000000           0         1           close
  0.00    0.000000           0         1           landlock_restrict_self
------ ----------- ----------- --------- --------- -----------------------
100.00    0.000000           0         2           total
System call usage summary for 32 bit mode:
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 75.00    0.000006           2         3           getpid
 25.00    0.000002           2         1         1 close
------ ----------- ----------- --------- --------- ----------------
100.00    0.000008           2         4         1 total
";
    assert_eq!(text, expected);
}

/// A program that makes the calls whose arguments a recording holds in full.
const PROGRAM: &str = r#"
import os
here = os.getcwdb()
open = os.open
for name in [b"plain", b"sp ace", b"quo\"te", b"back\\slash", b"new\nline", b"\xff\xfe1", b"\x017"]:
    path = here + b"/" + name
    for flags in [os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, os.O_WRONLY | os.O_APPEND]:
        try: open(path, flags)
        except OSError: pass
    for mode in [os.F_OK, os.R_OK, os.R_OK | os.W_OK | os.X_OK]:
        os.access(path, mode)
    for change in [os.rmdir, os.unlink, os.chdir, lambda path: os.rename(path, path + b".2")]:
        try: change(path)
        except OSError: pass
fd = open(here, os.O_RDONLY | os.O_NONBLOCK | os.O_SYNC)
os.fchdir(fd); os.close(fd)
try: os.close(fd)
except OSError: pass
os.mkdir(here + b"/d"); os.rename(here + b"/d", here + b"/e"); os.rmdir(here + b"/e")
os.kill(os.getpid(), 0)
"#;

/// The calls of the log that a recording holds in full, as they were recorded: strace's words
/// read back.
fn recorded(line: &str) -> Option<Ask<'_>> {
    let (call, rest) = line.split_once('(')?;
    let name = call.split_whitespace().nth(2)?;
    let (arguments, rest) = rest.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    let (result, took) = rest.rsplit_once(" <")?;
    // 64-bit Arm has no calls by a path alone.
    let mut parts = arguments.split(", ").filter(|part| *part != "AT_FDCWD");
    let ask = match name {
        "openat" => {
            let (path, flags) = (parts.next()?, parts.next()?);
            if flags.contains("O_CREAT") || !path.starts_with("\"/") {
                return None;
            }
            ask(name, &unquoted(path).leak()[..]).flags(bits(flags))
        }
        "access" | "faccessat" => {
            ask(name, &unquoted(parts.next()?).leak()[..]).flags(bits(parts.next()?))
        }
        "unlink" | "rmdir" | "chdir" => ask(name, &unquoted(parts.next()?).leak()[..]),
        "unlinkat" => ask(name, &unquoted(parts.next()?).leak()[..]).flags(bits(parts.next()?)),
        "rename" | "renameat" => {
            let first = unquoted(parts.next()?).leak();
            ask(name, &first[..]).other_bytes(unquoted(parts.next()?).leak())
        }
        "close" | "fchdir" => bare(name).fd(parts.next()?.parse().ok()?),
        _ => return None,
    };
    let ask = match result.split_whitespace().collect::<Vec<_>>()[..] {
        ["-1", "ENOENT", ..] => ask.failed(2),
        ["-1", "EBADF", ..] => ask.failed(9),
        [number] => ask.returned(number.parse().ok()?),
        _ => return None,
    };
    let (thread, time) = line.split_once(' ')?;
    let (seconds, micros) = time.split_whitespace().next()?.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let at = (seconds - 1_000_000_000) * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000;
    let took: String = took.trim_end_matches('>').split('.').collect();
    Some(ask.thread(thread.parse().ok()?).at(at).took(took.parse::<u64>().ok()? * 1000))
}

/// The bytes of a C string.
fn unquoted(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.trim_matches('"').bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().unwrap() {
            b'n' => bytes.push(b'\n'),
            digit @ b'0'..=b'7' => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(digit) = rest.next_if(|next| (b'0'..=b'7').contains(next)) {
                        value = value * 8 + u32::from(digit - b'0');
                    }
                }
                bytes.push(value as u8);
            }
            other => bytes.push(other),
        }
    }
    bytes
}

/// Flags of open(2), access(2) and unlinkat(2) by name, as Python's os module and the kernel's
/// fcntl.h give them on x86-64.
fn bits(names: &str) -> u64 {
    let value = |name: &str| match name {
        "O_RDONLY" | "F_OK" | "0" => 0,
        "O_WRONLY" | "X_OK" => 1,
        "O_RDWR" | "W_OK" => 2,
        "R_OK" => 4,
        "AT_REMOVEDIR" => 512,
        "O_APPEND" => 1024,
        "O_NONBLOCK" => 2048,
        "O_SYNC" => 1_052_672,
        "O_DIRECTORY" => 65_536,
        "O_NOFOLLOW" => 131_072,
        "O_CLOEXEC" => 524_288,
        other => panic!("{other}"),
    };
    names.split('|').map(value).sum()
}

#[test]
fn a_log_of_straces_that_is_recorded_is_exported_as_strace_wrote_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = strace(&["-ttt", "-T"], &["python3", "-c", PROGRAM], directory.path());
    let header = Header { started_unix: 1_000_000_000, started_nanos: 0, ..header() };
    let mut made = Made::with(&header);
    made.start(None);
    let mut lines = Vec::new();
    for line in log.lines() {
        if let Some(ask) = recorded(line) {
            made.call(ProcessId(0), ask);
            lines.push(line);
        }
    }
    let by_path = match cfg!(target_arch = "x86_64") {
        true => ["access(", "unlink(", "rmdir(", "rename("],
        false => ["faccessat(", "unlinkat(", ", AT_REMOVEDIR)", "renameat("],
    };
    for part in by_path.iter().chain(&["openat(", "chdir(", "close(", "fchdir("]) {
        assert!(lines.iter().any(|line| line.contains(part)), "strace saw no {part}");
    }
    let mut text = Vec::new();
    export::write(&made.recording(), ExportFormat::Strace, &mut text, &ExportOptions::default())
        .unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
}
