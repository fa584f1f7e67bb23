//! `becalm run --builtins`: scripts of `sh`, and shells that other programs start.

use crate::BECALM;
use crate::builtins::{Script, WITH, same_with};
use crate::counts::counted;
use std::fs;

/// dash on the script, as a file, on its standard input, and as `sh -c`.
#[track_caller]
fn same(script: &str) -> String {
    same_with(&format!("#!/bin/sh\n{script}\n"), &["./script"], &[]);
    same_with(script, &["bash", "--posix", "script"], &[]);
    same_with(script, &["sh", "-c", script], &[]);
    same_with(script, &["dash", "script"], &[])
}

/// What differs between dash and bash is dash's own, since dash it is that runs.
#[test]
fn what_is_dashs_own_stays_dashs_own() {
    same("echo 'a\\tb\\c'; echo -n x; echo -e y; printf '%q\\n' x; echo $?");
    same("local x=1; echo $?; f() { local y=2; echo $y; }; f; echo ${y-unset}");
    same(
        "type rm mkdir echo local nothing; echo $?; command -v rm; command -V cat; hash; hash rm; hash",
    );
    same("[ a == a ]; echo $?; [[ a = a ]]; echo $?; x=$'a\\n'; echo \"$x\"; echo {a,b}");
    same("a=(1 2); echo $?");
    same("kill -l | head -3; trap 'echo end' EXIT; trap; kill -l 9; ulimit -a | head -2");
    same("nothing; echo $?; ./file; echo $?; /; echo $?; . ./nothing; echo never");
    same("echo $((010 + 0x10)); echo $((1 ? 2 : 3)); i=1; echo $((i += 2)) $i");
    same(
        "printf 'a\\\\tb\\n' | { read x; echo \"$x\"; }; read -r y < file; echo $y; echo \"$LINENO\"",
    );
    same("set -o | head -3; echo $-; echo \"$PPID\" | grep -c .; echo \"$UID\" \"$BASH\"");
    same(
        "export -p | grep -v -e BECALM -e BASH_ENV -e TMPDIR -e PWD; set | grep -c LD_; env | grep LD_",
    );
    same(
        "exec 3> out; rm -f nothing >&3; set -- /proc/$$/fd/*; echo $#; cat out; umask; umask 077; mkdir d; ls -ld d | cut -c1-10",
    );
}

#[test]
fn tools_do_and_say_what_they_do_and_say_without() {
    same("rm -f file x; mkdir a b; mkdir a; echo $?; rmdir b nothing; echo $?; ls; mv a c; ls; mv");
    same("cat file; cat < file; cat nothing; echo $?; cat file - < file; cat file > file; echo $?");
    same(
        "x=$(basename /a/b.c .c); echo $x; echo $(dirname a/b) `cat file`; (mkdir s; cd s; mkdir t); ls s",
    );
    same("/bin/rm -f file; /usr/bin/basename a/b; ./rm; cp /bin/rm mine; ./mine file; ls");
    same(
        "for i in 1 2 3; do mkdir $i; rmdir $i; done | cat; mkdir p && rmdir p || echo no; ! rm nope; echo $?",
    );
    same("exec basename a/b");
    same(
        "(exec rm file; echo never); ls; (rm -f x; exit 3); echo $?; { rm -f y; } & wait $!; echo $?",
    );
    same("rm -f q & wait; mkdir z & wait $!; echo $?; rm nothing & wait $!; echo $?");
    same(
        "cat > out <<END\na $HOME `basename c/d` $((1 + 1))\nEND\ncat out; cat <<'END' | tr a b\n$HOME a\nEND",
    );
    same(
        "big=$(printf '%9000s' x); cat <<END | wc -c\n$big$big\nEND\ncat > o <<END\n$big\nEND\nwc -c < o; ls",
    );
    same("PATH=/nowhere:$PATH; mkdir x; PATH=/nowhere; rmdir x; echo $?; /bin/rmdir x; echo $?");
    same(
        "rm() { echo mine $*; }; rm x; command rm -f file; unset -f rm; rm -f y; alias rm='echo al'; rm x",
    );
    same("set -x; mkdir x; rmdir x; y=$(basename a/b); set +x; set -e; mkdir file; echo never");
    same("set -e; mkdir a; trap 'echo end $?' EXIT; rmdir a; rmdir a; echo never");
}

/// The same signals come at the same places.
#[test]
fn traps_and_signals_are_a_childs() {
    let chld = "trap 'n=$((n + 1))' CHLD; mkdir x; rmdir x; rm -f y; /bin/true; echo $n";
    assert_eq!(same(chld), "4\n");
    same("trap 'echo usr' USR1; kill -USR1 $$; mkdir x; rmdir x; kill -USR1 $$; echo end");
    same("trap '' CHLD; mkdir x; rmdir x; echo $?; trap - CHLD; mkdir y; rmdir y; echo $?");
    same("sleep 0.05 & mkdir x; rmdir x; wait; echo $?; sleep 0.02; mkdir y; echo $?");
    same(
        "trap 'echo term' TERM; for i in 1 2 3 4 5 6 7 8 9; do rm -f x; kill $$; mkdir d$i; done; ls",
    );
    same(
        "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; rm -f x; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status",
    );
    same("ulimit -f 0; cat file > big; echo after $?; mkdir x; echo $?");
    same(
        "ulimit -v 4000; sh -c 'rm -f x; echo $?'; env sh -c 'rm -f y; echo $?'; bash -c 'rm -f z'; echo $?",
    );
    same("(ulimit -n 3; mkdir x; echo $?); ulimit -n 3; mkdir y; echo $?");
    same("cat file > /dev/full; echo $?; cat file >&-; echo $?; basename x > nowhere/y; echo $?");
    same("set -m; mkdir x; rmdir x; echo $?; set +m; mkdir x; echo $?");
}

#[test]
fn variables_are_those_of_the_program() {
    same(
        "LC_ALL=C mkdir x; x=1 rmdir x; LD_SHOW_AUXV=1 mkdir y | grep -c AT_; LD_PRELOAD=/nowhere rm -f z 2>&1 | head -1",
    );
    same("export BIG=$(printf '%140000s' x); mkdir x; echo $?; unset BIG; mkdir x; echo $?");
    same(
        "readlink /proc/self/exe; realpath /proc/self/exe; cat /proc/self/comm; touch /proc/self/cwd/q; ls",
    );
    same_with(
        "mkdir x; ls; env | grep LD_",
        &["sh", "script"],
        &[("LD_BIND_NOW", "1"), ("POSIXLY_CORRECT", "1")],
    );
}

/// Who starts the shell does not matter, as long as that one can be told.
#[test]
fn shells_are_reached_through_what_starts_them() {
    let script = "#!/bin/sh\nrm -f a; mkdir b; rmdir b\n";
    let starters: [&[&str]; 10] = [
        &["./script"],
        &["env", "./script"],
        &["env", "-i", "PATH=/usr/bin:/bin", "BECALM=1", "sh", "script"],
        &["nice", "./script"],
        &["timeout", "9", "./script"],
        &["xargs", "-a", "file", "sh", "script"],
        &["find", "script", "-exec", "sh", "{}", ";"],
        &["perl", "-e", "system('./script')"],
        &["bash", "-c", "BASH_ENV=; export BASH_ENV; ./script"],
        &["make", "-f", "makefile"],
    ];
    for words in starters {
        let scene = Script::new(script);
        fs::write(
            scene.path().join("makefile"),
            "all:\n\t@./script && rm -f x && mkdir q; rmdir q\n",
        )
        .unwrap();
        let trace = ["strace", "-f", "-o", "trace", "-e", "trace=execve"];
        let ran = scene.run(&[&trace, WITH, words].concat(), &[]);
        assert_eq!((ran.code(), ran.err()), (0, String::new()), "{words:?}");
        let seen = fs::read_to_string(scene.path().join("trace")).unwrap();
        let tool =
            |line: &&str| ["rm\"", "mkdir\"", "rmdir\""].iter().any(|name| line.contains(name));
        let starts = seen.lines().filter(tool).filter(|line| !line.contains("--version"));
        let starts: Vec<&str> = starts.filter(|line| line.ends_with("= 0")).collect();
        assert_eq!(starts, Vec::<&str>::new(), "{words:?}: {seen}");
    }
}

#[test]
fn a_process_less_is_started_for_each_tool_of_sh() {
    let script = "#!/bin/sh\nrm -f a; mkdir b; rmdir b; cat file > new; x=$(basename a/b); /bin/true; rmdir nothing";
    let said = counted(script, &["./script"]);
    let numbers = &said["builtins"]["counted"];
    assert_eq!(numbers["shells"], 1, "{said:#}");
    assert_eq!(
        (&numbers["avoided"], &numbers["request"], &numbers["others"]),
        (&5.into(), &1.into(), &1.into()),
        "{said:#}"
    );
    let scene = Script::new(script);
    let trace = ["strace", "-f", "-o", "trace", "-e", "trace=execve,clone,clone3,fork,vfork"];
    scene.run(
        &[BECALM, "run", "--builtins", "--count", "--"]
            .iter()
            .chain(&trace)
            .chain(&["./script"])
            .copied()
            .collect::<Vec<_>>(),
        &[],
    );
    let seen = fs::read_to_string(scene.path().join("trace")).unwrap();
    // strace is none that passes the library on: all is started.
    // Arm's kernel has no vfork(2) of its own.
    let vfork = if cfg!(target_arch = "x86_64") { "vfork(" } else { "|CLONE_VFORK|" };
    assert_eq!(seen.matches(vfork).count(), 6, "{seen}");
}

/// Each program sees the environment without what loads the library.
#[test]
fn no_program_sees_how_the_library_is_loaded() {
    for words in [
        &["sh", "script"][..],
        &["bash", "--posix", "script"],
        &["env", "sh", "script"],
        &["make", "-f", "file"],
    ] {
        let scene = Script::new(
            "env; perl -e 'print %ENV'; python3 -c 'import os; print(os.environ)'; cat /proc/self/environ | tr '\\0' '\\n'; make -f file; xargs -a file env",
        );
        fs::write(scene.path().join("file"), "all:\n\t@env\n").unwrap();
        let ran = scene.run(&[WITH, words].concat(), &[]);
        assert!(
            !ran.out().contains("LD_PRELOAD") && !ran.out().contains("becalm-dash"),
            "{words:?}: {}",
            ran.out()
        );
    }
}

/// The library may be gone, or somebody else's.
#[test]
fn a_library_that_is_deleted_meanwhile_is_missed_by_nobody() {
    let script = "rm -rf ${BASH_ENV%/*}; sh -c 'rm -f x; echo $?'; env sh -c 'rm -f y; echo $?'; bash --posix -c 'rm -f z; echo $?'";
    let own = tempfile::tempdir().unwrap();
    let directory = own.path().to_str().unwrap();
    let ran = Script::new(script)
        .run(&[WITH, &["sh", "script"]].concat(), &[("XDG_RUNTIME_DIR", directory)]);
    assert_eq!((ran.out(), ran.err()), ("0\n0\n0\n".to_owned(), String::new()));
}

/// As distributions without dash have it.
#[test]
fn where_sh_is_bash_it_goes_without_starts_too() {
    let scene = Script::new("true");
    std::os::unix::fs::symlink("/bin/bash", scene.path().join("sh")).unwrap();
    let sh = scene.path().join("sh");
    let text = format!(
        "#!{}\nrm -f a; mkdir b; rmdir b; x=$(basename a/b); set -o | grep posix; echo $x\n",
        sh.display()
    );
    fs::write(scene.path().join("script"), text).unwrap();
    let plain = scene.run(&["./script"], &[]);
    for words in [&["./script"][..], &["dash", "-c", "./script"], &["./sh", "script"]] {
        let with = [BECALM, "run", "--builtins", "--count", "--"];
        let ran = scene.run(&[&with, words].concat(), &[]);
        assert_eq!(ran.out(), plain.out(), "{words:?}");
        assert!(ran.out().contains("posix") && ran.out().contains("on"), "{}", ran.out());
        // grep's may be there already when it is asked, or not.
        let counted = ["4 of ", "5 of "].iter().any(|said| ran.err().contains(said));
        assert!(counted, "{words:?}: {}", ran.err());
    }
}
