//! `becalm run --builtins`: subshells of one program, as configure tries its compiler in:
//! `(eval "$ac_compile") 2>conftest.err`.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::live::run;

use crate::builtins::{Script, WITH, counted, same_with};

/// A program that says what it gets, and one that is killed by the signal that it is told.
const PROGRAMS: &str = "printf '%s\\n' '#!/bin/sh' 'echo out \"$@\"; echo err >&2; exit ${1-0}' > prog\n\
    printf '%s\\n' '#!/bin/sh' 'echo before; echo on err >&2; kill -$1 $$; sleep 9' > die\n\
    chmod +x prog die; ulimit -c 0\n";

/// In bash, and in POSIX mode.
#[track_caller]
fn same(script: &str) {
    let script = format!("{PROGRAMS}{script}");
    same_with(&script, &["bash", "--posix", "script"], &[]);
    same_with(&script, &["bash", "script"], &[]);
}

#[test]
fn a_program_alone_in_a_subshell_does_and_says_the_same() {
    for script in [
        "c='./prog $x >&5'; exec 5>log; x=3; (eval \"$c\") 2>err; echo $?; cat log err; echo \"$!\"",
        "exec 5>>log; (eval './prog 4') 2>&5; echo $?; cat log; (eval ./prog) >/dev/null 2>&1; echo $?",
        "( eval ./prog 7 ); echo $?; if (eval ./prog 1) then echo yes; else echo $?; fi; ! (eval ./prog 1); echo $?",
        "set -e; (eval ./prog 0) >o; (eval ./prog 5) || echo or $?; (eval ./prog 3) 2>e; echo never",
        "(eval './prog 0') 2>e 1>&2; cat e; (eval './prog 2>&1') >o 2>/dev/null; cat o; (eval './prog 2>&1' >p); cat p",
        "(eval './prog' 2>q) >r; cat q r; (eval ./prog 6); echo \"${PIPESTATUS[@]}\" $?; jobs; wait",
        "f='o p'; (eval ./prog) >\"$f\"; ls; f=o; (eval ./prog) 2>$f; cat o; f='q*'; (eval ./prog) >$f; ls",
        "f='a b'; (eval ./prog) >$f; echo $?; x='1 2'; (eval './prog $x \"$x\"'); (eval \"./prog $x\"); (eval './prog \"a  b\" c\\ d')",
        "umask 077; (eval ./prog) >o; ls -l o | cut -c1-10; exec 3>&1; (eval './prog >&3') 2>&3; exec 3>&-; (eval './prog >&3'); echo $?",
        "(eval env) >o; grep -E '^(_|SHLVL)=' o; trap '' USR1; (eval 'uniq /proc/self/status') >o; grep -E '^Sig[BIC]' o; (eval 'ls -l /proc/self/fd') | wc -l",
        "while read l; do (eval cat); done <<E\n1\n2\n3\nE\nprintf 'a\\nb\\n' | { read z; (eval cat); echo $z; }",
    ] {
        same(script);
    }
}

#[test]
fn what_is_more_than_a_program_is_a_subshell() {
    for script in [
        "(eval ./nothing) 2>e; echo $?; cat e; (eval nothing) 2>e; echo $?; cat e; (eval ./prog) >no/where; echo $?; (eval ./prog) 2>&9; echo $?",
        "touch no; (eval ./no) 2>e; echo $?; cat e; printf 'echo script $1\\n' > sc; chmod +x sc; (eval ./sc a) 2>e; echo $?",
        "(eval ./prog a) | cat; echo x | (eval cat); (eval ./prog b) & wait $!; echo $?; x=$( (eval ./prog c) 2>&1 ); echo \"$x\"",
        "{ (eval ./prog d) 2>e; cat e; } | cat; y=`(eval ./prog e) 2>e`; echo $y; TIMEFORMAT=%%; time (eval ./prog f) 2>/dev/null",
        "set -C; echo a > o; (eval ./prog) >o; echo $?; set +C; set -u; (eval \"./prog $un\") 2>e; echo $?",
        "trap 'echo c' CHLD; (eval ./prog); trap - CHLD; trap 'echo E $LINENO' ERR; (eval ./prog 1); set -E; (eval ./prog 1)",
        "set -x; (eval ./prog) 2>e; cat e; set +x; trap 'echo end' EXIT; (eval ./prog); (eval 'exit 4'); echo $?",
        "prog() { echo fun; }; (eval prog) >o; cat o; shopt -s expand_aliases; alias ll='./prog al'\n(eval ll); (eval 'x=5 ./prog'); echo $x",
        "PATH=.:$PATH; (eval prog a b) 2>e; hash; (eval 'cd /; pwd'); (eval rm -f o); (eval './prog; ./prog'); (eval './prog &'; wait)",
        "set -v\n(eval './prog 3') 2>e\nx=$(eval echo a)\n(eval './prog 1')\nset +v",
        "set -k; (eval './prog a=b c'); echo $?; x=$(echo a=b c); echo \"$x\"; (eval 'env q=5') >o; grep q= o",
        "shopt -s extdebug; (eval './prog 3') 2>e; coproc cat; (eval './prog 3') 2>>e; cat e; exec {COPROC[1]}>&-; wait",
        "f() { local x=5; export x; (eval env) >o; grep ^x= o; }; f; g() { (eval env) >o; grep ^z= o; }; z=1 g",
        "for i in 1 2; do (eval './prog $i') && break; done; while (eval ./prog) >o; do break; done; { (eval './prog 2'); } 2>e; echo $?; cat e",
        "mkfifo p; cat p & (eval ./prog) >p; wait; echo $?; (eval ./prog) >.; echo $?; (eval ./prog) 2>/proc/self/comm",
        "bash -c '(eval \"./prog 3\") 2>e; echo $?; (eval \"./die SEGV\") 2>e; cat e; echo done'",
    ] {
        same(script);
    }
}

/// Its shell has to say so: where, in which line, and of which process.
#[test]
fn a_program_that_is_killed_is_reported_where_it_would_be() {
    for signal in ["SEGV", "ABRT", "KILL", "INT", "TERM", "PIPE", "HUP", "USR1", "QUIT"] {
        same(&format!(
            "exec 5>log; (eval './die {signal}') 2>&5; echo $?; cat log; (eval './die {signal}') >o 2>e; echo $?; \
             cat o e\nf() {{\n (\n  eval ./die {signal}\n ) 2>>e\n}}\nf; echo $?; cat e"
        ));
    }
    same(
        "trap 'echo INT $?' INT; trap 'echo TERM $?' TERM; (eval './die INT') 2>e; echo $?; (eval './die TERM'); echo $?",
    );
    same("set -e; trap 'echo end $?' EXIT; (eval './die SEGV') 2>e; echo never");
}

/// What the shell gets while the program runs, it does what it would.
#[test]
fn a_shell_that_is_signalled_meanwhile_ends_and_traps_as_ever() {
    let program = "trap : INT; sleep 1.5; echo caught; exit 4";
    for trap in
        ["", "trap 'echo INT $?' INT", "trap 'echo TERM $?; exit 9' TERM", "trap '' INT TERM"]
    {
        for (signal, group) in [("INT", false), ("INT", true), ("TERM", false)] {
            let seen = [&[][..], WITH].map(|with| {
                let scene =
                    Script::new(&format!("{trap}\n(eval ./catch) 2>err; echo $?\necho end\n"));
                fs::write(scene.path().join("catch"), format!("#!/bin/bash\n{program}\n")).unwrap();
                run(Command::new("chmod").arg("+x").arg(scene.path().join("catch")));
                let mut command = Command::new("setsid");
                command.args(with).args(["bash", "script"]).current_dir(scene.path());
                command.stdin(Stdio::null()).stdout(Stdio::piped()).env_remove("BASH_ENV");
                let child = command.spawn().unwrap();
                let id = child.id().to_string();
                // The program runs once its errors have a file.
                while !scene.path().join("err").exists() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                std::thread::sleep(Duration::from_millis(500));
                let to = if group { format!("-{id}") } else { id };
                run(Command::new("kill").args([&format!("-{signal}"), "--", &to]));
                let ended = child.wait_with_output().unwrap();
                (
                    ended.status.code(),
                    ended.status.signal(),
                    String::from_utf8_lossy(&ended.stdout).into_owned(),
                )
            });
            assert_eq!(seen[0], seen[1], "{trap}: {signal} {group}");
        }
    }
}

#[test]
fn a_program_alone_in_a_subshell_is_one_process() {
    let script = format!(
        "{PROGRAMS}exec 5>log; for i in 1 2 3 4 5; do (eval './prog $i >&5') 2>e; done; true\n"
    );
    let starts = Script::new(&script).starts();
    let made = starts.iter().filter(|line| line.contains("clone") || line.contains("fork"));
    assert_eq!(made.count(), 5, "{starts:?}");
    let said = counted(&script, &["bash", "script"]);
    assert_eq!(said["builtins"]["counted"]["others"], 5, "{said:#}");
}
