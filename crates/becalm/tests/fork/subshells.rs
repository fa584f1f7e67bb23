//! `becalm run --builtins`: subshells of one program, a compiler, as configure tries its compiler in:
//! `(eval "$ac_compile") 2>conftest.err`.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::live::run;

use crate::builtins::{Script, WITH, same_with, without_ids};
use crate::counts::counted;

/// A program that says what it gets, and one that is killed by the signal that it is told; and what runs
/// them, under a compiler's name.
const PROGRAMS: &str = "printf '%s\\n' '#!/bin/sh' 'echo out \"$@\"; echo err >&2; exit ${1-0}' > prog\n\
    printf '%s\\n' '#!/bin/sh' 'echo before; echo on err >&2; kill -$1 $$; sleep 9' > die\n\
    chmod +x prog die; cp /bin/dash cc; ulimit -c 0\n";

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
        "c='./cc prog $x >&5'; exec 5>log; x=3; (eval \"$c\") 2>err; echo $?; cat log err; echo \"$!\"",
        "exec 5>>log; (eval './cc prog 4') 2>&5; echo $?; cat log; (eval ./cc prog) >/dev/null 2>&1; echo $?",
        "( eval ./cc prog 7 ); echo $?; if (eval ./cc prog 1) then echo yes; else echo $?; fi; ! (eval ./cc prog 1); echo $?",
        "set -e; (eval ./cc prog 0) >o; (eval ./cc prog 5) || echo or $?; (eval ./cc prog 3) 2>e; echo never",
        "(eval './cc prog 0') 2>e 1>&2; cat e; (eval './cc prog 2>&1') >o 2>/dev/null; cat o; (eval './cc prog 2>&1' >p); cat p",
        "(eval './cc prog' 2>q) >r; cat q r; (eval ./cc prog 6); echo \"${PIPESTATUS[@]}\" $?; jobs; wait",
        "f='o p'; (eval ./cc prog) >\"$f\"; ls; f=o; (eval ./cc prog) 2>$f; cat o; f='q*'; (eval ./cc prog) >$f; ls",
        "f='a b'; (eval ./cc prog) >$f; echo $?; x='1 2'; (eval './cc prog $x \"$x\"'); (eval \"./cc prog $x\"); (eval './cc prog \"a  b\" c\\ d')",
        "umask 077; (eval ./cc prog) >o; ls -l o | cut -c1-10; exec 3>&1; (eval './cc prog >&3') 2>&3; exec 3>&-; (eval './cc prog >&3'); echo $?",
        "(eval './cc -c env') >o; grep -E '^(_|SHLVL)=' o; trap '' USR1; (eval './cc -c \"exec uniq /proc/self/status\"') >o; grep -E '^Sig[BIC]' o; (eval './cc -c \"exec ls -l /proc/self/fd\"') | wc -l",
        "while read l; do (eval ./cc -c cat); done <<E\n1\n2\n3\nE\nprintf 'a\\nb\\n' | { read z; (eval ./cc -c cat); echo $z; }",
    ] {
        same(script);
    }
}

#[test]
fn what_is_more_than_a_program_is_a_subshell() {
    for script in [
        "(eval ./nothing) 2>e; echo $?; cat e; (eval nothing) 2>e; echo $?; cat e; (eval ./cc prog) >no/where; echo $?; (eval ./cc prog) 2>&9; echo $?",
        "touch no; (eval ./no) 2>e; echo $?; cat e; printf 'echo script $1\\n' > sc; chmod +x sc; (eval ./sc a) 2>e; echo $?",
        "(eval ./cc prog a) | cat; echo x | (eval ./cc -c cat); (eval ./cc prog b) & wait $!; echo $?; x=$( (eval ./cc prog c) 2>&1 ); echo \"$x\"",
        "{ (eval ./cc prog d) 2>e; cat e; } | cat; y=`(eval ./cc prog e) 2>e`; echo $y; TIMEFORMAT=%%; time (eval ./cc prog f) 2>/dev/null",
        "set -C; echo a > o; (eval ./cc prog) >o; echo $?; set +C; set -u; (eval \"./cc prog $un\") 2>e; echo $?",
        "trap 'echo c' CHLD; (eval ./cc prog); trap - CHLD; trap 'echo E $LINENO' ERR; (eval ./cc prog 1); set -E; (eval ./cc prog 1)",
        "set -x; (eval ./cc prog) 2>e; cat e; set +x; trap 'echo end' EXIT; (eval ./cc prog); (eval 'exit 4'); echo $?",
        "prog() { echo fun; }; (eval prog) >o; cat o; shopt -s expand_aliases; alias ll='./cc prog al'\n(eval ll); (eval 'x=5 ./cc prog'); echo $x",
        "PATH=.:$PATH; (eval prog a b) 2>e; hash; (eval 'cd /; pwd'); (eval rm -f o); (eval './cc prog; ./cc prog'); (eval './cc prog &'; wait)",
        "set -v\n(eval './cc prog 3') 2>e\nx=$(eval echo a)\n(eval './cc prog 1')\nset +v",
        "set -k; (eval './cc prog a=b c'); echo $?; x=$(echo a=b c); echo \"$x\"; (eval './cc -c env q=5') >o; grep q= o",
        "shopt -s extdebug; (eval './cc prog 3') 2>e; coproc cat; (eval './cc prog 3') 2>>e; cat e; exec {COPROC[1]}>&-; wait",
        "f() { local x=5; export x; (eval './cc -c env') >o; grep ^x= o; }; f; g() { (eval './cc -c env') >o; grep ^z= o; }; z=1 g",
        "for i in 1 2; do (eval './cc prog $i') && break; done; while (eval ./cc prog) >o; do break; done; { (eval './cc prog 2'); } 2>e; echo $?; cat e",
        "mkfifo p; cat p & (eval ./cc prog) >p; wait; echo $?; (eval ./cc prog) >.; echo $?; (eval ./cc prog) 2>/proc/self/comm",
        "bash -c '(eval \"./cc prog 3\") 2>e; echo $?; (eval \"./cc die SEGV\") 2>e; cat e; echo done'",
    ] {
        same(script);
    }
}

/// Its shell has to say so: where, in which line, and of which process.
#[test]
fn a_program_that_is_killed_is_reported_where_it_would_be() {
    for signal in ["SEGV", "ABRT", "KILL", "INT", "TERM", "PIPE", "HUP", "USR1", "QUIT"] {
        same(&format!(
            "exec 5>log; (eval './cc die {signal}') 2>&5; echo $?; cat log; (eval './cc die {signal}') >o 2>e; echo $?; \
             cat o e\nf() {{\n (\n  eval ./cc die {signal}\n ) 2>>e\n}}\nf; echo $?; cat e"
        ));
    }
    same(
        "trap 'echo INT $?' INT; trap 'echo TERM $?' TERM; (eval './cc die INT') 2>e; echo $?; (eval './cc die TERM'); echo $?",
    );
    same("set -e; trap 'echo end $?' EXIT; (eval './cc die SEGV') 2>e; echo never");
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
                    Script::new(&format!("{trap}\n(eval ./cc catch) 2>err; echo $?\necho end\n"));
                fs::write(scene.path().join("catch"), program).unwrap();
                fs::copy("/bin/dash", scene.path().join("cc")).unwrap();
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

/// Its parent is then the shell itself: only programs that do not ask for it are taken.
#[test]
fn a_program_that_may_ask_for_its_parent_has_a_subshell_for_one() {
    let asks = "sh -c 'echo \\$PPID'";
    let is_it = "if [ \"$(cat o)\" = $$ ]; then echo same; else echo other; fi";
    same(&format!("c=\"{asks}\"; (eval \"$c\") >o; {is_it}"));
    for name in ["gcc", "mkdir", "./gcc", "./ld", "./gcc-x", "./xgcc"] {
        same(&format!(
            "printf '%s\\n' '#!/bin/sh' 'echo $PPID' >{file}; chmod +x {file}; PATH=$PWD:$PATH; (eval {name}) >o; {is_it}",
            file = name.trim_start_matches("./"),
        ));
    }
    same(
        "trap 'echo end $?' EXIT; trap 'echo usr' USR1; c='sh -c \"kill -USR1 \\$PPID\"'; (eval \"$c\") 2>e; echo $?; \
         c='./xcc -c \"kill -TERM \\$PPID\"'; cp cc xcc; (eval \"$c\") 2>e; echo goes on $?",
    );
}

/// What configure has compiled and runs, as long as nothing in it can ask who its parent is.
#[test]
fn a_probe_of_configures_is_one_process_unless_it_could_ask_for_its_parent() {
    for (body, link, processes) in [
        ("puts(n > 1 ? words[1] : \"none\"); fputs(\"err\", stderr); return 7;", &[][..], 1),
        // Whoever is killed has a copy of the shell to say so.
        ("raise(SIGSEGV);", &[], 2),
        ("printf(\"%d\", getppid() == getpgrp()); return n;", &[], 2),
        ("return kill(getppid(), 0) != 0;", &[], 2),
        ("return fopen(\"/proc/self/stat\", \"r\") == 0;", &[], 2),
        ("return system(\"exit 3\") >> 8;", &[], 3),
        ("return 6;", &["-static"], 2),
    ] {
        let source = format!(
            "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
             int main(int n, char **words) {{ (void)words; {body} }}\n"
        );
        let compiled = |script: &str| {
            let script = Script::new(script);
            fs::write(script.path().join("conftest.c"), &source).unwrap();
            let mut gcc = Command::new("gcc");
            gcc.args(link).args(["-g", "-o", "conftest", "conftest.c"]).current_dir(script.path());
            assert!(gcc.status().unwrap().success());
            script
        };
        let said = "ulimit -c 0; exec 5>log; (eval \"./conftest$ac_exeext $x\") 2>&5; echo $?; cat log; ls\n";
        for words in [&["bash", "--posix", "script"][..], &["bash", "script"]] {
            let run = |with: &[&str]| {
                let ran = compiled(said).run(&[with, words].concat(), &[]);
                (ran.code(), without_ids(&ran.stdout), ran.err())
            };
            assert_eq!(run(&[]), run(WITH), "{body}");
        }
        let thrice = "ulimit -c 0; for i in 1 2 3; do (eval ./conftest) >o 2>&1; done; true\n";
        let starts = compiled(thrice).starts();
        let made = starts.iter().filter(|line| line.contains("clone") || line.contains("fork"));
        assert_eq!(made.count(), 3 * processes, "{body}: {starts:?}");
    }
}

#[test]
fn a_program_alone_in_a_subshell_is_one_process() {
    let script = format!(
        "{PROGRAMS}exec 5>log; for i in 1 2 3 4 5; do (eval './cc prog $i >&5') 2>e; done; true\n"
    );
    let starts = Script::new(&script).starts();
    let made = starts.iter().filter(|line| line.contains("clone") || line.contains("fork"));
    assert_eq!(made.count(), 5, "{starts:?}");
    let said = counted(&script, &["bash", "script"]);
    assert_eq!(said["builtins"]["counted"]["others"], 5, "{said:#}");
}
