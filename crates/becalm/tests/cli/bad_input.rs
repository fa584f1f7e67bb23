//! What cannot work gets one clear line, the documented status, and leaves nothing that looks
//! whole.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use testkit::arch::LOADER;
use testkit::seen::marks;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Ran, Scene, run, trap};

/// Directories that everybody may look into: in others a command is not known to be missing.
const PATH: &str = "/usr/bin:/bin";

/// Asserts a status, nothing on standard output, and one line on standard error that holds all
/// of these texts.
#[track_caller]
fn assert_one_line(ran: &Ran, status: i32, texts: &[&str]) {
    let said = ran.err();
    assert_eq!((ran.code(), ran.out().as_str()), (status, ""), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("becalm: "), "{said}");
    for text in texts {
        assert!(said.contains(text), "no {text:?} in: {said}");
    }
}

/// An ELF header of a program for that machine (elf(5), `e_machine`).
fn elf_for(machine: u16) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend(2u16.to_le_bytes());
    bytes.extend(machine.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.resize(256, 0);
    bytes
}

/// Asserts that a command cannot be executed: the status, the line, and no recording.
#[track_caller]
fn assert_cannot_execute(scene: &Scene, command: impl AsRef<OsStr>, status: i32, texts: &[&str]) {
    assert_one_line(&run(scene.record(&[command]).env("PATH", PATH)), status, texts);
    assert!(!Path::new(&scene.rec()).exists(), "it left a recording");
}

#[test]
fn what_cannot_be_executed_has_envs_status_and_says_why() {
    let scene = Scene::new();
    let missing = scene.at("missing");
    let below = scene.file("file", "", 0o644) + "/below";
    let plain = scene.file("plain", "#!/bin/sh\n", 0o644);
    let directory = scene.subdirectory("directory");
    let looping = scene.at("looping");
    std::os::unix::fs::symlink(&looping, &looping).unwrap();
    let lost = scene.file("lost", "#!/nonexistent/interpreter -x\n", 0o755);
    let unlinked = scene.file("unlinked", with_interpreter(b"/lost/"), 0o755);
    for (command, status, texts) in [
        ("no-such-command-anywhere", 127, &["no-such-command-anywhere", "not found"][..]),
        ("", 127, &[]),
        (&missing, 127, &[&missing, "not found"]),
        (&below, 126, &[&below, "ot a directory"]),
        (&plain, 126, &[&plain, "permission"]),
        (&directory, 126, &[&directory, "directory"]),
        (&looping, 126, &[&looping, "symbolic links"]),
        (&lost, 127, &[&lost, "/nonexistent/interpreter"]),
        (&unlinked, 127, &[&unlinked, "/lost/"]),
    ] {
        assert_eq!(
            run(Command::new("env").args(["--", command]).env("PATH", PATH)).code(),
            status,
            "env {command}"
        );
        assert_cannot_execute(&scene, command, status, texts);
    }
}

/// A copy of true(1), whose interpreter's path begins with these six bytes instead.
fn with_interpreter(start: &[u8; 6]) -> Vec<u8> {
    let mut bytes = fs::read("/bin/true").unwrap();
    let interpreter = LOADER.as_bytes();
    let at = bytes.windows(interpreter.len()).position(|part| part == interpreter).unwrap();
    bytes[at..at + 6].copy_from_slice(start);
    bytes
}

/// env(1) would hand such a file to the shell, which runs what it takes for words in it.
#[test]
fn an_elf_file_of_another_machine_or_of_none_is_no_script() {
    let scene = Scene::new();
    for (name, machine, called) in
        [("arm", 183, "aarch64"), ("power", 21, "ppc64"), ("risc", 243, "riscv")]
    {
        let foreign = scene.file(name, elf_for(machine), 0o755);
        assert_cannot_execute(&scene, &foreign, 126, &[&foreign, called]);
    }
    let garbled = scene.file("garbled", b"\x7fELF; touch /tmp/x", 0o755);
    assert_cannot_execute(&scene, &garbled, 126, &[&garbled, "format"]);
}

#[test]
fn a_name_with_control_characters_is_said_in_one_plain_line() {
    let scene = Scene::new();
    for name in [&b"no\nsuch"[..], b"/no/\x1b[31msuch", b"/no/\xff\xfe", b"/tmp\r"] {
        let ran = run(scene.record(&[OsStr::from_bytes(name)]).env("PATH", PATH));
        assert_one_line(&ran, 127, &["not found"]);
        let odd = |byte: &u8| byte.is_ascii_control() && *byte != b'\n';
        assert!(!ran.stderr.iter().any(odd), "{}", ran.stderr.escape_ascii());
    }
}

#[test]
fn a_command_that_cannot_run_leaves_an_older_recording_as_it_was() {
    let scene = Scene::new();
    assert_eq!(run(&mut scene.record(&["true"])).code(), 0);
    let before = fs::read(scene.rec()).unwrap();
    assert_eq!(run(&mut scene.record(&[scene.at("missing")])).code(), 127);
    assert_eq!(fs::read(scene.rec()).unwrap(), before);
    // One that runs replaces it, also where it is the longer one.
    let ran = run(&mut scene.record(&[&trap("opens"), "longer", "50000"]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(run(&mut scene.record(&["true"])).code(), 0);
    assert_eq!(marks(&scene.recording(), "longer"), 0);
    assert!(scene.shows_a_whole_recording());
}

#[test]
fn a_wrong_command_line_is_usage() {
    let scene = Scene::new();
    let rec = scene.rec();
    for words in [
        &["record"][..],
        &["record", "-o", &rec],
        &["record", "-o", &rec, "--"],
        &["record", "--", "true"],
        &["record", "-o"],
        &["record", "-o", "", "--", "true"],
        &["record", "--no-such-option", "-o", &rec, "--", "true"],
        &["report"],
        &["report", &rec, "--by", "no-such-column"],
    ] {
        let ran = run(Command::new(BECALM).args(words));
        assert_eq!((ran.code(), ran.out()), (2, String::new()), "{words:?}");
        assert!(ran.err().contains("error: ") || ran.err().contains("Usage: "), "{}", ran.err());
    }
    assert!(!Path::new(&rec).exists());
}

/// Records `touch witness` to `output`, which cannot work, and asserts that it did not run.
#[track_caller]
fn assert_cannot_record_to(scene: &Scene, output: &str, texts: &[&str]) {
    let witness = scene.at("witness");
    let ran = run(Command::new(BECALM).args(["record", "-o", output, "--", "touch", &witness]));
    assert_one_line(&ran, 125, texts);
    assert!(!Path::new(&witness).exists(), "the command ran");
}

#[test]
fn where_no_recording_can_be_written_the_command_does_not_run() {
    let scene = Scene::new();
    let directory = scene.subdirectory("directory");
    let in_nothing = scene.at("nothing/rec");
    assert_cannot_record_to(&scene, &directory, &[&directory, "directory"]);
    assert_cannot_record_to(&scene, &in_nothing, &[&in_nothing, "No such file"]);
    // A disk that is full from the start.
    assert_cannot_record_to(&scene, "/dev/full", &["No space left"]);
}

#[test]
fn an_ordinary_user_cannot_record_into_anothers_directory() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let others = Scene::new();
    let witness = scene.at("witness");
    let words = [&scene.at("becalm"), "record", "-o", &others.rec(), "--", "touch", &witness];
    assert_one_line(&run(&mut as_a_user(&words)), 125, &[&others.rec(), "ermission denied"]);
    assert!(!Path::new(&witness).exists(), "the command ran");
}

#[test]
fn a_file_that_is_no_recording_is_not_written_over() {
    let scene = Scene::new();
    for text in ["x", "a letter\n", "becalm-recor"] {
        let file = scene.file("precious", text, 0o644);
        assert_cannot_record_to(&scene, &file, &[&file, "not a recording"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    std::os::unix::fs::symlink(scene.at("precious"), scene.at("link")).unwrap();
    assert_cannot_record_to(&scene, &scene.at("link"), &["not a recording"]);
}

#[test]
fn a_disk_that_fills_up_cuts_the_recording_and_not_the_command() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let disk = scene.subdirectory("disk");
    let copy = scene.at("copy");
    // The mount is in a namespace of its own: it goes with the shell.
    let script = format!(
        "mount -t tmpfs -o size=1m becalm-test {disk} || exit 99; \
         {BECALM} record -o {disk}/rec -- {} 150000 150000 < /dev/null; \
         status=$?; cp {disk}/rec {copy}; exit $status",
        trap("many_calls"),
    );
    let ran = run(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    assert_eq!((ran.code(), ran.out()), (0, "asked\n".into()), "{}", ran.err());
    assert!(ran.err().lines().count() == 1 && ran.err().contains("No space left"), "{}", ran.err());
    let recording = testkit::scene::open(&copy);
    assert!(!recording.is_whole() && recording.cut.is_some());
    assert!(recording.events.len() > 10_000, "what fitted is readable");
}

#[test]
fn a_file_size_limit_cuts_the_recording_and_not_the_command() {
    let scene = Scene::new();
    let setup = format!(
        "ulimit -f 64; exec {BECALM} record -o {} -- {} 100000 100000",
        scene.rec(),
        trap("many_calls")
    );
    let ran = run(Command::new("bash").args(["-c", &setup]));
    assert_eq!((ran.code(), ran.out()), (0, "asked\n".into()), "{}", ran.err());
    assert!(ran.err().lines().count() == 1 && ran.err().contains("too large"), "{}", ran.err());
    assert!(scene.recording().cut.is_some());
}

#[test]
fn where_ptrace_is_forbidden_it_says_by_what_and_the_command_does_not_run() {
    let scene = Scene::new();
    let witness = scene.at("witness");
    let mut command = Command::new(trap("refused_call"));
    command.args(["ptrace", BECALM, "record", "-o", &scene.rec(), "--", "touch", &witness]);
    let ran = run(&mut command);
    assert_one_line(&ran, 125, &["ptrace", "seccomp"]);
    assert!(!Path::new(&witness).exists(), "the command ran");
    assert!(!Path::new(&scene.rec()).exists(), "it left a recording");
}

/// `becalm report` of a file.
fn report(file: &str) -> Ran {
    run(Command::new(BECALM).args(["report", file, "--by", "syscall"]))
}

#[test]
fn what_is_no_recording_is_said_to_be_none() {
    let scene = Scene::new();
    let missing = scene.at("missing");
    let directory = scene.subdirectory("directory");
    let empty = scene.file("empty", "", 0o644);
    let foreign = scene.file("foreign", "#!/bin/sh\necho hello\n", 0o755);
    let newer = scene.file("newer", "becalm-record 9\nand more than sixteen bytes", 0o644);
    let headless = scene.file("headless", "becalm-record 1\n", 0o644);
    assert_one_line(&report(&missing), 1, &[&missing, "No such file"]);
    assert_one_line(&report(&directory), 1, &[&directory, "irectory"]);
    assert_one_line(&report(&empty), 1, &[&empty, "not a recording"]);
    assert_one_line(&report(&foreign), 1, &[&foreign, "not a recording"]);
    assert_one_line(&report("/dev/zero"), 1, &["/dev/zero", "not a recording"]);
    assert_one_line(&report(&newer), 1, &[&newer, "format", "9"]);
    assert_one_line(&report(&headless), 1, &[&headless, "header"]);
}

#[test]
fn a_recording_that_one_may_not_read_is_named() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let secret = scene.file("secret", "becalm-record 1\n", 0o600);
    let ran = run(&mut as_a_user(&[&scene.at("becalm"), "report", &secret]));
    assert_one_line(&ran, 1, &[&secret, "ermission denied"]);
}

#[test]
fn a_recording_cut_anywhere_is_read_up_to_there_or_refused_and_never_whole() {
    let scene = Scene::new();
    let ran = run(&mut scene.record(&[&trap("opens"), "cut", "20000"]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let whole = fs::read(scene.rec()).unwrap();
    let mut most = 0;
    for part in 0..40 {
        let file = scene.file("part", &whole[..whole.len() * part / 40], 0o644);
        let ran = report(&file);
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        match ran.code() {
            0 => assert!(ran.err().contains("recording is cut"), "{}", ran.err()),
            1 => assert_eq!(ran.out(), ""),
            other => panic!("status {other}: {}", ran.err()),
        }
        if let Ok(recording) = recording::Recording::open(file.as_ref()) {
            assert!(!recording.is_whole());
            most = most.max(marks(&recording, "cut-"));
        }
    }
    assert!(most > 10_000, "nearly all of it is read from its last part: {most}");
}

#[test]
fn a_recording_with_flipped_bytes_is_refused_or_read_and_never_a_panic() {
    let scene = Scene::new();
    assert_eq!(run(&mut scene.record(&["true"])).code(), 0);
    let good = fs::read(scene.rec()).unwrap();
    for at in (0..good.len()).step_by(good.len() / 60 + 1) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        let ran = report(&scene.file("flipped", bytes, 0o644));
        assert!([0, 1].contains(&ran.code()), "byte {at}: {}", ran.err());
        assert!(!ran.err().contains("panic"), "byte {at}: {}", ran.err());
        assert_eq!(ran.err().lines().count(), 1, "byte {at}: {}", ran.err());
    }
}

/// A batch job's standard error may lie on a full disk: that is no reason for its command not to
/// run, or for its status to be lost.
#[test]
fn where_standard_error_takes_nothing_all_goes_on() {
    let scene = Scene::new();
    let recording = scene.at("x.becalm");
    let witness = scene.at("witness");
    let line = |text: &str| text.replace("REC", &recording).replace("WITNESS", &witness);
    for (words, status) in [
        ("run --aslr off --json -- touch WITNESS", 0),
        ("record -o REC -- sh -c 'sleep 0.1 & exit 3'", 3),
        ("record --json -o REC -- sh -c 'exit 3'", 3),
        ("check --json=REC.json -- sh -c 'exit 3'", 3),
        ("fork lines -- sh -c 'sleep 0.1 >/dev/null & exit 3'", 3),
        ("record -o REC -- strace true", 1),
        ("record -o REC -- no-such-command", 127),
        ("check -- no-such-command", 127),
        ("report no-such-file", 1),
        ("elf tree no-such-file", 1),
        ("no-such-verb", 2),
        ("check ls", 2),
        ("report", 2),
    ] {
        let line = format!("exec {BECALM} {} 2>/dev/full", line(words));
        let ran = run(Command::new("sh").args(["-c", &line]));
        assert_eq!(ran.code(), status, "{words}");
    }
    assert!(Path::new(&witness).exists(), "the command did not run");
}

#[test]
fn what_is_no_answer_is_not_written_over_and_two_files_have_two_names() {
    let scene = Scene::new();
    let mine = scene.file("mine", "my notes\n", 0o644);
    let directory = scene.directory();
    scene.subdirectory("tree");
    let at = |words: &[&str]| {
        let mut becalm = Command::new(BECALM);
        becalm.args(words).args(["--", "sh", "-c", "echo ran"]);
        run(becalm.current_dir(&directory).env("XDG_STATE_HOME", scene.at("state")))
    };
    for words in [
        &["check", "--json=mine"][..],
        &["rehearse", "--profile", "nfs", "--json=mine", "tree"],
        &["lab", "profile", "-o", "graph.svg", "--folded", "mine"],
        &["fork", "lines", "--json=mine"],
    ] {
        let ran = at(words);
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{words:?}: {}", ran.err());
        assert!(ran.err().contains("choose another name"), "{words:?}: {}", ran.err());
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "my notes\n", "{words:?}");
    }
    std::fs::write(scene.at("two"), "").unwrap();
    std::fs::hard_link(scene.at("two"), scene.at("three")).unwrap();
    for words in [
        &["check", "-o", "one", "--json=./one"][..],
        &["check", "-o", "two", "--json=three"],
        &["check", "--html=one", "--json=one"],
        &["rehearse", "--profile", "nfs", "--by", "tracer", "--json=one", "--record=one", "tree"],
        &["lab", "profile", "-o", "one", "--folded", "one"],
    ] {
        let ran = at(words);
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{words:?}: {}", ran.err());
        assert!(ran.err().contains("choose two"), "{words:?}: {}", ran.err());
    }
}

#[test]
fn exports_of_a_proof_and_a_projection_are_written_over_their_own_kind_only() {
    let scene = Scene::new();
    let directory = scene.directory();
    let at = |words: &[&str]| {
        let mut becalm = Command::new(BECALM);
        run(becalm.args(words).current_dir(&directory).env("XDG_STATE_HOME", scene.at("state")))
    };
    let mine = scene.file("mine", "my notes\n", 0o644);
    assert_eq!(at(&["record", "-o", "rec", "--", "true"]).code(), 0);
    let prove = ["prove", "--runs", "1", "--before", "true", "--after", "true"];
    let refused = |words: &[&str], why: &str| {
        let ran = at(words);
        assert!([1, 125].contains(&ran.code()) && ran.out().is_empty(), "{words:?}: {}", ran.err());
        assert!(ran.err().contains(why), "{words:?}: {}", ran.err());
    };
    for export in ["--export-json", "--export-csv", "--export-markdown"] {
        refused(&[&prove[..], &[export, "mine"]].concat(), "choose another name");
        for _ in 0..2 {
            let ran = at(&[&prove[..], &[export, &export[2..]]].concat());
            assert!(ran.err().is_empty() && !ran.out().is_empty(), "{export}: {}", ran.err());
        }
    }
    refused(&["scale", "rec", "--csv", "mine"], "choose another name");
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "my notes\n");
    for _ in 0..2 {
        assert_eq!(at(&["scale", "rec", "--below", "/", "--csv", "scale.csv"]).code(), 0);
    }
    refused(&["scale", "rec", "--csv", "one", "--html", "one"], "choose two");
    refused(
        &[&prove[..], &["--export-csv", "one", "--export-json", "./one"]].concat(),
        "choose two",
    );
    let before = ["--keep", "k", "--export-csv", "k/before.becalm"];
    std::fs::create_dir(scene.at("k")).unwrap();
    refused(&[&prove[..], &before].concat(), "choose two");
}

/// Whoever waits for a reader that never comes can be told to end.
#[test]
fn a_fifo_that_nobody_reads_keeps_no_signal_away() {
    let scene = Scene::new();
    for verb in ["check", "rehearse --profile nfs .", "fork lines", "lab profile -o g.svg"] {
        let script = "mkfifo fifo; timeout -s TERM 3 \"$BECALM\" $0 --json=fifo -- sh -c 'exit 5'; echo $?; rm fifo";
        let script = script.replace(
            "$0 --json=fifo",
            &match verb.split_once(" --profile") {
                Some((verb, rest)) => format!("{verb} --json=fifo --profile{rest}"),
                None => format!("{verb} --json=fifo"),
            },
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(scene.directory()).env("BECALM", BECALM);
        let ran = run(&mut shell);
        assert_eq!(ran.out(), "124\n", "{verb}: {}", ran.err());
    }
}
