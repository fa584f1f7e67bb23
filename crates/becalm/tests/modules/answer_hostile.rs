//! A full disk, a modulefile that never ends, one of a hundred megabytes: the answer is Modules' own.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::BECALM;
use crate::answer::{Asking, seen, settle, tree, with_each};
use crate::scene::all;

#[test]
fn on_a_full_disk_nothing_is_remembered_and_nothing_is_left_half_written() {
    with_each(|modules| {
        let scene = tree();
        settle();
        let asking = Asking::new(&scene, modules);
        let words = &["avail", "-t"];
        let real = seen(&asking.real(words).output().unwrap());
        let inner = asking.becalm(words);
        let state = scene.at("state");
        fs::create_dir_all(&state).unwrap();
        let script = format!(
            "mount -t tmpfs -o size=16k none '{0}' || exit 9
            cat /dev/zero > '{0}/full' 2>/dev/null
            \"$@\" || exit 8
            ls -A '{0}/becalm/answers' > '{1}' 2>/dev/null
            rm '{0}/full'
            \"$@\" > /dev/null 2>&1
            ls -A '{0}/becalm/answers' > '{2}'",
            state.display(),
            scene.at("full").display(),
            scene.at("empty").display()
        );
        let mut command = scene.command("unshare", modules);
        command.args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(BECALM);
        command.args(inner.get_args());
        for (name, value) in inner.get_envs().filter_map(|(name, value)| Some((name, value?))) {
            command.env(name, value);
        }
        let directory = inner.get_current_dir().unwrap_or(&scene.modulepath).to_owned();
        assert_eq!(seen(&command.current_dir(directory).output().unwrap()), real);
        let listed = |name: &str| fs::read_to_string(scene.at(name)).unwrap();
        assert_eq!(listed("full"), "");
        // There is room again.
        assert!(listed("empty").lines().any(|name| name.starts_with("a-")), "{}", listed("empty"));
    });
}

/// How a command ends that is interrupted, as by Ctrl-C, once its modulefile has said that it runs.
fn interrupted(mut command: Command) -> Output {
    let mut child: Child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 8];
    child.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"forever\n");
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_modulefile_that_never_ends_is_interrupted_as_without_becalm() {
    with_each(|modules| {
        let scene = tree();
        scene.file("forever/1", "#%Module\nputs stderr forever\nwhile 1 {}\n");
        settle();
        let asking = Asking::new(&scene, modules);
        let words = &["load", "forever"];
        let real = interrupted(asking.real(words));
        for _ in 0..2 {
            let output = interrupted(asking.becalm(words));
            assert_eq!((output.status, output.stdout), (real.status, real.stdout.clone()));
        }
        assert!(!asking.why(words).starts_with("remembered"), "{}", asking.why(words));
    });
}

#[test]
fn a_modulefile_of_a_hundred_megabytes_is_read_once() {
    let modules = &all()[0];
    let scene = tree();
    let path = scene.file("huge/1", "#%Module\nsetenv HUGE yes\n");
    let mut file = fs::File::options().append(true).open(path).unwrap();
    let line = [b"#".repeat(1023), b"\n".to_vec()].concat();
    file.write_all(&line.repeat(100 * 1024)).unwrap();
    drop(file);
    settle();
    let asking = Asking::new(&scene, modules);
    let words = &["load", "huge"];
    asking.agree(words);
    asking.is_remembered(words);
    let kept = fs::read_dir(scene.at("state/becalm/answers")).unwrap().flatten();
    let bytes: u64 = kept.map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(bytes < 100_000, "{bytes}");
}

#[test]
fn where_no_file_may_be_long_modules_answers() {
    with_each(|modules| {
        let scene = tree();
        settle();
        let asking = Asking::new(&scene, modules);
        let words = &["avail", "-t"];
        let limited = |inner: Command| {
            let mut command = scene.command("bash", modules);
            command.args(["-c", "ulimit -f 2; exec \"$@\"", "bash"]).arg(inner.get_program());
            command.args(inner.get_args());
            for (name, value) in inner.get_envs().filter_map(|(name, value)| Some((name, value?))) {
                command.env(name, value);
            }
            command.current_dir(inner.get_current_dir().unwrap_or(&scene.modulepath));
            seen(&command.output().unwrap())
        };
        let real = limited(asking.real(words));
        assert_eq!(real.0, Some(0), "{real:?}");
        for _ in 0..2 {
            assert_eq!(limited(asking.becalm(words)), real);
        }
        // To a file, what is too long ends who writes it.
        let long =
            "#%Module\nfor {set i 0} {$i < 300} {incr i} {setenv LONG$i [string repeat x 60]}\n";
        scene.file("long/1", long);
        settle();
        let words = &["load", "long"];
        asking.agree(words);
        let to_file = |inner: Command| {
            let mut command = scene.command("bash", modules);
            let script =
                "ulimit -f 2; \"$@\" > out 2> err; echo $?; cat out err | wc -c; rm out err";
            command.args(["-c", script, "bash"]).arg(inner.get_program()).args(inner.get_args());
            for (name, value) in inner.get_envs().filter_map(|(name, value)| Some((name, value?))) {
                command.env(name, value);
            }
            command.current_dir(scene.at(""));
            // bash says which process it was, too.
            let (status, out, _) = seen(&command.output().unwrap());
            (status, out)
        };
        let real = to_file(asking.real(words));
        assert!(real.1.starts_with("153\n"), "{real:?}");
        assert_eq!(to_file(asking.becalm(words)), real);
    });
}

#[test]
fn what_is_written_before_something_that_is_not_done_twice_is_written_once_and_in_its_order() {
    with_each(|modules| {
        let scene = tree();
        let says = "puts stderr first\nputs stdout {echo first;}\nexec true\nputs stderr second\n";
        scene.file("says/1", &format!("#%Module\n{says}setenv SAYS yes\n"));
        settle();
        let asking = Asking::new(&scene, modules);
        for _ in 0..2 {
            asking.agree(&["load", "says"]);
        }
        let why = asking.why(&["load", "says"]);
        assert!(why.starts_with("never remembered: it starts a program"), "{why}");
    });
}

#[test]
fn a_pipe_that_a_modulefile_reads_is_opened_once() {
    with_each(|modules| {
        let scene = tree();
        let pipe = scene.at("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let reads = format!("set f [open {}]\nsetenv READ [gets $f]\nclose $f\n", pipe.display());
        scene.file("reads/1", &format!("#%Module\n{reads}"));
        settle();
        let asking = Asking::new(&scene, modules);
        for _ in 0..2 {
            let mut command = asking.becalm(&["load", "reads"]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            fs::write(&pipe, "hello\n").unwrap();
            let said = seen(&child.wait_with_output().unwrap());
            assert!(said.1.contains("hello"), "{said:?}");
        }
    });
}

#[test]
fn where_nothing_can_be_kept_it_is_said_why() {
    let modules = &all()[0];
    let scene = tree();
    fs::write(scene.at("state"), "no directory").unwrap();
    settle();
    let asking = Asking::new(&scene, modules);
    asking.agree(&["load", "gcc"]);
    let why = asking.why(&["load", "gcc"]);
    assert!(why.starts_with("never remembered: cannot write to "), "{why}");
}
