//! `becalm elf pack` and `becalm run --pack`: a program says and does the same from its pack.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use testkit::bound::Site;
use testkit::user::{as_a_user, is_root, scene_for_a_user};
use testkit::{Scene, run};

use crate::BECALM;
use crate::packed::{FORMS, Packed, REPORT, all, assert_same, clean, compile};

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn programs_of_the_distribution_say_and_end_the_same() {
    let python = "
import sys, ssl, threading, ctypes, subprocess, os, hashlib
box = []
threads = [threading.Thread(target=lambda n=n: box.append(n)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sys.argv, sys.executable, ssl.OPENSSL_VERSION, sorted(box), hashlib.sha256(b'x').hexdigest())
print(ctypes.CDLL(None).getpid() == os.getpid(), ctypes.CDLL('libm.so.6').abs(-3))
print(subprocess.run([sys.executable, '-c', 'print(\"child\")'], capture_output=True).stdout)
sys.exit(5)";
    let emacs = fs::canonicalize("/usr/bin/emacs").unwrap();
    let script = "echo $0 $# \"$@\"; (exit 3); echo $?; x=$(printf '%s-' a b); echo $x; \
        for i in 1 2 3; do echo $i; done | sort -r; trap 'echo bye' EXIT; kill -TERM $$; sleep 9";
    for (program, words) in [
        ("/bin/bash", &["-c", script, "zero", "one", "two"][..]),
        ("/usr/bin/python3", &["-c", python, "a", "b"]),
        (
            emacs.to_str().unwrap(),
            &["-Q", "--batch", "--eval", "(message \"%s %s\" (+ 1 2) invocation-name)"],
        ),
        ("/bin/ls", &["-l", "/proc/self/exe", "/etc/hostname", "/no/such/file"]),
        ("/usr/bin/perl", &["-e", "print \"$0 @ARGV $^X\\n\"; die 'so'", "x"]),
        ("/usr/bin/git", &["--version"]),
        ("/usr/bin/gdb", &["--version"]),
        ("/usr/bin/sort", &["/etc/passwd"]),
        ("/usr/bin/env", &["printf", "%s", "exec of another program"]),
        ("/usr/bin/curl", &["--version"]),
        ("/usr/bin/false", &[]),
    ] {
        Packed::new(program).assert_same_but_its_file(words);
    }
}

impl Packed {
    /// As [`Packed::assert_same`]; what asks for its own file finds the pack in form 1.
    #[track_caller]
    fn assert_same_but_its_file(&self, words: &[&str]) {
        if !words.contains(&"/proc/self/exe") {
            return self.assert_same(words);
        }
        let plain = run(&mut self.plain(words));
        let packed = run(self.packed("interpreter", words).env(REPORT, "1"));
        let without_date = |text: &str| {
            let words = |line: &str| {
                line.split_whitespace().rev().take(3).map(str::to_owned).collect::<Vec<_>>()
            };
            text.lines().map(words).collect::<Vec<_>>()
        };
        assert_eq!(without_date(&packed.out()), without_date(&plain.out()));
        assert_eq!((packed.code(), packed.err()), (plain.code(), plain.err()));
    }
}

#[test]
fn exceptions_threads_tls_dlopen_fork_and_all_else_are_as_without() {
    let (packed, given) = all(Scene::new());
    assert_eq!(packed.forms(), FORMS, "{}", packed.made);
    let plain = run(packed.plain(&words(&given)).env("PROBE", "set"));
    assert_eq!(plain.code(), 42, "{}{}", plain.out(), plain.err());
    for line in
        ["main: thrown at depth 0", "again 1", "on its stack 1", "clocks 1", "comm all", "atexit"]
    {
        assert!(plain.out().contains(line), "{line}: {}", plain.out());
    }
    for form in FORMS {
        let from_pack =
            run(packed.packed(form, &words(&given)).env("PROBE", "set").env(REPORT, "1"));
        // One variable more.
        assert_same(&plain, &from_pack, form);
    }
    assert_same(
        &plain,
        &run(packed.alone(&words(&given)).env("PROBE", "set").env(REPORT, "1")),
        "alone",
    );
}

#[test]
fn a_program_at_a_fixed_address_is_packed_too() {
    let scene = Scene::new();
    let source = scene.file(
        "fixed.c",
        "#include <stdio.h>\nextern char **environ;\nint main(int c, char **v) \
        { printf(\"%d %p %d\\n\", c, (void *)main, environ == v + c + 1); return c; }",
        0o644,
    );
    let program = compile(&scene, "gcc", &["-no-pie", &source], "fixed");
    Packed::of(scene, &program).assert_same(&["a", "b"]);
}

#[test]
fn hundreds_of_starts_under_randomised_layouts_are_the_same() {
    let (packed, given) = all(Scene::new());
    let plain = run(packed.plain(&words(&given)).env("PROBE", "set"));
    for (many, form) in [(300, None), (100, Some(FORMS[0])), (50, Some(FORMS[1]))] {
        for n in 0..many {
            let mut command = match form {
                None => packed.alone(&words(&given)),
                Some(form) => packed.packed(form, &words(&given)),
            };
            // Stacks of all sizes.
            command.env("PROBE", "set").env("FILL", "x".repeat(n * 37)).env(REPORT, "1");
            assert_same(&plain, &run(&mut command), &format!("{form:?}, start {n}"));
        }
    }
}

/// System calls up to the program's own first output.
fn calls(command: &Command) -> usize {
    let scene = Scene::new();
    let log = scene.at("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", &log, "--"]).arg(command.get_program()).args(command.get_args());
    let ran = run(&mut clean(strace, &[]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let log = fs::read_to_string(log).unwrap();
    // From the exec of the program: becalm's own calls are before.
    let lines: Vec<_> = log.lines().collect();
    let exec =
        lines.iter().rposition(|line| line.contains("execve(") && line.ends_with("= 0")).unwrap();
    lines.len() - exec
}

#[test]
fn a_store_of_libraries_starts_with_a_fraction_of_the_calls() {
    let site = Site::new();
    let program = site.store(150, &[]);
    let packed = Packed::of(site.scene, &program);
    assert!(packed.made["libraries"].as_u64().unwrap() > 150, "{}", packed.made);
    packed.assert_same(&[]);
    let plain = calls(&packed.plain(&[]));
    for form in FORMS {
        let from_pack = calls(&packed.packed(form, &[]));
        assert!(from_pack * 10 < plain, "{from_pack} of {plain} as {form}");
    }
    let options = ["--immutable", &packed.scene.at("tree")];
    let immutable = Packed::with(packed.scene, &program, &options);
    immutable.assert_same(&[]);
    for form in FORMS {
        let from_pack = calls(&immutable.packed(form, &[]));
        assert!(from_pack < 60, "{from_pack} of {plain} as {form}");
    }
}

#[test]
fn a_child_that_executes_the_same_program_runs_it_and_finds_its_own_file() {
    let packed = Packed::new("/bin/bash");
    let script =
        "readlink /proc/$$/exe; /bin/bash -c 'readlink /proc/$$/exe; cat /proc/self/personality'";
    let plain = run(&mut packed.plain(&["-c", script]));
    assert_same(&plain, &run(&mut packed.packed("interpreter", &["-c", script])), "mounted");
}

#[test]
fn gdb_attaches_to_the_mounted_form_and_shows_a_whole_backtrace() {
    let scene = Scene::new();
    let source = scene.file(
        "waits.c",
        "#include <stdio.h>\n#include <unistd.h>\nvoid innermost(void) { puts(\"ready\"); fflush(stdout); \
         pause(); }\nvoid outer(void) { innermost(); }\nint main(void) { outer(); return 0; }",
        0o644,
    );
    let program = compile(&scene, "gcc", &["-g", "-O0", &source], "waits");
    let packed = Packed::of(scene, &program);
    let mut command = packed.packed("interpreter", &[]);
    let mut child = command.env(REPORT, "1").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = child.id().to_string();
    let gdb = run(Command::new("gdb").args([
        "-nx",
        "-batch",
        "-p",
        &pid,
        "-ex",
        "bt",
        "-ex",
        "info sharedlibrary",
    ]));
    child.kill().unwrap();
    child.wait().unwrap();
    for frame in ["pause", "innermost ()", "outer ()", "main ()", "libc.so.6"] {
        assert!(gdb.out().contains(frame), "{frame}: {}{}", gdb.out(), gdb.err());
    }
}

/// A program in which each rank passes 4 MB to the next one.
fn ring(scene: &Scene) -> String {
    let source = scene.file(
        "ring.c",
        "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) { MPI_Init(&c, &v); int rank, size, \
         sum = 0; MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size); \
         static char large[4 << 20]; MPI_Sendrecv_replace(large, sizeof large, MPI_CHAR, (rank + 1) % size, 0, \
         (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); rank++; \
         MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD); \
         if (rank == 1) printf(\"%d ranks, sum %d\\n\", size, sum); MPI_Finalize(); return 0; }",
        0o644,
    );
    compile(scene, "mpicc", &[&source], "ring")
}

#[test]
fn ranks_of_mpi_say_the_same() {
    let scene = Scene::new();
    let program = ring(&scene);
    let packed = Packed::of(scene, &program);
    let mpirun = |rank: &Command| {
        let mut command = Command::new("mpirun");
        command.args(["--allow-run-as-root", "--oversubscribe", "-n", "3"]);
        command.arg(rank.get_program()).args(rank.get_args());
        run(&mut clean(command, &[]))
    };
    let plain = mpirun(&packed.plain(&[]));
    assert!(plain.out().contains("3 ranks, sum 6"), "{}{}", plain.out(), plain.err());
    for form in packed.forms() {
        let from_pack = mpirun(&packed.packed(form, &[]));
        let said = (from_pack.code(), from_pack.out());
        assert_eq!(said, (plain.code(), plain.out()), "{}", from_pack.err());
    }
}

/// In user namespaces of their own they could not read each other's memory.
#[test]
fn ranks_of_an_ordinary_user_are_started_without_namespaces() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let program = ring(&scene);
    let packed = Packed::of(scene, &program).given_to_all();
    let becalm = packed.scene.at("becalm");
    let words = [
        "mpirun",
        "--oversubscribe",
        "-n",
        "2",
        &becalm,
        "run",
        "--pack",
        &packed.pack,
        "--",
        &program,
    ];
    let mut ranks = clean(as_a_user(&words), &[]);
    let ran = run(ranks.env("HOME", packed.scene.directory()).env(REPORT, "1"));
    assert_eq!((ran.code(), ran.out().as_str()), (0, "2 ranks, sum 3\n"), "{}", ran.err());
    assert!(!ran.err().contains("becalm"), "{}", ran.err());
}

#[test]
fn an_ordinary_user_starts_from_roots_pack_in_both_forms() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let packed = Packed::of(scene, "/bin/bash").given_to_all();
    let becalm = packed.scene.at("becalm");
    for form in FORMS {
        let words = [
            &becalm,
            "run",
            "--pack",
            &packed.pack,
            "--pack-as",
            form,
            "--",
            "/bin/bash",
            "-c",
            "id -u; echo $0",
            "name",
        ];
        let ran = run(clean(as_a_user(&words), &[]).env(REPORT, "1"));
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("65534\nname\n", ""), "{form}");
    }
}

#[test]
fn json_says_in_which_form_it_was_started() {
    let packed = Packed::new("/bin/true");
    for form in FORMS {
        let mut command = Command::new(BECALM);
        command.args(["run", "--json", "--pack", &packed.pack, "--pack-as", form, "--", "true"]);
        let ran = run(&mut clean(command, &[]));
        let told: serde_json::Value = serde_json::from_str(&ran.err()).unwrap();
        assert_eq!((ran.code(), &told["pack"]["form"]), (0, &form.into()), "{told}");
    }
}
