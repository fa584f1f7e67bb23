//! becalm counts what strace counts, on programs of the distribution.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use super::BACKEND;
use crate::BECALM;
use recording::{Outcome, Recording, errno_name};
use testkit::strace::{self, TracedPath};
#[cfg(target_arch = "x86_64")]
use testkit::trap_with;
use testkit::{Scene, run, trap};

/// Programs that a distribution has, each with something of its own: the loader, forks, pipes,
/// subshells, directory walks, compilers. They run in a directory with the files below.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("emacs --version", &["emacs", "--version"]),
    ("emacs --batch", &["emacs", "-Q", "--batch", "--eval", "(princ (+ 1 2))"]),
    ("python3", &["/usr/bin/python3", "-c", "import json, email, sqlite3"]),
    ("python3 -m", &["/usr/bin/python3", "-m", "json.tool", "data.json"]),
    ("git status", &["git", "-C", "repo", "status"]),
    ("git log", &["git", "-C", "repo", "--no-pager", "log", "--stat"]),
    ("bash loop", &["bash", "-c", "for i in 1 2 3 4 5 6 7 8 9; do dirname /a/b/$i; done"]),
    ("bash subshells", &["bash", "-c", "x=$(basename /a/b); y=$(echo $x; (echo sub)); echo $y"]),
    ("bash functions", &["bash", "script.sh", "one", "two"]),
    ("sh", &["sh", "-c", "mkdir d; cd d; echo x > f; cat f; test -e g || rm f; cd ..; rmdir d"]),
    ("find", &["find", "/usr/share/perl", "-name", "*.pm", "-newer", "hello.c"]),
    ("ls -lR", &["ls", "-lR", "/usr/share/perl"]),
    ("perl", &["perl", "-e", "use POSIX; use File::Find; find(sub {}, '/usr/share/perl5')"]),
    ("tclsh", &["tclsh", "walk.tcl"]),
    ("gcc", &["gcc", "-c", "hello.c", "-o", "hello.o"]),
    ("gcc and link", &["gcc", "hello.c", "-o", "hello"]),
    ("make", &["make", "-B", "-s", "all"]),
    ("tar", &["tar", "-cf", "/dev/null", "-C", "/usr/share", "perl"]),
    ("sed", &["sed", "-n", "s/a/b/p", "/etc/passwd", "/nonexistent"]),
    ("awk", &["awk", "-F:", "{ print $1 | \"cat\" }", "/etc/passwd"]),
    ("sort", &["sort", "-o", "sorted", "/etc/services"]),
    ("xargs", &["sh", "-c", "printf 'a\\nb\\nc\\n' | xargs -n 1 dirname"]),
];

/// A scene with the files that the programs work on.
fn workshop() -> Scene {
    let scene = BACKEND.scene();
    scene.file(
        "hello.c",
        "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n",
        0o644,
    );
    scene.file("data.json", "{\"a\": [1, 2, 3]}", 0o644);
    scene.file("Makefile", "all:\n\t@echo one\n\t@dirname /a/b | cat\n", 0o644);
    scene.file("script.sh", "f() { local x=$(dirname \"$1\"); echo \"$x\" >&2; }\n\
        . ./more.sh\nfor word in \"$@\"; do f $word; done\nwhile read -r line; do :; done < data.json\n", 0o644);
    scene.file("more.sh", "test -f Makefile && command -v awk no-such-tool\n", 0o644);
    scene.file(
        "walk.tcl",
        "foreach f [glob /usr/share/perl/*] { puts [file size $f] }\nexec dirname /a/b\n",
        0o644,
    );
    // The files are older than git's index of them: of one as young as the index `git status` looks
    // at the contents, and writes the index anew if nobody else has.
    let git = "git init -q repo; cd repo; echo a > a; mkdir b; echo c > b/c; \
        touch -d 2020-01-01 a b/c; git add .; \
        git -c user.name=n -c user.email=e commit -q -m m; echo more >> a; git status";
    let made = run(Command::new("sh").args(["-c", git]).current_dir(scene.directory()));
    assert!(made.status.success(), "{}", made.err());
    scene
}

/// What `becalm report --by syscall` prints for a command, without the times.
#[track_caller]
fn becalm_table(scene: &Scene, all: bool, words: &[&str]) -> String {
    let mut record = if all { scene.record_all(words) } else { scene.record(words) };
    let ran = run(record.current_dir(scene.directory()));
    assert_ne!(ran.status.code(), Some(125), "{}", ran.err());
    let report = run(Command::new(BECALM).args(["report", &scene.rec(), "--by", "syscall"]));
    assert_eq!((report.code(), report.err()), (0, String::new()));
    strace::counts(&report.out())
}

/// Programs whose memory calls (perl seeds its hashes, the linker and Tcl their temporary names,
/// for which glibc asks again once in 22 times; the compiler's heap starts within a page or on its
/// edge) or whose returns from a SIGCHLD handler (children end side by side) differ from run to
/// run. What they ask of files does not.
const CHANGING: [&str; 8] =
    ["perl", "make", "xargs", "awk", "bash subshells", "gcc", "gcc and link", "tclsh"];

/// Compares the tables of all programs that are deterministic: those of which strace itself
/// gives the same table each time. At least `least` must be.
#[track_caller]
fn assert_equal_tables(all: bool, least: usize) {
    let scene = workshop();
    let mut deterministic = Vec::new();
    let mut differences = String::new();
    for (name, words) in PROGRAMS {
        if all && CHANGING.contains(name) {
            continue;
        }
        // Warm: what a first run leaves behind (a file of its own, a refreshed index).
        strace::table(&scene, all, words);
        let strace = strace::table(&scene, all, words);
        let mut becalm = becalm_table(&scene, all, words);
        // A difference is looked into: has a child's end cut a fork short, or is it strace's own?
        for _ in 0..20 {
            if becalm == strace || !is_fork_repeated(&scene.recording()) {
                break;
            }
            becalm = becalm_table(&scene, all, words);
        }
        let more_runs = if becalm == strace { 1 } else { 8 };
        if (0..more_runs).any(|_| strace::table(&scene, all, words) != strace) {
            continue;
        }
        deterministic.push(name);
        if becalm != strace {
            differences += &format!("{name}, strace:\n{strace}becalm:\n{becalm}\n");
        }
    }
    eprintln!("{} deterministic programs: {deterministic:?}", deterministic.len());
    assert!(differences.is_empty(), "{differences}");
    assert!(deterministic.len() >= least, "only {deterministic:?} are deterministic");
}

/// Whether a signal came just when a process was forked: the kernel then says ERESTARTNOINTR, and
/// makes the call again. A shell that starts a pipe draws that at times, when the pipe's first
/// process ends.
fn is_fork_repeated(recording: &Recording) -> bool {
    const ERESTARTNOINTR: u16 = 513;
    let mut events = recording.events.iter();
    events.any(|event| event.outcome == Outcome::Failed(ERESTARTNOINTR))
}

#[test]
fn calls_and_errors_of_deterministic_programs_are_straces_to_the_byte() {
    assert_equal_tables(false, 15);
}

#[test]
fn with_all_syscalls_they_are_straces_of_everything() {
    assert_equal_tables(true, 10);
}

/// The numbers of the calls that this strace does not know: its log has them as `syscall_0x…`,
/// its table leaves them out.
fn unknown_to_strace(scene: &Scene, program: &str) -> Vec<String> {
    let log = scene.at("unknown");
    let ran = run(Command::new("strace").args(["-e", "trace=all", "-o", &log, program]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let log = std::fs::read_to_string(log).unwrap();
    let numbers = log.lines().filter_map(|line| line.strip_prefix("syscall_0x")?.split_once('('));
    numbers.map(|(hex, _)| u32::from_str_radix(hex, 16).unwrap().to_string()).collect()
}

#[test]
fn every_system_call_is_in_the_classes_that_strace_puts_it_in() {
    let scene = BACKEND.scene();
    let every_call = trap("every_call");
    let unknown = unknown_to_strace(&scene, &every_call);
    let mut words = vec![every_call.as_str()];
    words.extend(unknown.iter().map(String::as_str));
    for all in [false, true] {
        let strace = strace::table(&scene, all, &words);
        // Arm has one way each to open, stat and fork.
        let least = if all { 250 } else { 130 };
        assert!(strace.lines().count() > least, "{strace}");
        let becalm = becalm_table(&scene, all, &words);
        assert_eq!(becalm, strace);
    }
}

/// The words of each execve in a log of strace's.
fn executed(log: &str) -> Vec<String> {
    let calls = log.lines().filter_map(|line| line.split_once(" execve(")?.1.split_once("], "));
    calls.map(|(words, _)| words.to_owned()).collect()
}

#[test]
fn the_words_of_what_is_executed_are_straces_byte_for_byte() {
    let scene = BACKEND.scene();
    let script = r"/bin/true $'\xff1\xc3\xa9\n' \ufffd; exec /bin/true $'\x80' ''";
    let words = [b"bash".as_slice(), b"-c", script.as_bytes(), b"\xfe%\"0"].map(OsStr::from_bytes);
    let (log, file) = (scene.at("log"), scene.at("recording.becalm"));
    let strace = ["-f", "-s", "4096", "-e", "trace=execve", "-o", &log];
    assert_eq!(run(Command::new("strace").args(strace).args(words)).code(), 0);
    let record = ["record", "-o", &file, "--"];
    assert_eq!(run(Command::new(BECALM).args(record).args(words)).code(), 0);
    let exported = run(Command::new(BECALM).args(["export", &file, "--format", "strace"])).out();
    let strace = executed(&std::fs::read_to_string(log).unwrap());
    assert_eq!(strace.len(), 3, "{strace:?}");
    assert_eq!(executed(&exported), strace);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_programs_calls_have_straces_names_and_counts() {
    let scene = BACKEND.scene();
    let opens = trap_with("opens", &["-m32"]);
    for all in [false, true] {
        let words = [opens.as_str(), "m32", "20"];
        assert_eq!(becalm_table(&scene, all, &words), strace::table(&scene, all, &words));
    }
}

/// What becalm recorded, as [`strace::paths`] gives what strace logged.
fn becalm_paths(scene: &Scene, words: &[&str]) -> BTreeMap<TracedPath, usize> {
    run(scene.record(words).current_dir(scene.directory()));
    let recording = scene.recording();
    assert!(recording.is_whole());
    let mut asked = BTreeMap::new();
    for event in &recording.events {
        let name = event.call.name();
        if !event.call.class().file || event.by_descriptor || name == "getcwd" {
            continue;
        }
        let path = event.path.map_or(&b""[..], |path| recording.path(path));
        let error = match event.outcome {
            Outcome::Failed(error) => errno_name(error).into_owned(),
            Outcome::Returned(_) => String::new(),
        };
        *asked.entry((name, strace::absolute(b"", path), error)).or_default() += 1;
    }
    asked
}

#[test]
fn the_paths_are_straces_path_for_path() {
    for (name, words) in PROGRAMS {
        if ["gcc", "gcc and link", "sort", "tclsh"].contains(name) {
            continue; // They make temporary names, which differ from run to run.
        }
        let scene = workshop();
        let strace = strace::paths(&scene, words);
        let becalm = becalm_paths(&scene, words);
        assert!(strace.len() > 3, "{name}: {strace:?}");
        let only = |these: &BTreeMap<TracedPath, usize>,
                    those: &BTreeMap<TracedPath, usize>|
         -> Vec<String> {
            let missing = these.iter().filter(|(asked, times)| those.get(asked) != Some(times));
            missing
                .map(|((call, path, error), times)| {
                    format!("{times} x {call} {} {error}", path.escape_ascii())
                })
                .collect()
        };
        let (strace_only, becalm_only) = (only(&strace, &becalm), only(&becalm, &strace));
        assert!(
            strace_only.is_empty() && becalm_only.is_empty(),
            "{name}: strace {strace_only:#?}, becalm {becalm_only:#?}"
        );
    }
}
