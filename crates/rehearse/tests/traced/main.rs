//! A rehearsal by delays in the tracer: what reaches the server, and what it takes.
//!
//! A program of its own (`harness = false`): commands are recorded by a process with one thread,
//! and test harnesses have several. With arguments it is the recorder, or a command that times
//! its calls.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use cost::{FilesystemProfile, RpcKind};
use recording::{Nanos, Recording};
use rehearse::traced::{self, TracedRehearsal};
use rehearse::{Account, RehearsalRequest};
use testkit::Scene;

/// A directory to rehearse, with the files `a/b/file` and `a/script`, and beside it what a test
/// needs.
struct SlowTree {
    scene: Scene,
}

/// What came of a command.
struct Ran {
    account: Account,
    output: String,
    status: i32,
}

impl SlowTree {
    fn new() -> SlowTree {
        let scene = SlowTree { scene: Scene::for_everyone() };
        std::fs::create_dir_all(scene.tree().join("a/b")).unwrap();
        std::fs::write(scene.tree().join("a/b/file"), "text\n").unwrap();
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scene.path(name)
    }

    fn tree(&self) -> PathBuf {
        self.at("tree")
    }

    /// The recorder that rehearses `path`.
    fn recorder(&self, profile: &str, path: &Path, words: &[&str]) -> Command {
        std::fs::write(self.at("profile"), profile).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("record").arg(self.at("profile")).arg(path);
        command.arg(self.at("account")).arg(self.at("rec")).args(words);
        command.current_dir(self.tree()).stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn ran(&self, command: &mut Command) -> Ran {
        let output = command.stderr(Stdio::inherit()).output().unwrap();
        let json = std::fs::read(self.at("account")).unwrap();
        Ran {
            account: serde_json::from_slice(&json).unwrap(),
            output: String::from_utf8(output.stdout).unwrap(),
            status: output.status.code().unwrap(),
        }
    }

    /// A command in the rehearsed tree, which must succeed.
    #[track_caller]
    fn run(&self, profile: &str, script: &str) -> Ran {
        let ran = self.ran(&mut self.recorder(profile, &self.tree(), &["sh", "-c", script]));
        assert_eq!(ran.status, 0);
        ran
    }
}

/// A profile of its own name, so that no other test shares its queue.
fn profile(round_trip: &str, service: &str, cache: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (pid, number) = (std::process::id(), NUMBER.fetch_add(1, Relaxed));
    format!(
        "name = \"test.{pid}.{number}\"\n[mds]\nround_trip = \"{round_trip}\"\n\
         service = \"{service}\"\n[cache]\n{cache}\n"
    )
}

const KEEPS_ALL: &str =
    "entries = \"forever\"\nnegatives = \"forever\"\nopen = \"cached\"\nlist = \"cached\"";
const KEEPS_NAMES: &str =
    "entries = \"forever\"\nnegatives = \"0\"\nopen = \"revalidated\"\nlist = \"revalidated\"";
const KEEPS_NOTHING: &str =
    "entries = \"0\"\nnegatives = \"0\"\nopen = \"revalidated\"\nlist = \"revalidated\"";

/// Operations by kind, those that are there.
fn counts(account: &Account) -> Vec<(RpcKind, u64)> {
    let all = RpcKind::ALL.into_iter().map(|kind| (kind, account.of(kind).rpcs));
    all.filter(|(_, number)| *number > 0).collect()
}

fn the_server_is_asked_for_what_the_node_does_not_know() {
    let scene = SlowTree::new();
    let profile = profile("0", "0", KEEPS_NAMES);
    let ran =
        scene.run(&profile, "cat a/b/file; cat a/b/file a/b/none 2>/dev/null; ls a >/dev/null");
    // Lookups of a, b, file and of none; two opens of the file; a listing.
    let expected = [(RpcKind::Lookup, 4), (RpcKind::Open, 2), (RpcKind::List, 1)];
    let counted = counts(&ran.account);
    assert_eq!(counted, expected, "{:#?}", ran.account);
    assert_eq!(ran.account.of(RpcKind::Lookup).enoent, 1);
    let path = |served: &rehearse::Served| ran.account.paths[served.path as usize].clone();
    let paths: Vec<_> = ran.account.served.iter().map(path).collect();
    assert!(paths.contains(&scene.tree().join("a/b").into_os_string().into_encoded_bytes()));
}

fn what_is_not_kept_is_asked_for_again() {
    let scene = SlowTree::new();
    let script = "for n in 1 2 3; do test -e a/b/none; test -e a/b/file; done; true";
    let count = |cache: &str| scene.run(&profile("0", "0", cache), script).account;
    assert_eq!(count(KEEPS_ALL).metadata().rpcs, 4);
    assert_eq!(count(KEEPS_NAMES).metadata().rpcs, 4 + 2);
    assert_eq!(count(KEEPS_NOTHING).metadata().rpcs, 3 * 6);
}

fn elsewhere_and_at_open_files_nothing_is_asked() {
    let scene = SlowTree::new();
    let ran = scene.run(&profile("0", "0", KEEPS_ALL), "ls /usr >/dev/null; test -e ../profile");
    assert_eq!(counts(&ran.account), []);
    // cat makes fstat and reads of the file.
    let ran = scene.run(&profile("0", "0", KEEPS_ALL), "cat < a/b/file; cat a/b/file");
    assert_eq!(counts(&ran.account), [(RpcKind::Lookup, 3)]);
}

fn each_operation_takes_its_round_trip_and_its_service() {
    let scene = SlowTree::new();
    let profile = profile("3ms", "2ms", KEEPS_NOTHING);
    let ran = scene.run(&profile, "test -e a/b/file");
    let sum = ran.account.metadata();
    assert_eq!((sum.rpcs, sum.queued), (3, Nanos(0)));
    assert_eq!(sum.waited, Nanos(15_000_000));
    let recording = Recording::open(&scene.at("rec")).unwrap();
    let longest = recording.events.iter().filter(|event| event.is_metadata());
    let longest = longest.map(|event| event.took).max().unwrap();
    assert!(longest.0 >= 14_900_000, "{longest:?}");
}

fn a_stat_of_200_us_takes_200_us() {
    let scene = SlowTree::new();
    let profile = profile("180us", "20us", KEEPS_NOTHING);
    let this = std::env::current_exe().unwrap();
    let words = [this.to_str().unwrap(), "stats", "a", "2000"];
    let ran = scene.ran(&mut scene.recorder(&profile, &scene.tree(), &words));
    let mut took: Vec<u64> = ran.output.lines().map(|line| line.parse().unwrap()).collect();
    took.sort_unstable();
    let (least, median, most) = (took[0], took[1000], took[1900]);
    println!("asked for 200 us: least {least} ns, p50 {median} ns, p95 {most} ns");
    assert!(least > 198_000, "{least}");
    assert!(median >= 200_000 && least < 400_000, "{least} {median}");
    assert_eq!(ran.account.of(RpcKind::Lookup).rpcs, 2000);
}

fn four_recorders_share_one_server() {
    let scenes = [SlowTree::new(), SlowTree::new(), SlowTree::new(), SlowTree::new()];
    let profile = profile("0", "200us", KEEPS_NOTHING);
    let this = std::env::current_exe().unwrap();
    let words = [this.to_str().unwrap(), "stats", "a", "2000"];
    let began = Instant::now();
    let ran: Vec<Ran> = std::thread::scope(|scope| {
        let (profile, words) = (&profile, &words);
        let run =
            |scene: &'_ SlowTree| scene.ran(&mut scene.recorder(profile, &scene.tree(), words));
        let all: Vec<_> = scenes.iter().map(|scene| scope.spawn(move || run(scene))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for ran in ran {
        let mut took: Vec<u64> = ran.output.lines().map(|line| line.parse().unwrap()).collect();
        took.sort_unstable();
        println!("one of four at a server of 200 us: p50 {} ns", took[1000]);
    }
    // The server takes one after the other, whoever of them gets a processor.
    assert!(began.elapsed().as_micros() > 8000 * 200);
    let name = profile.split('"').nth(1).unwrap().to_owned();
    let left = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let left: Vec<_> =
        left.filter(|file| file.file_name().to_string_lossy().contains(&name)).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn who_wants_the_same_name_waits_for_the_same_answer() {
    let scene = SlowTree::new();
    for number in 0..40 {
        std::fs::write(scene.tree().join(number.to_string()), "").unwrap();
    }
    let walk = "for n in $(seq 0 39); do test -e $n; done";
    let script = format!("({walk}) & ({walk}) & ({walk}) & ({walk}) & wait");
    let start = Instant::now();
    let ran = scene.run(&profile("10ms", "0", KEEPS_ALL), &script);
    assert_eq!(counts(&ran.account), [(RpcKind::Lookup, 40)]);
    // Four that ran ahead of one another would need a quarter of that.
    assert!(start.elapsed().as_millis() >= 400, "{:?}", start.elapsed());
}

fn a_directory_given_by_a_symbolic_link_is_rehearsed_by_both_its_names() {
    let scene = SlowTree::new();
    symlink("tree", scene.at("link")).unwrap();
    let script = "test -e ../link/a/b; test -e ../tree/a/b";
    let mut command =
        scene.recorder(&profile("0", "0", KEEPS_ALL), &scene.at("link"), &["sh", "-c", script]);
    assert_eq!(counts(&scene.ran(&mut command).account), [(RpcKind::Lookup, 2)]);
}

fn changes_are_asked_for_and_made() {
    let scene = SlowTree::new();
    let ran =
        scene.run(&profile("1ms", "0", KEEPS_ALL), "mkdir a/new; mv a/b a/new/b; rm a/new/b/file");
    assert_eq!(ran.account.of(RpcKind::Change).rpcs, 3);
    assert!(scene.tree().join("a/new/b").is_dir());
}

fn status_and_output_pass() {
    let scene = SlowTree::new();
    let words = ["sh", "-c", "cat a/b/file; exit 9"];
    let ran =
        scene.ran(&mut scene.recorder(&profile("1ms", "0", KEEPS_ALL), &scene.tree(), &words));
    assert_eq!((ran.output.as_str(), ran.status), ("text\n", 9));
}

fn what_cannot_be_rehearsed_or_run_is_said() {
    let scene = SlowTree::new();
    let profile = profile("0", "0", KEEPS_ALL);
    for (path, words, status, said) in [
        (scene.at("none"), ["true"], 125, "none: No such file or directory"),
        (scene.tree().join("a/b/file"), ["true"], 125, "is no directory"),
        (scene.tree(), ["no-such-command"], 127, "no-such-command"),
    ] {
        let output = scene.recorder(&profile, &path, &words).output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(said), "{error}");
    }
}

fn when_the_recorder_is_killed_it_is_said() {
    let scene = SlowTree::new();
    let script = "kill -9 $PPID; sleep 100";
    let words = ["sh", "-c", script];
    let output =
        scene.recorder(&profile("0", "0", KEEPS_ALL), &scene.tree(), &words).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8(output.stderr).unwrap().contains("killed by signal 9"));
}

/// The directory of python3's library.
fn python_library() -> PathBuf {
    let script = "import os; print(os.path.dirname(os.__file__), end='')";
    let output = Command::new("python3").args(["-c", script]).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap()).canonicalize().unwrap()
}

fn the_server_is_asked_for_the_same_as_through_fuse() {
    let scene = SlowTree::new();
    std::fs::write(scene.tree().join("a/b/second"), "").unwrap();
    symlink("b/file", scene.tree().join("a/link")).unwrap();
    let library = python_library();
    let imports = "python3 -c 'import json, asyncio'; python3 -c 'import json'";
    for cache in [KEEPS_ALL, KEEPS_NAMES, KEEPS_NOTHING] {
        for (directory, script) in [
            (&library, imports),
            (&scene.tree(), "ls -R .; cat a/b/file a/b/none 2>/dev/null; readlink a/link; ls -R a"),
        ] {
            let profile = profile("0", "0", cache);
            let mut command = scene.recorder(&profile, directory, &["sh", "-c", script]);
            let by_tracer = scene.ran(&mut command);
            let mut words: Vec<_> = command.get_args().map(OsString::from).collect();
            words[0] = "mounted".into();
            let mut command = Command::new(command.get_program());
            let by_fuse = scene.ran(command.args(words).current_dir(scene.tree()));
            assert_eq!(by_tracer.output, by_fuse.output);
            for kind in [RpcKind::Lookup, RpcKind::Open, RpcKind::List] {
                let (by_tracer, by_fuse) = (by_tracer.account.of(kind), by_fuse.account.of(kind));
                assert_eq!(by_tracer.rpcs, by_fuse.rpcs, "{kind:?} {script} {cache}");
                assert_eq!(by_tracer.enoent, by_fuse.enoent, "{kind:?} {script} {cache}");
            }
            // A link on the way is read, and no call of the command shows it.
            let links = |ran: &Ran| ran.account.of(RpcKind::Readlink).rpcs;
            assert!(links(&by_tracer) <= links(&by_fuse), "{script} {cache}");
        }
    }
}

fn programs_do_the_same_as_without() {
    let scene = SlowTree::new();
    let script = "python3 -c 'import json, asyncio, subprocess, threading; \
        t = [threading.Thread(target=subprocess.run, args=([\"ls\", \"a\"],)) for n in range(8)]; \
        [x.start() for x in t]; [x.join() for x in t]; print(json.dumps(t is not None))'; \
        for n in $(seq 64); do cat a/b/file & done; wait; ls -R . | sort; git --version";
    let mut plain = Command::new("sh");
    let plain = plain.args(["-c", script]).current_dir(scene.tree()).output().unwrap();
    assert!(plain.status.success());
    for profile in ["nfs", "lustre", "gpfs", "local"] {
        for directory in [python_library(), scene.tree()] {
            let text = FilesystemProfile::built_in().find(|(name, _)| *name == profile).unwrap().1;
            let ran = scene.ran(&mut scene.recorder(text, &directory, &["sh", "-c", script]));
            assert_eq!(ran.status, 0);
            assert_eq!(ran.output, String::from_utf8(plain.stdout.clone()).unwrap());
            assert!(ran.account.metadata().rpcs > 0);
        }
    }
}

fn an_ordinary_user_can_rehearse() {
    const NOBODY: u32 = 65534;
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return; // All other tests have shown it.
    }
    let scene = SlowTree::new();
    // The directory of this program may be closed to others.
    let this = scene.at("this");
    std::fs::copy(std::env::current_exe().unwrap(), &this).unwrap();
    let mut command = Command::new(&this);
    let inner =
        scene.recorder(&profile("1ms", "1ms", KEEPS_ALL), &scene.tree(), &["cat", "a/b/file"]);
    command.args(inner.get_args()).current_dir(scene.tree()).uid(NOBODY).gid(NOBODY);
    let ran = scene.ran(&mut command);
    assert_eq!(counts(&ran.account), [(RpcKind::Lookup, 3)]);
    assert_eq!(ran.account.metadata().waited, Nanos(6_000_000));
}

/// `record PROFILE DIRECTORY ACCOUNT REC CMD…`: ends as the command ends.
fn record(words: &[OsString]) -> i32 {
    let [profile, directory, account, rec, command @ ..] = words else { panic!("{words:?}") };
    let wanted = RehearsalRequest {
        profile: FilesystemProfile::find(profile).unwrap(),
        paths: vec![directory.into()],
        writable: false,
    };
    let options = watch::RecorderOptions::default();
    let command = launch::Command::of(command.to_vec());
    let rec = File::create(rec).unwrap();
    match traced::record(&command, rec, &options, &wanted).and_then(TracedRehearsal::wait) {
        Ok((finished, told)) => {
            std::fs::write(account, serde_json::to_vec(&told).unwrap()).unwrap();
            i32::from(finished.ended.pass_on())
        }
        Err(error) => {
            eprintln!("{error}");
            i32::from(error.exit_status())
        }
    }
}

/// `mounted PROFILE DIRECTORY ACCOUNT REC CMD…`: the same through FUSE, without a recording.
fn mounted(words: &[OsString]) -> i32 {
    let [profile, directory, account, _, program, arguments @ ..] = words else {
        panic!("{words:?}")
    };
    let wanted = RehearsalRequest {
        profile: FilesystemProfile::find(profile).unwrap(),
        paths: vec![directory.into()],
        writable: false,
    };
    let rehearsal = rehearse::Rehearsal::enter(&wanted).unwrap();
    let status = Command::new(program).args(arguments).status().unwrap();
    std::fs::write(account, serde_json::to_vec(&rehearsal.account().unwrap()).unwrap()).unwrap();
    status.code().unwrap()
}

/// `stats FILE TIMES`: how long each stat takes, one a line, in ns.
fn stats(words: &[OsString]) -> i32 {
    let times: usize = words[1].to_str().unwrap().parse().unwrap();
    let stat = |_| {
        let start = Instant::now();
        let _ = std::hint::black_box(Path::new(&words[0]).symlink_metadata());
        start.elapsed().as_nanos()
    };
    let took: Vec<u128> = (0..times).map(stat).collect();
    took.into_iter().for_each(|took| println!("{took}"));
    0
}

fn main() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match words.first().map(|word| word.to_string_lossy()).as_deref() {
        Some("record") => std::process::exit(record(&words[1..])),
        Some("mounted") => std::process::exit(mounted(&words[1..])),
        Some("stats") => std::process::exit(stats(&words[1..])),
        _ => {}
    }
    the_server_is_asked_for_what_the_node_does_not_know();
    what_is_not_kept_is_asked_for_again();
    elsewhere_and_at_open_files_nothing_is_asked();
    each_operation_takes_its_round_trip_and_its_service();
    a_stat_of_200_us_takes_200_us();
    four_recorders_share_one_server();
    who_wants_the_same_name_waits_for_the_same_answer();
    a_directory_given_by_a_symbolic_link_is_rehearsed_by_both_its_names();
    changes_are_asked_for_and_made();
    status_and_output_pass();
    what_cannot_be_rehearsed_or_run_is_said();
    when_the_recorder_is_killed_it_is_said();
    the_server_is_asked_for_the_same_as_through_fuse();
    programs_do_the_same_as_without();
    an_ordinary_user_can_rehearse();
}
