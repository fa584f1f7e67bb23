//! The process that serves an image to all ranks of a node: when it is killed, when it is asked to
//! end, and when memory is short.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::imaged::{As, Imaged, ways};
use testkit::user::{as_a_user, is_root};
use testkit::{Live, run};

/// Python that forks a child and a daemon; all three import ever new packages of `$0`, look for names
/// that are not there, list a directory and read a file, and say whatever is not as it should be.
const IMPORTS: &str = "exec python3 -c 'import os, sys
sys.path.insert(0, sys.argv[1])
import first
for number in range(2):
    if os.fork() == 0:
        os.setsid()
os.write(1, b\"ready\\n\")
def wrong(what):
    os.write(1, f\"wrong: {what}\\n\".encode())
for number in range(400):
    try:
        package = __import__(f\"package{number}\")
        if package.__file__ is None or package.number != number:
            wrong(package)
        if number % 50 == 0 and sorted(os.listdir(os.path.dirname(package.__file__)))[0] != \"__init__.py\":
            wrong(\"a listing\")
        if len(open(f\"{sys.argv[1]}/large{number % 20}\", \"rb\").read()) != 200000:
            wrong(\"a file\")
    except Exception as error:
        wrong(repr(error))
    try:
        os.stat(f\"{sys.argv[1]}/package{number}/{os.getpid()}\")
        wrong(\"a name\")
    except FileNotFoundError:
        pass
    except OSError as error:
        wrong(error)
os.write(1, b\"done\\n\")' \"$0\"";

/// Python that has looked at the packages of `$0` once, and imports another one when it is told to.
const LATER: &str = "exec python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import first
print(\"ready\", flush=True); sys.stdin.readline(); import package; print(package.__file__)' \"$0\"";

fn packages() -> Imaged {
    Imaged::of("packages", |directory| {
        fs::create_dir(directory.join("package")).unwrap();
        fs::write(directory.join("package/__init__.py"), "").unwrap();
        fs::write(directory.join("first.py"), "").unwrap();
        for number in 0..400 {
            let package = directory.join(format!("package{number}"));
            fs::create_dir(&package).unwrap();
            fs::write(package.join("__init__.py"), format!("number = {number}\n")).unwrap();
        }
        for number in 0..20 {
            let bytes: Vec<u8> = (0..200_000).map(|at| (at * (number + 3) % 251) as u8).collect();
            fs::write(directory.join(format!("large{number}")), bytes).unwrap();
        }
    })
}

fn kill_holders(env: &Imaged) {
    kill(&env.holders());
}

fn kill(processes: &[i32]) {
    for process in processes {
        // One that is gone already was about to be.
        let _ = Command::new("kill").args(["-9", &process.to_string()]).output().unwrap();
    }
    // Whoever is killed holds its files a moment longer.
    let holds = |pid: &i32| {
        fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|mut open| open.next().is_some())
    };
    while processes.iter().any(holds) {
        std::thread::yield_now();
    }
}

/// Waits until an image has as many holders and guards as it should, and the same ones a moment later: one
/// may be about to take the place of another. Who they are.
#[track_caller]
fn until_guarded(env: &Imaged) -> (i32, [i32; 2]) {
    let mut before = None;
    for _ in 0..250 {
        let now = (env.holders(), env.guards());
        if let (&[holder], &[one, other]) = (&now.0[..], &now.1[..])
            && before.as_ref() == Some(&now)
        {
            return (holder, [one, other]);
        }
        before = Some(now);
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("holders {:?}, guards {:?}", env.holders(), env.guards());
}

#[test]
fn ranks_do_not_notice_that_a_holder_is_killed_at_any_moment() {
    let env = packages();
    for who in [As::User, As::RootByFuse].into_iter().filter(|who| ways().contains(who)) {
        let mut ranks: Vec<Live> =
            (0..3).map(|_| Live::start(&mut env.sh(who, &[], IMPORTS))).collect();
        for rank in &mut ranks {
            assert_eq!(rank.line(), "ready");
        }
        for moment in 0..20 {
            kill_holders(&env);
            std::thread::sleep(Duration::from_millis(moment * 7 % 40));
        }
        for rank in ranks {
            // The end of the output is that of all that a rank has forked.
            let ran = rank.end();
            assert!(!ran.out().contains("wrong"), "{who:?} {}", ran.out());
            assert_eq!(ran.code(), 0, "{who:?} {}{}", ran.out(), ran.err());
            // Two forks after one another make four processes.
            assert_eq!(ran.out().matches("done\n").count(), 4, "{}", ran.out());
        }
        env.all_gone();
        // The guards leave a moment after their holder.
        for _ in 0..1000 {
            if env.guards().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(env.guards(), [] as [i32; 0]);
    }
}

#[test]
fn a_guard_that_is_killed_is_replaced_and_whoever_comes_later_joins_the_next_holder() {
    let env = packages();
    let mut rank = Live::start(&mut env.sh(As::User, &[], LATER));
    rank.line();
    for guard in until_guarded(&env).1 {
        kill(&[guard]);
        until_guarded(&env);
    }
    // The holder and its guard, in whatever order.
    for which in 0..2 {
        let (holder, guards) = until_guarded(&env);
        kill(&[holder, guards[which]]);
        let (holder, guards) = until_guarded(&env);
        kill(&[guards[which], holder]);
    }
    until_guarded(&env);
    let mut later =
        Live::start(&mut env.sh(As::User, &[], "echo ready; read line; cat \"$0/where\""));
    assert_eq!(later.line(), "ready");
    assert_eq!(env.holders().len(), 1, "a rank that comes later has another holder");
    let right = format!("{}/package/__init__.py\n", env.directory);
    assert_eq!(rank.end().out(), right);
    assert_eq!(later.end().out(), "image\n");
    env.all_gone();
}

#[test]
fn where_nobody_can_serve_on_the_ranks_are_ended_before_they_see_anything_wrong() {
    let env = packages();
    for who in [As::User, As::RootByFuse].into_iter().filter(|who| ways().contains(who)) {
        let mut ranks: Vec<Live> =
            (0..3).map(|_| Live::start(&mut env.sh(who, &[], LATER))).collect();
        for rank in &mut ranks {
            assert_eq!(rank.line(), "ready");
        }
        // What kills one holder after the other is what they serve.
        let since = Instant::now();
        while !env.guards().is_empty() || !env.holders().is_empty() {
            kill_holders(&env);
            assert!(since.elapsed() < Duration::from_secs(60), "it is served on for ever");
        }
        for rank in ranks {
            let ran = rank.end();
            assert_eq!(ran.status.signal(), Some(libc::SIGKILL), "{who:?} {}", ran.out());
            assert_eq!(ran.out(), "", "{who:?}");
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
        if who == As::User {
            // A rank weighs more than its holder.
            let rank = env.said(who, &[], "cat /proc/self/oom_score_adj");
            assert!(number(&rank) > number(&score), "{rank} {score}");
        }
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
