//! `becalm fork collapse` and `fork bench`: what they say, and what is left when becalm is killed.
#![allow(clippy::unwrap_used)]

mod schema;
mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use schema::Schema;
use support::run;
use support::scene::BECALM;

fn becalm(words: &[&str]) -> Command {
    let mut becalm = Command::new(BECALM);
    becalm.args(words).env("COLUMNS", "100");
    becalm
}

/// A bash that answers a line by a line, with a variable of so many megabytes.
struct Bash {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Bash {
    fn of(megabytes: u64) -> Bash {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = bash.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut bash = Bash { child, to, from: BufReader::new(from) };
        assert_eq!(bash.ask(&format!("printf -v big '%*s' {} x; echo ok", megabytes << 20)), "ok");
        bash
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// How many bytes of it are in huge pages.
    fn huge(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid())).unwrap();
        let line = text.lines().find(|line| line.starts_with("AnonHugePages:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().count()
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_json_of_collapse_is_as_its_schema_says() {
    let schema = Schema::of(include_str!("../../../docs/schema/becalm.fork.collapse.md"));
    schema.holds(&schema.example(), "example");
    let bash = Bash::of(100);
    let ran = run(&mut becalm(&["fork", "collapse", "--json", &bash.pid()]));
    schema.holds(&serde_json::from_str(&ran.out()).unwrap(), "a bash");
}

#[test]
fn the_json_of_bench_is_as_its_schema_says() {
    let schema = Schema::of(include_str!("../../../docs/schema/becalm.fork.bench.md"));
    schema.holds(&schema.example(), "example");
    let ran = run(&mut becalm(&["fork", "bench", "--most", "10", "--rounds", "3", "--json"]));
    let value = serde_json::from_str(&ran.out()).unwrap();
    schema.holds(&value, "three sizes");
    let rows = value["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["fork_ns"].as_u64().unwrap() > 1000));
}

#[test]
fn a_process_with_nothing_to_gain_is_refused_with_status_1() {
    let bash = Bash::of(0);
    let ran = run(&mut becalm(&["fork", "collapse", &bash.pid()]));
    assert_eq!(ran.code(), 1);
}

#[test]
fn the_process_goes_on_when_becalm_is_killed_in_the_middle() {
    for _ in 0..20 {
        let mut bash = Bash::of(200);
        let before = bash.huge();
        let mut collapsing = becalm(&["fork", "collapse", &bash.pid()]);
        let mut becalm = collapsing.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Some is collapsed, and most is not: the second thread is at it.
        let since = Instant::now();
        while bash.huge() == before && becalm.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < support::live::LIMIT);
        }
        becalm.kill().unwrap();
        becalm.wait().unwrap();
        assert_eq!(bash.ask("echo ${#big}"), (200_u64 << 20).to_string());
        assert_eq!(bash.ask("/bin/echo child"), "child");
        while bash.threads() > 1 {
            assert!(since.elapsed() < support::live::LIMIT);
        }
    }
}
