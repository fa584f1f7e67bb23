//! `becalm lab profile`: the real perf, with and without privilege, and without perf.

use crate::BECALM;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use testkit::live::{Ran, run};
use testkit::user::is_root;
use testkit::{Scene, copy_program};

const NOBODY: u32 = 65534;
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// The kernel's setting is for the whole machine: one test at a time, and it is put back.
struct Level {
    _one: MutexGuard<'static, ()>,
    before: String,
}

static LEVEL: Mutex<()> = Mutex::new(());

impl Level {
    fn as_found() -> Level {
        let one = LEVEL.lock().unwrap_or_else(|broken| broken.into_inner());
        Level { _one: one, before: fs::read_to_string(PARANOID).unwrap() }
    }

    fn of(level: i32) -> Level {
        let found = Level::as_found();
        fs::write(PARANOID, level.to_string()).unwrap();
        found
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let _ = fs::write(PARANOID, &self.before);
    }
}

const BURN: &str = "
#include <stdlib.h>
#define ALONE __attribute__((noinline, noclone))
ALONE double leaf(double x) { for (int i = 0; i < 1000; i++) x = x * 1.0000001 + 1e-9; return x; }
ALONE double middle(double x) { for (int i = 0; i < 1000; i++) x = leaf(x); return x + 1; }
int main(int n, char **v) {
  double x = 1;
  for (int i = atoi(v[1]); i > 0; i--) x = middle(x);
  return x == 0;
}";

struct ProfiledPrograms {
    scene: Scene,
}

impl ProfiledPrograms {
    fn new() -> ProfiledPrograms {
        ProfiledPrograms { scene: Scene::for_everyone() }
    }

    fn path(&self) -> &Path {
        self.scene.root()
    }

    fn file(&self, name: &str, content: &str) {
        let file = self.path().join(name);
        fs::write(&file, content).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A program that uses half a second in `leaf`, called by `middle`.
    fn burn(&self, options: &[&str]) {
        self.file("burn.c", BURN);
        let mut gcc = Command::new("gcc");
        gcc.current_dir(self.path()).args(["-O2", "burn.c", "-o", "burn"]).args(options);
        assert!(gcc.status().unwrap().success());
    }

    fn storm(&self) {
        self.file("storm", "#!/bin/bash\nfor i in {1..200}; do d=$(dirname /a/b$i); done\n");
    }

    fn becalm(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BECALM);
        command
            .args(["lab", "profile"])
            .args(arguments)
            .current_dir(self.path())
            .env("TMPDIR", self.path());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        run(&mut self.becalm(arguments))
    }

    /// The JSON answer.
    fn ask(&self, command: &mut Command) -> Value {
        let ran = run(command);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        serde_json::from_str(&ran.out()).unwrap()
    }

    /// As an ordinary user, whom the program has to be readable for.
    fn as_user(&self, arguments: &[&str]) -> Command {
        let becalm = self.path().join("becalm");
        copy_program(BECALM, &becalm);
        let mut command = Command::new(becalm);
        command
            .args(["lab", "profile"])
            .args(arguments)
            .current_dir(self.path())
            .env("TMPDIR", self.path());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").uid(NOBODY).gid(NOBODY);
        command
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    #[track_caller]
    fn assert_well_formed(&self, name: &str) {
        let script = "import sys, xml.parsers.expat as e; \
                      e.ParserCreate().ParseFile(open(sys.argv[1], 'rb'))";
        let mut python = Command::new("python3");
        assert!(
            python.args(["-c", script]).arg(self.path().join(name)).status().unwrap().success()
        );
    }

    /// Nothing of perf's is left.
    #[track_caller]
    fn assert_clean(&self) {
        for entry in fs::read_dir(self.path()).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(!name.to_string_lossy().starts_with("becalm-perf"), "{name:?}");
        }
    }
}

/// What becalm said, unwrapped.
fn said(ran: &Ran) -> String {
    ran.err().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn kinds(answer: &Value) -> Vec<&str> {
    let warnings = answer["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["kind"].as_str().unwrap()).collect()
}

/// The share of what was sampled that is in a function itself.
fn share(answer: &Value, function: &str) -> f64 {
    let all = answer["functions"].as_array().unwrap();
    let of = all.iter().filter(|row| row["function"] == function);
    let own: f64 = of.map(|row| row["self_us"].as_f64().unwrap()).sum();
    own / answer["sampled_us"].as_f64().unwrap()
}

#[test]
fn samples_find_the_function_that_takes_the_time_and_who_calls_it() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    scene.burn(&["-g", "-fomit-frame-pointer"]);
    for timer in [&[][..], &["--timer"]] {
        let arguments = ["--json", "--folded", "f", "--", "./burn", "300"];
        let answer = scene.ask(scene.becalm(timer).args(arguments));
        assert!(share(&answer, "leaf") > 0.8, "{answer:#}");
        let (sampled, cpu) = (answer["sampled_us"].as_f64(), answer["cpu_us"].as_f64());
        let ratio = sampled.unwrap() / cpu.unwrap();
        assert!((0.7..1.3).contains(&ratio), "samples stand for {ratio} of the CPU time");
        assert!(scene.read("f").contains("burn;"), "{}", scene.read("f"));
        assert!(scene.read("f").contains(";main;middle;leaf "), "{}", scene.read("f"));
        scene.assert_well_formed("profile.svg");
        scene.assert_clean();
    }
}

#[test]
fn a_stripped_program_is_named_with_what_to_do() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    scene.burn(&["-s"]);
    let ran = scene.run(&["--", "./burn", "300"]);
    assert_eq!(ran.code(), 0);
    assert!(said(&ran).contains("burn: it has no names for its functions"), "{}", ran.err());
    assert!(said(&ran).contains("-g1"), "{}", ran.err());
}

#[test]
fn a_program_without_unwind_data_is_named() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    scene.burn(&["-fomit-frame-pointer"]);
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["-R", ".eh_frame", "-R", ".eh_frame_hdr", "burn"]).current_dir(scene.path());
    assert!(objcopy.status().unwrap().success());
    let answer = scene.ask(&mut scene.becalm(&["--json", "--", "./burn", "300"]));
    assert!(kinds(&answer).contains(&"no_unwind"), "{answer:#}");
    assert!(share(&answer, "leaf") > 0.8, "the innermost frame needs no unwinding: {answer:#}");
}

#[test]
fn processes_too_short_for_samples_are_beside_them() {
    // The kernel's default: a user may not sample the machine.
    let _level = if is_root() { Level::of(2) } else { Level::as_found() };
    let scene = ProfiledPrograms::new();
    scene.storm();
    let mut command = scene.as_user(&["--json", "--timer", "--", "./storm"]);
    let answer = scene.ask(&mut command);
    assert_eq!(answer["processes"], 201);
    let first = &answer["programs"][0];
    assert_eq!((&first["program"], &first["processes"]), (&"dirname".into(), &200.into()));
    let svg = scene.read("profile.svg");
    assert!(svg.contains("dirname (200 starts)") && svg.contains("(not sampled)"), "{svg}");
    assert!(kinds(&answer).contains(&"command_only"), "{answer:#}");
    scene.assert_well_formed("profile.svg");
}

#[test]
fn where_the_whole_machine_is_sampled_short_processes_are_hit() {
    let _level = Level::as_found();
    if !is_root() {
        return;
    }
    let scene = ProfiledPrograms::new();
    scene.storm();
    let command = ["--json", "--timer", "--frequency", "997", "--", "./storm"];
    let answer = scene.ask(&mut scene.becalm(&command));
    assert_eq!(answer["sampling"]["scope"], "machine");
    let (cpu, sampled) = (&answer["programs"][0]["cpu_us"], &answer["programs"][0]["sampled_us"]);
    let ratio = sampled.as_f64().unwrap() / cpu.as_f64().unwrap();
    assert!((0.3..3.0).contains(&ratio), "samples stand for {ratio} of dirname's time");
}

#[test]
fn what_the_kernel_forbids_is_said() {
    if !is_root() {
        return;
    }
    for level in [-1, 1, 2, 3, 4] {
        let _level = Level::of(level);
        let scene = ProfiledPrograms::new();
        scene.burn(&["-g"]);
        let answer = scene.ask(&mut scene.as_user(&["--json", "--", "./burn", "200"]));
        assert_eq!(answer["perf_event_paranoid"], level);
        let kinds = kinds(&answer);
        let says = |kind| kinds.contains(&kind);
        if says("no_samples") {
            // Debian's and Ubuntu's own kernels refuse everything from 3 or 4 on.
            assert!(level > 2 && answer["sampling"].is_null(), "{answer:#}");
            continue;
        }
        assert_eq!(says("command_only"), level > 0, "at {level}: {answer:#}");
        assert_eq!(says("no_kernel"), level > 1, "at {level}: {answer:#}");
        assert!(share(&answer, "leaf") > 0.8, "at {level}: {answer:#}");
    }
}

#[test]
fn without_perf_the_graph_is_of_process_starts() {
    let scene = ProfiledPrograms::new();
    scene.storm();
    fs::create_dir(scene.path().join("bin")).unwrap();
    std::os::unix::fs::symlink("/usr/bin/dirname", scene.path().join("bin/dirname")).unwrap();
    let ran = run(scene
        .becalm(&["--folded", "f", "--", "./storm"])
        .env("PATH", scene.path().join("bin")));
    assert_eq!(ran.code(), 0);
    assert!(said(&ran).contains("perf is not installed"), "{}", ran.err());
    assert!(said(&ran).contains("process starts alone"), "{}", ran.err());
    assert_eq!(scene.read("f"), "bash storm 1\nbash storm;dirname (200 starts) 200\n");
    scene.assert_well_formed("profile.svg");
}

#[test]
fn starts_are_as_wide_as_the_time_they_took() {
    let scene = ProfiledPrograms::new();
    let ran = scene.run(&["--starts", "wall", "--folded", "f", "--", "sh", "-c", "sleep 0.5; :"]);
    assert_eq!(ran.code(), 0);
    let folded = scene.read("f");
    let line = folded.lines().find(|line| line.contains(";sleep ")).unwrap();
    let micros: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((490_000..5_000_000).contains(&micros), "{folded}");
}

/// The real perf, but something happens to it.
fn troubled(scene: &ProfiledPrograms, script: &str) -> Ran {
    fs::create_dir_all(scene.path().join("bin")).unwrap();
    scene.file("bin/perf", script);
    let path = format!("{}:/usr/bin:/bin", scene.path().join("bin").display());
    run(scene.becalm(&["--", "sh", "-c", "touch go; sleep 2; exit 7"]).env("PATH", path))
}

#[test]
fn a_perf_that_is_killed_in_the_middle_costs_samples_only() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    let ran = troubled(
        &scene,
        "#!/bin/sh\n[ $1 = record ] || exec /usr/bin/perf \"$@\"\n\
         /usr/bin/perf \"$@\" & until [ -e go ]; do sleep 0.05; done; kill -KILL $!; wait $!\n",
    );
    assert_eq!(ran.code(), 7, "{}", ran.err());
    assert!(said(&ran).contains("samples are missing: perf record ended"), "{}", ran.err());
    scene.assert_well_formed("profile.svg");
    scene.assert_clean();
}

#[test]
fn a_perf_that_does_not_start_is_told_and_the_command_runs() {
    let scene = ProfiledPrograms::new();
    let ran =
        troubled(&scene, "#!/bin/sh\necho 'WARNING: perf not found for kernel 9' >&2; exit 2\n");
    assert_eq!(ran.code(), 7, "{}", ran.err());
    let why = "perf record ended with status 2: WARNING: perf not found for kernel 9";
    assert!(said(&ran).contains(why), "{}", ran.err());
}

#[test]
fn whatever_perf_script_prints_the_answer_comes() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    let ran = troubled(
        &scene,
        "#!/bin/sh\n[ $1 = script ] || exec /usr/bin/perf \"$@\"\nhead -c 3000000 /dev/urandom\n",
    );
    assert_eq!(ran.code(), 7, "{}", ran.err());
    scene.assert_well_formed("profile.svg");
}

#[test]
fn a_command_that_no_sample_hits_is_told_so() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    let command = ["--json", "--timer", "--frequency", "1", "--", "true"];
    let answer = scene.ask(&mut scene.becalm(&command));
    assert_eq!(answer["samples"], 0, "{answer:#}");
    assert!(kinds(&answer).contains(&"none_hit"), "{answer:#}");
    scene.assert_well_formed("profile.svg");
}

#[test]
fn names_that_break_markup_do_not() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    let name = "a<&\"'\u{1b}[31m\n;b 12";
    scene.file(name, "#!/bin/bash\n:\n");
    let ran = scene.run(&["--", &format!("./{name}")]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(!ran.err().contains("\u{1b}[31m"), "{}", ran.err());
    scene.assert_well_formed("profile.svg");
}

#[test]
fn the_command_reads_writes_and_ends_as_without() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    let mut command = scene.becalm(&["--", "sh", "-c", "cat; echo err >&2; exit 3"]);
    let ran = testkit::live::run_with_input(&mut command, b"in\n");
    assert_eq!((ran.code(), ran.out().as_str()), (3, "in\n"));
    assert!(ran.err().starts_with("err\n"), "{}", ran.err());
    assert_eq!(scene.run(&["--", "./none"]).code(), 127);
    assert_eq!(scene.run(&["--", "/"]).code(), 126);
    scene.file("notes.txt", "precious\n");
    let ran = scene.run(&["-o", "notes.txt", "--", "true"]);
    assert_eq!(ran.code(), 125);
    assert!(said(&ran).contains("no SVG"), "{}", ran.err());
    assert_eq!(scene.read("notes.txt"), "precious\n");
    scene.assert_clean();
}

#[test]
fn ctrl_c_is_the_commands() {
    let _level = Level::as_found();
    let scene = ProfiledPrograms::new();
    scene.file(
        "trap",
        "#!/bin/bash\ntrap 'echo trapped; kill $!; exit 5' INT\necho ready\nsleep 60 & wait\n",
    );
    let mut command = scene.becalm(&["--", "./trap"]);
    command.process_group(0).stdin(Stdio::null());
    let mut live = testkit::live::Live::start(&mut command);
    assert_eq!(live.line(), "ready");
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: a signal to the group that was just made.
    unsafe { libc::kill(-(live.child.id() as i32), libc::SIGINT) };
    let ran = live.end();
    assert_eq!(ran.code(), 5, "{}", ran.err());
    assert!(ran.out().contains("trapped"), "{}", ran.out());
    scene.assert_well_formed("profile.svg");
    scene.assert_clean();
}
