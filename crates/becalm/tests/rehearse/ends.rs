//! However a rehearsal ends, nothing of it is left: no mount, no process, no file.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::live::{Live, wait_until};
use testkit::rehearsal::{each_rehearser, server};
use testkit::run;
use testkit::terminal::Terminal;

fn kill(pid: i32, signal: i32) {
    // SAFETY: kill has no preconditions; the pid is of a process of the test's own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// A command that says its process id, and then each signal that it gets and is not killed by.
const NAMES_SIGNALS: &str = "for s in INT TERM HUP USR1; do trap \"echo got $s\" $s; done; \
    echo $$; while :; do sleep 0.05; done";

#[test]
fn a_signal_to_becalm_reaches_the_command_once_and_one_to_the_group_too() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let mut command = user.rehearse(&tree, &["bash", "-c", NAMES_SIGNALS]);
        let mut live = Live::start(command.process_group(0));
        let pid: i32 = live.line().parse().unwrap();
        for (signal, name) in [(2, "INT"), (15, "TERM"), (1, "HUP"), (10, "USR1")] {
            for target in [live.pid(), -live.pid()] {
                kill(target, signal);
                assert_eq!(live.line(), format!("got {name}"));
                assert!(!live.says_anything_within(Duration::from_millis(150)), "twice: {name}");
            }
        }
        kill(pid, libc::SIGKILL);
        assert_eq!(live.end().status.signal(), Some(libc::SIGKILL));
        user.assert_tidy();
    }
}

#[test]
fn killing_becalm_ends_the_command_and_leaves_nothing() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let script = format!("echo $$; cd {tree}; while :; do cat file >/dev/null; done");
        let mut live = Live::start(&mut user.rehearse(&tree, &["bash", "-c", &script]));
        let pid = live.line();
        kill(live.pid(), libc::SIGKILL);
        wait_until("the command is gone", || {
            !fs::exists(format!("/proc/{pid}/exe")).unwrap_or(false)
        });
        user.assert_tidy();
    }
}

#[test]
fn a_server_that_is_killed_hangs_nobody_and_is_said() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let script = format!("cat {tree}/file; echo ready; read; cat {tree}/file; exit 3");
        let mut live = Live::start(&mut user.rehearse(&tree, &["bash", "-c", &script]));
        live.wait_for("ready");
        kill(server(&user.scene.directory()), libc::SIGKILL);
        let ran = live.end();
        assert_eq!(ran.code(), 125, "{}", ran.err());
        assert!(ran.err().contains("endpoint is not connected"), "{}", ran.err());
        assert!(ran.err().contains("was killed"), "{}", ran.err());
        user.assert_tidy();
    }
}

#[test]
fn what_the_command_leaves_running_sees_the_directory_until_it_ends() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let fifo = user.scene.at("fifo");
        assert_eq!(run(Command::new("mkfifo").args(["-m", "666", &fifo])).code(), 0);
        let said = user.scene.file("said", "", 0o666);
        let daemon =
            format!("read line <{fifo}; grep -c fuse.becalm /proc/self/mountinfo; cat {tree}/file");
        let script = format!("setsid sh -c '{daemon}' >{said} 2>&1 </dev/null & exit 4");
        let ran = run(&mut user.rehearse(&tree, &["sh", "-c", &script]));
        assert_eq!(ran.code(), 4, "{}", ran.err());
        server(&user.scene.directory());
        fs::write(&fifo, "go\n").unwrap();
        wait_until("it has read", || fs::read_to_string(&said).unwrap().ends_with("text\n"));
        assert_eq!(fs::read_to_string(&said).unwrap(), "1\ntext\n");
        user.assert_tidy();
    }
}

#[test]
fn a_calibration_that_is_asked_to_end_dies_of_that() {
    for user in each_rehearser() {
        let mut calibration = user.becalm(&["--calibrate", "--profile", "nfs"]);
        let mut child = calibration.stderr(Stdio::null()).spawn().unwrap();
        // Whose name it has until it is becalm.
        let name = format!("/proc/{}/comm", child.id());
        wait_until("it runs", || fs::read_to_string(&name).unwrap() == "becalm\n");
        std::thread::sleep(Duration::from_millis(300));
        kill(child.id() as i32, libc::SIGTERM);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}

#[test]
fn a_terminal_sees_how_far_a_calibration_is() {
    for user in each_rehearser() {
        let mut calibration = user.becalm(&["--calibrate", "--profile", "nfs"]);
        let mut terminal = Terminal::start(calibration.env("TERM", "xterm"));
        terminal.expect("measuring ");
        terminal.expect(" of 6");
        // To the end, which removes what it measured with.
        terminal.expect("open, no delay");
    }
}

#[test]
fn a_stopped_command_is_a_stopped_job_and_goes_on() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let mut terminal = Terminal::bash();
        let answers =
            "while read line; do echo \"read $line\"; test \"$line\" != end || exit 7; done";
        let command = user.rehearse(&tree, &["sh", "-c", answers]);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        terminal.send(&format!("{} 2>/dev/null\n", words.join(" ")));
        terminal.stop_and_resume(&["one", "two"]);
        terminal.end_with("end", "read end", 7);
        user.assert_tidy();
    }
}

#[test]
fn a_command_that_is_stopped_from_outside_goes_on_when_it_is_continued() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let script = "echo $$; while :; do echo tick; sleep 0.01; done";
        let mut live = Live::start(&mut user.rehearse(&tree, &["bash", "-c", script]));
        let pid: i32 = live.line().parse().unwrap();
        for _ in 0..2 {
            kill(pid, libc::SIGSTOP);
            wait_until("it is silent", || {
                live.forget_lines();
                !live.says_anything_within(Duration::from_millis(300))
            });
            kill(pid, libc::SIGCONT);
            live.wait_for("tick");
        }
        kill(pid, libc::SIGTERM);
        let ran = live.end();
        assert_eq!(ran.status.signal(), Some(libc::SIGTERM), "{}", ran.err());
        user.assert_tidy();
    }
}

#[test]
fn no_file_is_left_in_shared_memory() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let own = user.scene.file(
            "own.toml",
            run(&mut user.becalm(&["--show", "nfs"])).out().replace("\"nfs\"", "\"tidy-test\""),
            0o644,
        );
        let left = || {
            let files = fs::read_dir("/dev/shm").unwrap().flatten();
            files.filter(|file| file.file_name().to_string_lossy().contains("tidy-test")).count()
        };
        let script = format!("cat {tree}/file; ls /dev/shm | grep -c tidy-test");
        let ran = run(&mut user.becalm(&["--profile", &own, &tree, "--", "sh", "-c", &script]));
        assert_eq!(ran.out(), "text\n2\n", "{}", ran.err());
        wait_until("they are gone", || left() == 0);

        let script = format!("echo ready; read line; cat {tree}/file");
        let mut command = user.becalm(&["--profile", &own, &tree, "--", "sh", "-c", &script]);
        let mut live = Live::start(&mut command);
        live.wait_for("ready");
        kill(server(&user.scene.directory()), libc::SIGKILL);
        live.end();
        assert_eq!(left(), 0, "after a server that was killed");
    }
}
