//! Without stops at reads, closes and copies of descriptors, what is recorded of names is the same.

use std::path::Path;
use std::process::Command;

use recording::{ByteUnits, Kind, Outcome, Recording};
use testkit::{Scene, run};

/// The metadata operations of each process, in the order of their starts: what was asked, of which
/// path, and whether it was there.
fn metadata(recording: &Recording) -> Vec<String> {
    let mut by_process: Vec<(u32, u64, String)> = Vec::new();
    for event in recording.events.iter().filter(|event| event.is_metadata()) {
        let path = |id: Option<_>| id.map(|id| recording.shown(id)).unwrap_or_default();
        let failed = match event.outcome {
            Outcome::Failed(error) => error,
            Outcome::Returned(_) => 0,
        };
        let (asked, other) = (path(event.path), path(event.other_path));
        let text = format!("{} {asked} {other} {failed}", event.call.name());
        by_process.push((event.process.0, event.start.0, text));
    }
    by_process.sort();
    by_process.into_iter().map(|(process, _, text)| format!("{process} {text}")).collect()
}

fn recorded(scene: &Scene, options: &[&str], directory: &Path, words: &[&str]) -> Recording {
    let becalm = Path::new(crate::BECALM);
    let mut command = scene.record_with(becalm, options, words);
    command
        .current_dir(directory)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("GIT_OPTIONAL_LOCKS", "0");
    let ran = run(&mut command);
    assert_eq!(ran.code(), 0, "{words:?}: {}", ran.err());
    scene.recording()
}

/// The first operation that two recordings differ in, as each has it.
type Difference<'a> = (usize, Option<&'a String>, Option<&'a String>);

fn first_difference<'a>(one: &'a [String], other: &'a [String]) -> Option<Difference<'a>> {
    let longest = one.len().max(other.len());
    let at = (0..longest).find(|at| one.get(*at) != other.get(*at))?;
    Some((at, one.get(at..)?.first(), other.get(at..)?.first()))
}

const METADATA_ONLY: [&str; 2] = ["--no-ebpf", "--metadata-only"];

/// Records a command in each way, and asserts that the names are the same: where every call that is
/// recorded stops, where descriptors are not watched, and where eBPF reports what it can.
#[track_caller]
fn assert_same_names(directory: &Path, words: &[&str]) -> [Recording; 2] {
    let scene = Scene::new();
    let ways: [&[&str]; 3] = [&["--no-ebpf", "--no-bind"], &METADATA_ONLY, &["--no-bind"]];
    let [with, without, reported] = ways.map(|options| recorded(&scene, options, directory, words));
    assert_eq!(first_difference(&metadata(&with), &metadata(&reported)), None, "{words:?}");
    assert!(without.header.metadata_only && !with.header.metadata_only);
    assert!(with.is_whole() && without.is_whole(), "{words:?}");
    let [all, same] = [&with, &without].map(metadata);
    assert!(all.len() > 20, "{words:?}: {all:?}");
    assert_eq!(first_difference(&all, &same), None, "{words:?}, of {}", all.len());
    let moved = |recording: &Recording| {
        // What maps much of a file is there, for the sake of its page faults.
        let kinds = [Kind::Read, Kind::Write, Kind::Close];
        recording.events.iter().filter(|event| kinds.contains(&event.kind())).count()
    };
    assert!(moved(&with) > 0);
    assert_eq!(moved(&without), 0);
    [with, without]
}

#[test]
fn emacs_python_and_a_shell_name_the_same_files() {
    assert_same_names(Path::new("/"), &["emacs", "--version"]);
    let import = "import json, email.mime.text, importlib.metadata as m; list(m.distributions())";
    assert_same_names(Path::new("/"), &["/usr/bin/python3", "-c", import]);
    let shell = "for f in 1 2 3; do dirname /a/b > /dev/null; cat < /etc/passwd | wc -l; done; \
                 exec 7< /etc; cd /usr; exec 7<&-; exec 7< lib; ls -lR share/doc/bash lib/python3";
    assert_same_names(Path::new("/"), &["bash", "-c", shell]);
}

#[test]
fn a_walk_by_descriptors_through_symbolic_links_names_the_same_files() {
    let scene = Scene::new();
    let run = |words: &[&str]| assert!(Command::new(words[0]).args(&words[1..]).status().is_ok());
    run(&[
        "sh",
        "-c",
        &format!(
            "cd {} && mkdir -p a/b/c a/d e && touch a/b/c/x a/d/y e/z && \
        ln -s a link && ln -s ../e a/out",
            scene.root().display()
        ),
    ]);
    let (link, top) = (scene.at("link/"), scene.at("."));
    assert_same_names(Path::new("/"), &["find", &link, &top, "-size", "+1000"]);
    assert_same_names(Path::new("/"), &["find", "-L", &top, "-size", "+1000"]);
    assert_same_names(Path::new("/usr/lib"), &["find", "/bin/", "/lib/", ".", "-name", "*.conf"]);
    assert_same_names(scene.root(), &["sh", "-c", "cp -r a copy && rm -rv copy"]);
    assert_same_names(scene.root(), &["tar", "cf", "/dev/null", "-h", "link", "e"]);
    // A directory whose descriptor's number was another's before, and is a copy: what that was
    // opened as is not seen, and the kernel names it without symbolic links.
    let reuse = format!(
        "import os\n\
         for at in ['{0}', '{0}/a', '{0}/e', '{0}/a/b'] * 3:\n\
         \x20fd = os.open(at, os.O_RDONLY); copy = os.dup(fd); os.close(fd)\n\
         \x20for one in (copy, os.dup(copy)):\n\
         \x20\x20os.stat('c', dir_fd=one) if at.endswith('b') else os.listdir(one)\n\
         \x20\x20os.close(one)\n",
        scene.at("")
    );
    assert_same_names(Path::new("/"), &["/usr/bin/python3", "-c", &reuse]);
}

/// A directory that is renamed while it is open and worked in, and `..` of a descriptor.
#[test]
fn a_directory_that_is_renamed_and_what_is_above_it_have_the_same_names() {
    let scene = Scene::new();
    let script = format!(
        "import os, shutil\n\
         top = '{0}'\n\
         def up(fd):\n\
         \x20for name in ['..', '../..']: os.close(os.open(name, os.O_RDONLY, dir_fd=fd))\n\
         os.makedirs(top + '/one/in/deep'); os.symlink('one/in', top + '/short')\n\
         for at in ['/one/in', '/short'] * 4:\n\
         \x20fd = os.open(top + at, os.O_RDONLY); up(fd)\n\
         \x20os.chdir(top + '/one'); os.rename(top + '/one', top + '/two')\n\
         \x20for name in ['in', 'none', '../two/in', '..']: os.path.exists(name)\n\
         \x20if at == '/one/in': os.stat('deep', dir_fd=fd); up(fd)\n\
         \x20os.chdir('/'); os.close(fd); os.rename(top + '/two', top + '/one')\n\
         shutil.rmtree(top)\n",
        scene.at("work")
    );
    assert_same_names(Path::new("/"), &["/usr/bin/python3", "-c", &script]);
}

/// Runs a command and prints how often it, or who works for it, waited (getrusage(2)).
const COUNTED: &str = "import resource, subprocess, sys\n\
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n\
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw)";

/// At each stop the command and its recorder wait for each other.
#[test]
fn where_ebpf_may_report_calls_a_walk_does_not_stop_for_them() {
    let walk = ["find", "/usr/share/perl", "/usr/share/doc"];
    let [stopping, reported] = [&["--no-ebpf"][..], &[]].map(|options| {
        let scene = Scene::new();
        let record = scene.record_with(Path::new(crate::BECALM), options, &walk);
        let mut counted = Command::new("/usr/bin/python3");
        counted.args(["-c", COUNTED]).arg(record.get_program()).args(record.get_args());
        let ran = run(&mut counted);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        (ran.out().trim().parse::<u64>().unwrap(), scene.recording())
    });
    if reported.1.header.backend != "ptrace+seccomp+ebpf" {
        return; // It may not.
    }
    assert_eq!(first_difference(&metadata(&stopping.1), &metadata(&reported.1)), None);
    assert!(stopping.0 > 10_000, "{}", stopping.0);
    assert!(reported.0 < stopping.0 / 20, "{} of {}", reported.0, stopping.0);
}

#[test]
fn git_and_make_name_the_same_files() {
    let scene = Scene::new();
    let script = "git init -q . && mkdir s && for i in 1 2 3 4 5 6; do echo $i > s/$i; done && \
        git add . && git -c user.name=a -c user.email=b@c commit -qm x && \
        printf 'all: a b\\na b:\\n\\tcat s/1 s/2 > /dev/null\\n' > Makefile && git status";
    let ready = Command::new("sh").args(["-c", script]).current_dir(scene.root()).output();
    assert!(ready.unwrap().status.success());
    assert_same_names(scene.root(), &["git", "status", "--short"]);
    assert_same_names(scene.root(), &["make", "all"]);
}

#[test]
fn what_is_read_is_bounded_by_what_the_command_read_and_by_the_sizes_of_files() {
    let scene = Scene::new();
    let (small, large) = (scene.file("small", [1; 30_000], 0o644), scene.at("large"));
    std::fs::File::create(&large).unwrap().set_len(1 << 30).unwrap();
    let line = format!("cat {small}; head -c 100 {large}");
    let recording = recorded(&scene, &METADATA_ONLY, Path::new("/"), &["sh", "-c", &line]);
    let reads = recording.summary.as_ref().unwrap().unwatched_reads.clone().unwrap();
    let size = |path: &str| {
        let is = |(id, _): &&_| recording.path(*id) == path.as_bytes();
        reads.files.iter().find(is).map(|(_, bytes)| *bytes)
    };
    assert_eq!(size(&small), Some(ByteUnits(30_000)));
    assert_eq!(size(&large), Some(ByteUnits(1 << 30)));
    assert!((30_000..200_000).contains(&reads.bytes.0), "{:?}", reads.bytes);
}

#[test]
fn a_program_that_only_moves_data_does_not_stop_for_it() {
    let scene = Scene::new();
    let copy = ["dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=20000"];
    let recording = recorded(&scene, &METADATA_ONLY, Path::new("/"), &copy);
    assert!(recording.events.len() < 1000, "{}", recording.events.len());
    let reads = recording.summary.unwrap().unwatched_reads.unwrap();
    assert!(reads.bytes.0 >= 512 * 20_000, "{:?}", reads.bytes);
}

#[test]
fn threads_forks_and_execs_are_followed() {
    let scene = Scene::new();
    let python = "import threading, subprocess, os\n\
        work = lambda: [subprocess.run(['true']) for _ in range(5)]\n\
        threads = [threading.Thread(target=work) for _ in range(4)]\n\
        [t.start() for t in threads]; [t.join() for t in threads]\n\
        os.fork() or os._exit(3); os.wait(); os.execv('/bin/true', ['true'])";
    let recording =
        recorded(&scene, &METADATA_ONLY, Path::new("/"), &["/usr/bin/python3", "-c", python]);
    assert!(recording.is_whole());
    assert_eq!(recording.processes.len(), 22);
    assert!(recording.processes.iter().all(|process| process.end.is_some()));
    let forks = recording.events.iter().filter(|event| event.kind() == Kind::Fork);
    assert!(forks.clone().count() >= 22);
    assert!(forks.clone().all(|event| matches!(event.outcome, Outcome::Returned(1..))));
    let execs = recording.events.iter().filter(|event| event.kind() == Kind::Exec);
    assert!(execs.filter(|event| event.outcome == Outcome::Returned(0)).count() >= 22);
}
