//! A command under `becalm record` inherits, sees and answers what it would without.
//!
//! Not hidden, because no tracer can: `TracerPid`, `Seccomp` and, for an ordinary user,
//! `NoNewPrivs` in /proc/self/status; the parent's pid, which is becalm's; that the command is
//! not its process group's first process, which is becalm; and the flag of a wait status that
//! says that a core was dumped, as becalm dumps none.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use super::BACKEND;
use testkit::both::from;
use testkit::live::run_with_input;
use testkit::scene::running;
use testkit::terminal::Terminal;
use testkit::user::is_root;
use testkit::{both, copy_program, run, trap};

#[test]
fn every_byte_passes_both_ways() {
    let input: Vec<u8> =
        (0..1_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let scene = BACKEND.scene();
    let ran = run_with_input(&mut scene.record(&["tee", "/dev/stderr"]), &input);
    assert!(ran.stdout == input, "standard output differs");
    assert!(ran.stderr == input, "standard error differs");
    assert_eq!(ran.code(), 0);
}

#[test]
fn nothing_is_said_beside_what_the_command_says() {
    let (ran, _) = BACKEND.assert_same("\"$@\"", &["sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!((ran.out(), ran.err()), ("out\n".into(), "err\n".into()));
}

#[test]
fn the_next_reader_of_a_file_goes_on_where_the_command_stopped() {
    let scene = BACKEND.scene();
    let lines = scene.file("lines", "first\nsecond\n", 0o644);
    let (ran, _) = BACKEND.assert_same(
        &format!("{{ \"$@\"; cat; }} < {lines}"),
        &["bash", "-c", "read line; echo \"[$line]\""],
    );
    assert_eq!(ran.out(), "[first]\nsecond\n");
}

#[test]
fn descriptors_are_those_inherited_and_none_of_becalms() {
    let fds = trap("fds");
    for (setup, to) in [
        ("exec \"$@\"", "1"),
        ("exec \"$@\" < /etc/passwd", "1"),
        ("exec \"$@\" <&-", "1"),
        ("exec \"$@\" >&-", "2"),
        ("exec \"$@\" 2>&-", "1"),
        ("exec \"$@\" <&- 2>&-", "1"),
        ("exec \"$@\" 7>&1 <&- >&- 2>&-", "7"),
        ("exec \"$@\" 3</etc/passwd 4>/dev/null 9>>/dev/null", "1"),
        ("exec 250</etc/passwd; read -u 250 -N 10; exec \"$@\"", "1"),
    ] {
        let (ran, _) = BACKEND.assert_same(setup, &[&fds, to]);
        assert!(!(ran.stdout.is_empty() && ran.stderr.is_empty()));
    }
    BACKEND.assert_same("exec \"$@\" 5</etc/passwd", &["ls", "/proc/self/fd"]);
}

#[test]
fn every_exit_status_passes_through() {
    for status in 0..=255 {
        let scene = BACKEND.scene();
        let ran = run(&mut scene.record(&["sh", "-c", &format!("exit {status}")]));
        assert_eq!(ran.code(), status);
    }
}

#[test]
fn a_death_by_signal_is_becalms_own_death_by_it() {
    // All that end a process; 32 and 33 are the C library's own.
    let fatal =
        (1..=64).filter(|signal| ![17, 18, 19, 20, 21, 22, 23, 28, 32, 33].contains(signal));
    for signal in fatal {
        let setup = "ulimit -c 0; \"$@\"; echo \"status $?\"";
        let scene = BACKEND.scene();
        let words = ["sh", "-c", &format!("kill -{signal} $$")];
        let [untraced, traced] = both(&scene, setup, &words);
        assert!(untraced.out().ends_with(&format!("status {}\n", 128 + signal)));
        assert_eq!(traced.out(), untraced.out());
        let ran = run(&mut scene.record(&words));
        assert_eq!(ran.status.signal(), Some(signal), "{}", ran.err());
    }
}

#[test]
fn the_only_core_file_is_the_commands() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.starts_with('|') || pattern.starts_with('/') {
        eprintln!("skipped: this machine takes core files elsewhere: {pattern}");
        return;
    }
    let scene = BACKEND.scene();
    let setup = format!("cd {}; ulimit -c unlimited; exec \"$@\"", scene.subdirectory("cores"));
    let words = ["sh", "-c", "kill -QUIT $$"];
    let ran = run(&mut running(from(&setup), &scene.record(&words)));
    assert_eq!(ran.status.signal(), Some(libc::SIGQUIT));
    let cores: Vec<_> = std::fs::read_dir(scene.at("cores")).unwrap().collect();
    assert_eq!(cores.len(), 1, "{cores:?}");
    let core = std::fs::read(cores[0].as_ref().unwrap().path()).unwrap();
    // The note of the process's name and arguments (NT_PRPSINFO) is near the start.
    let is_of = |name: &[u8]| core[..16384].windows(name.len()).any(|part| part == name);
    assert!(is_of(b"sh -c kill -QUIT $$") && !is_of(b"becalm record"), "whose core is it?");
}

#[test]
fn the_environment_is_the_same_to_the_byte() {
    for setup in [
        "exec env -i \"$@\"",
        "exec env -i B=2 A=1 EMPTY= 'SPACED=x  y' $'BYTES=\\xff\\xfe' $'LINES=1\\n2' \"$@\"",
        "exec env -i LD_DEBUG_OUTPUT=/x RUST_BACKTRACE=1 NO_COLOR=1 _=before \"$@\"",
    ] {
        BACKEND.assert_same(setup, &["/bin/cat", "/proc/self/environ"]);
    }
    BACKEND.assert_same("exec env -i PATH=/usr/bin:/bin X=1 \"$@\"", &["env", "-0"]);
}

#[test]
fn the_working_directory_is_the_same_even_where_it_is_gone() {
    BACKEND.assert_same("cd /usr/share; exec \"$@\"", &["/bin/pwd"]);
    let gone = BACKEND.scene().directory();
    let setup = format!("mkdir -p {0}; cd {0}; rmdir {0}; exec \"$@\"", gone.display());
    let (ran, _) = BACKEND.assert_same(&setup, &["readlink", "/proc/self/cwd"]);
    assert!(ran.out().contains("(deleted)"));
}

#[test]
fn the_umask_is_the_same() {
    for mask in ["022", "077", "000"] {
        let (ran, _) =
            BACKEND.assert_same(&format!("umask {mask}; exec \"$@\""), &["sh", "-c", "umask"]);
        assert_eq!(ran.out(), format!("0{mask}\n"));
    }
}

#[test]
fn limits_are_the_same() {
    for setup in [
        "exec \"$@\"",
        "ulimit -n 64; exec \"$@\"",
        "ulimit -S -n 20; exec \"$@\"",
        "ulimit -c 0 -s 1024; exec \"$@\"",
        "ulimit -S -s unlimited; exec \"$@\"",
        "ulimit -t 100 -l 64 -q 1000; exec \"$@\"",
        "ulimit -v 600000; exec \"$@\"",
    ] {
        BACKEND.assert_same(setup, &["cat", "/proc/self/limits"]);
    }
}

#[test]
fn signals_are_blocked_and_ignored_as_inherited() {
    for setup in [
        "exec \"$@\"",
        "exec env --ignore-signal=PIPE \"$@\"",
        "exec env --default-signal=PIPE \"$@\"",
        "exec env --ignore-signal=CHLD \"$@\"",
        "exec env --ignore-signal \"$@\"",
        "exec env --block-signal=CHLD,TERM,INT,USR1 \"$@\"",
        "exec env --block-signal \"$@\"",
        "exec env --ignore-signal=HUP,INT,QUIT,TERM,TSTP,TTIN,TTOU,XFSZ --block-signal=CONT \"$@\"",
    ] {
        let (ran, _) = BACKEND.assert_same(setup, &["grep", "^S[ih][gd]...:", "/proc/self/status"]);
        assert_eq!(ran.out().lines().count(), 5, "{}", ran.out());
    }
}

#[test]
fn user_groups_and_capabilities_are_the_same() {
    let lines = "^(Name|Umask|Uid|Gid|Groups|Cap...|CoreDumping|THP_enabled|Threads|Mems_allowed):";
    BACKEND.assert_same("exec \"$@\"", &["grep", "-E", lines, "/proc/self/status"]);
    if is_root() {
        BACKEND.assert_same("exec \"$@\"", &["grep", "NoNewPrivs", "/proc/self/status"]);
    }
}

#[test]
fn nice_scheduling_and_input_output_class_are_the_same() {
    let probe = "nice; for tool in 'chrt -p' 'ionice -p'; do $tool $$ | sed s/$$/PID/; done";
    for setup in
        ["exec \"$@\"", "exec nice -n 5 \"$@\"", "exec chrt -b 0 \"$@\"", "exec ionice -c 3 \"$@\""]
    {
        BACKEND.assert_same(setup, &["sh", "-c", probe]);
    }
}

#[test]
fn the_cpus_that_a_command_may_use_are_the_same_however_it_asks() {
    let allowed = run(Command::new("nproc").env_remove("OMP_NUM_THREADS")).out();
    assert!(allowed.trim().parse::<u32>().unwrap() > 1, "this test needs two CPUs");
    for setup in [
        "exec \"$@\"",
        "exec taskset -c 0 \"$@\"",
        "exec taskset -c 1 \"$@\"",
        "exec taskset -c 0,1 \"$@\"",
    ] {
        BACKEND.assert_same(setup, &["nproc"]);
        BACKEND.assert_same(setup, &["nproc", "--all"]);
        BACKEND.assert_same(setup, &["sh", "-c", "taskset -cp $$ | sed s/$$/PID/"]);
        BACKEND.assert_same(setup, &["grep", "Cpus_allowed", "/proc/self/status"]);
        BACKEND
            .assert_same(setup, &["sh", "-c", "(nproc; grep Cpus_allowed_list /proc/$$/status)"]);
        BACKEND.assert_same(
            setup,
            &[
                "/usr/bin/python3",
                "-c",
                "import os; print(os.sched_getaffinity(0), os.cpu_count(), os.sysconf(84))",
            ],
        );
    }
}

#[test]
fn a_command_can_change_the_cpus_it_may_use() {
    let script = "import os, subprocess\n\
        os.sched_setaffinity(0, {1})\n\
        print(os.sched_getaffinity(0), subprocess.check_output('nproc'))\n\
        os.sched_setaffinity(0, {0, 1})\n\
        print(os.sched_getaffinity(0), subprocess.check_output('nproc'))\n\
        try: os.sched_setaffinity(0, {4000})\n\
        except OSError as error: print(error)\n";
    let (ran, _) = BACKEND.assert_same("exec \"$@\"", &["/usr/bin/python3", "-c", script]);
    assert!(ran.out().starts_with("{1} b'1\\n'"), "{}", ran.out());
}

#[test]
fn a_program_finds_its_name_its_file_and_its_arguments_as_without() {
    let program = trap("identity");
    let scene = BACKEND.scene();
    std::os::unix::fs::symlink(&program, scene.at("other-name")).unwrap();
    // Through env: bash itself would make a relative name absolute.
    let here = format!("cd {}; exec env \"$@\"", scene.directory().display());
    let (ran, _) =
        BACKEND.assert_same("exec \"$@\"", &[&program, "", "a b", "\n", "--", "-o", "x"]);
    assert!(ran.out().contains("comm: identity\n"));
    BACKEND.assert_same("exec \"$@\"", &[&scene.at("other-name"), "--help"]);
    BACKEND.assert_same(&here, &["./other-name"]);
    BACKEND.assert_same(
        &format!("PATH={}:$PATH; {here}", scene.directory().display()),
        &["other-name"],
    );
}

#[test]
fn the_path_is_searched_as_execvp_does() {
    let scene = BACKEND.scene();
    for directory in ["first", "second"] {
        scene.subdirectory(directory);
    }
    scene.file("first/tool", "echo not executable", 0o644);
    scene.file("second/tool", "#!/bin/sh\necho second \"$0\"\n", 0o755);
    scene.file("first/bare", "echo \"bare $0 $1\"; exit 6", 0o755);
    let setup = format!(
        "PATH=/nowhere:{0}/first:{0}/second:$PATH; exec env \"$@\"",
        scene.directory().display()
    );
    let (ran, _) = BACKEND.assert_same(&setup, &["tool"]);
    assert!(ran.out().starts_with("second"));
    // A script without an interpreter line is the shell's, as for env, nice and find -exec.
    let (ran, _) = BACKEND.assert_same(&setup, &["bare", "word"]);
    assert_eq!(
        (ran.out().as_str(), ran.code()),
        (&*format!("bare {} word\n", scene.at("first/bare")), 6)
    );
}

#[test]
fn process_group_and_session_are_the_callers() {
    let group = trap("group");
    let scene = BACKEND.scene();
    for traced in [false, true] {
        let mut command = if traced { scene.record(&[&group]) } else { Command::new(&group) };
        let mut live = testkit::Live::start(command.process_group(0));
        let seen = live.line();
        // SAFETY: getsid has no preconditions.
        let session = unsafe { libc::getsid(0) };
        assert_eq!(seen, format!("{} {session}", live.pid()), "traced: {traced}");
        assert_eq!(live.end().code(), 0);
    }
}

#[test]
fn orphans_are_adopted_by_the_same_process() {
    BACKEND.assert_same("exec \"$@\"", &[&trap("orphan")]);
}

#[test]
fn the_terminal_is_the_commands_own() {
    let probe = "tty; stty -a | grep -v speed; \
        test \"$(ps -o tpgid= -p $$)\" -eq \"$(ps -o pgid= -p $$)\" && echo foreground; \
        for fd in 0 1 2; do test -t $fd && echo \"$fd is a terminal\"; done; \
        read line; echo \"read $line\"; exit 5";
    let scene = BACKEND.scene();
    let on_a_terminal = |command: &mut Command| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$@\"; echo \"ended $?\"", "sh"]);
        shell.arg(command.get_program()).args(command.get_args());
        let mut terminal = Terminal::start(&mut shell);
        let tty = terminal.expect("\n");
        assert!(tty.starts_with("/dev/pts/"), "{tty}");
        let before = terminal.expect("2 is a terminal\r\n");
        terminal.send("typed\n");
        before + &terminal.expect("ended 5")
    };
    let untraced = on_a_terminal(Command::new("sh").args(["-c", probe]));
    assert!(untraced.contains("foreground") && untraced.contains("read typed"), "{untraced}");
    assert_eq!(on_a_terminal(&mut scene.record(&["sh", "-c", probe])), untraced);
}

#[test]
fn who_waits_for_the_command_is_told_the_cpu_time_it_took() {
    let scene = BACKEND.scene();
    let burn = "import time\nwhile time.process_time() < 0.4: pass";
    let timed = "TIMEFORMAT='%U %S'; time \"$@\"";
    for ran in both(&scene, timed, &["/usr/bin/python3", "-c", burn]) {
        let seconds: f64 =
            ran.err().split_whitespace().map(|part| part.parse::<f64>().unwrap()).sum();
        assert!((0.3..4.0).contains(&seconds), "{seconds} s");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_command_as_without() {
    let (ran, _) = BACKEND.assert_same("\"$@\" | head -1; echo ${PIPESTATUS[0]}", &["yes"]);
    assert_eq!(ran.out(), "y\n141\n");
}

#[test]
fn what_the_kernel_keeps_of_a_process_is_inherited() {
    let probe = "cd /proc/self; exec tail -n +1 oom_score_adj coredump_filter timerslack_ns \
        personality cgroup uid_map attr/current comm";
    for setup in [
        "exec \"$@\"",
        "exec choom -n 300 -- \"$@\"",
        "exec setarch --addr-no-randomize \"$@\"",
        "exec setarch --uname-2.6 \"$@\"",
        "echo 0x7f > /proc/self/coredump_filter; exec \"$@\"",
        "echo 70000 > /proc/self/timerslack_ns; exec \"$@\"",
    ] {
        BACKEND.assert_same(setup, &["sh", "-c", probe]);
    }
    BACKEND.assert_same("exec \"$@\"", &["sh", "-c", "readlink /proc/self/root /proc/self/ns/*"]);
}

#[test]
fn a_setuid_program_run_by_root_changes_its_user() {
    if !is_root() {
        return;
    }
    let scene = BACKEND.scene();
    let program = scene.at("identity");
    copy_program(trap("identity"), &program);
    std::os::unix::fs::chown(&program, Some(65534), Some(65534)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o6755);
    std::fs::set_permissions(&program, mode).unwrap();
    let (ran, _) = BACKEND.assert_same("exec \"$@\"", &[&program]);
    assert!(ran.out().ends_with("ids: 0 65534 0 65534\n"), "{}", ran.out());
}
