//! The process that serves an image to all ranks of a node: when it is killed, when it is asked to
//! end, and when memory is short.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use testkit::imaged::{As, Imaged, ways};
use testkit::user::{as_a_user, is_root};
use testkit::{Live, run};

/// Python that has looked at the packages of `$0` once, and imports another one when it is told to.
const IMPORTS: &str = "exec python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import first
print(\"ready\", flush=True); sys.stdin.readline(); import package; print(package.__file__)' \"$0\"";

/// Python that forks a child and a daemon; all three look for ever new names, and say whatever
/// comes but that they are not there.
const LOOKS: &str = "exec python3 -c 'import os, sys
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
os.write(1, b\"ready\\n\")
for number in range(10 ** 9):
    try:
        os.stat(f\"{sys.argv[1]}/package/{os.getpid()}-{number}\")
    except FileNotFoundError:
        continue
    except OSError as error:
        os.write(1, f\"wrong: {error}\\n\".encode())' \"$0\"";

fn packages() -> Imaged {
    Imaged::of("packages", |directory| {
        fs::create_dir(directory.join("package")).unwrap();
        fs::write(directory.join("package/__init__.py"), "").unwrap();
        fs::write(directory.join("first.py"), "").unwrap();
    })
}

fn kill_holders(env: &Imaged) {
    for holder in env.holders() {
        // One that is gone already was about to be.
        let _ = Command::new("kill").args(["-9", &holder.to_string()]).output().unwrap();
    }
}

#[test]
fn a_killed_holder_ends_the_ranks_before_they_see_anything_wrong() {
    let env = packages();
    for who in [As::User, As::RootByFuse].into_iter().filter(|who| ways().contains(who)) {
        let mut ranks: Vec<Live> = (0..3)
            .flat_map(|_| [IMPORTS, LOOKS].map(|script| Live::start(&mut env.sh(who, &[], script))))
            .collect();
        for rank in &mut ranks {
            assert_eq!(rank.line(), "ready");
        }
        kill_holders(&env);
        for rank in ranks {
            // The end of the output is that of all that a rank has forked.
            let ran = rank.end();
            assert_eq!(ran.status.signal(), Some(libc::SIGKILL), "{who:?} {}", ran.out());
            assert!(!ran.out().contains('/') && !ran.out().contains("wrong"), "{}", ran.out());
            let said = "becalm: the process that serves the image (becalm-holder, ";
            assert!(ran.err().contains(said), "{}", ran.err());
        }
        // Whoever comes next has a new one.
        assert_eq!(env.said(who, &[], "cat \"$0/where\""), "image\n");
        env.all_gone();
    }
}

#[test]
fn a_holder_that_is_killed_while_ranks_come_gives_none_of_them_a_wrong_answer() {
    let env = packages();
    let script =
        "test -e \"$0/no\"; echo $?; python3 -c 'import sys; sys.path.insert(0, sys.argv[1])
import package; print(package.__file__)' \"$0\"";
    let right = format!("1\n{}/package/__init__.py\n", env.directory);
    for _ in 0..3 {
        let ranks: Vec<Live> =
            (0..8).map(|_| Live::start(&mut env.sh(As::User, &[], script))).collect();
        while env.holders().is_empty() {
            std::thread::yield_now();
        }
        kill_holders(&env);
        for rank in ranks {
            let ran = rank.end();
            match (ran.status.signal(), ran.status.code()) {
                (Some(libc::SIGKILL), _) => assert!(right.starts_with(&ran.out())),
                (_, Some(125)) => assert!(ran.err().contains("holder"), "{}", ran.err()),
                _ => assert_eq!((ran.code(), ran.out()), (0, right.clone()), "{}", ran.err()),
            }
        }
        env.all_gone();
    }
}

#[test]
fn what_the_kernel_mounts_is_served_on_and_its_overlay_stays_locked() {
    if !is_root() {
        return;
    }
    let env = Imaged::new();
    let changes = env.scene.subdirectory("changes");
    let overlay = ["--by", "kernel", "--overlay", &changes];
    let script =
        "echo ready; read line; cat \"$0/where\"; echo more > \"$0/more\"; cat \"$0/more\"";
    let mut rank = Live::start(&mut env.sh(As::Root, &overlay, script));
    rank.line();
    kill_holders(&env);
    env.all_gone();
    let refused = env.refused(As::Root, &overlay);
    assert!(refused.contains("uses it"), "{refused}");
    assert_eq!(rank.end().out(), "image\nmore\n");
}

#[test]
fn who_asks_all_processes_to_end_leaves_the_image_to_the_ranks_until_they_have() {
    let env = Imaged::new();
    let mut rank = Live::start(&mut env.sh(As::User, &[], "echo ready; read line; ls \"$0/sub\""));
    rank.line();
    for holder in env.holders() {
        assert!(Command::new("kill").arg(holder.to_string()).status().unwrap().success());
    }
    let ran = rank.end();
    assert_eq!((ran.code(), ran.out().as_str()), (0, "a file, with é\nempty\n"), "{}", ran.err());
    env.all_gone();
}

#[test]
fn a_holder_is_spared_where_memory_is_short_as_far_as_its_user_may_ask() {
    let env = Imaged::new();
    let number = |text: &str| text.trim().parse::<i32>().unwrap();
    for who in ways() {
        let mut rank = Live::start(&mut env.sh(who, &[], "echo ready; read line"));
        rank.line();
        let holder = env.holders()[0];
        let score = fs::read_to_string(format!("/proc/{holder}/oom_score_adj")).unwrap();
        let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let lowest = ["sh", "-c", "echo -999 >/proc/self/oom_score_adj"];
        let may = match who {
            As::User => as_a_user(&lowest),
            As::Root | As::RootByFuse => {
                let mut shell = Command::new(lowest[0]);
                shell.args(&lowest[1..]);
                shell
            }
        };
        match run(&mut { may }).code() {
            0 => assert_eq!(score, "-999\n", "{who:?}"),
            _ => assert!(number(&score) <= number(&own), "{who:?} {score} {own}"),
        }
        rank.end();
        env.all_gone();
    }
}
