//! `becalm run --aslr`: memory lies where it should, in all ranks, and nothing else has changed.

use std::fs::{self, Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use crate::BECALM;
use testkit::user::{is_root, scene_for_a_user};
use testkit::{Ran, Scene, run};

/// Says where its parts lie, and what it got from the limit of the stack.
const PLACES: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
int main(void) {
    struct rlimit limit;
    pthread_attr_t attributes;
    size_t thread;
    getrlimit(RLIMIT_STACK, &limit);
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &thread);
    printf("program %p heap %p stack %p libc %p; limit %lu of %lu, threads %zu\n", (void *)main,
           malloc(10), (void *)&limit, (void *)printf, limit.rlim_cur, limit.rlim_max, thread);
    return 0;
}
"#;

/// Starts a command that may not call personality(2): Docker's answer is EPERM.
const DENYING: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_personality, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    execv(argv[1], argv + 1);
    return 99;
}
"#;

fn compiled(scene: &Scene, name: &str, source: &str, flags: &[&str]) -> String {
    let file = scene.file(&format!("{name}.c"), source, 0o644);
    let program = scene.at(name);
    let done = run(Command::new("gcc").args([&file, "-o", &program, "-pthread"]).args(flags));
    assert_eq!(done.code(), 0, "{}", done.err());
    program
}

/// A command with no launcher's variables, and a state directory of its own.
fn clean(scene: &Scene, program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        if ["SLURM", "OMPI", "PMI", "PBS", "LSB", "FLUX", "JOB_ID"]
            .iter()
            .any(|one| name.starts_with(one))
        {
            command.env_remove(name);
        }
    }
    command.env("XDG_STATE_HOME", scene.at("state"));
    command
}

fn laid_out(scene: &Scene, options: &[&str], command: &[&str]) -> Command {
    let mut becalm = clean(scene, BECALM);
    becalm.arg("run").args(options).arg("--").args(command);
    becalm
}

fn said(scene: &Scene, options: &[&str], command: &[&str]) -> String {
    let ran: Ran = run(&mut laid_out(scene, options, command));
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{options:?}");
    ran.out()
}

#[test]
fn off_is_what_setarch_gives_and_children_have_it_too() {
    let scene = Scene::new();
    let program = compiled(&scene, "places", PLACES, &[]);
    let expected = run(clean(&scene, "setarch").args(["-R", &program])).out();
    assert_eq!(said(&scene, &["--aslr", "off"], &[&program]), expected);
    let maps = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(["sh", "-c", "cat /proc/self/maps; :"]);
        run(clean(&scene, all[0]).args(&all[1..])).out()
    };
    assert_eq!(maps(&[BECALM, "run", "--aslr", "off", "--"]), maps(&["setarch", "-R"]));
}

#[test]
fn ranks_of_a_job_have_one_layout_whatever_is_in_their_environment() {
    let scene = Scene::new();
    let program = compiled(&scene, "places", PLACES, &[]);
    let rank = |job: &str, number: usize| {
        let mut command = laid_out(&scene, &["--aslr", "job"], &[&program]);
        command.env("SLURM_JOB_ID", job).env("SLURM_STEP_ID", "0");
        command.env("SLURM_STEP_NUM_TASKS", "200").env("SLURM_PROCID", number.to_string());
        command.env("SLURM_RANKS_OWN", "x".repeat(number * 37));
        if number.is_multiple_of(3) {
            command.env("SLURM_ANOTHER", "");
        }
        run(&mut command).out()
    };
    let first = rank("1", 0);
    assert!(first.starts_with("program 0x"), "{first}");
    (1..16).for_each(|number| assert_eq!(rank("1", number * 11), first));
    assert_ne!(rank("2", 0), first);
}

#[test]
fn a_layout_is_replayed_and_the_next_one_is_a_page_lower() {
    let scene = Scene::new();
    let program = compiled(&scene, "places", PLACES, &[]);
    let libc = |layout: &str| {
        let text = said(&scene, &["--aslr", layout], &[&program]);
        let digits = text.split("libc 0x").nth(1).unwrap().split(';').next().unwrap();
        u64::from_str_radix(digits, 16).unwrap()
    };
    let at = libc("layout:0x1000");
    assert_eq!(at, libc("layout:0x1000"));
    // A library lies where its segments may lie, which on Arm is each 64 KiB.
    let apart = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4096 };
    let page: u64 = run(Command::new("getconf").arg("PAGESIZE")).out().trim().parse().unwrap();
    let next = format!("layout:{:#x}", 0x1000 + apart.max(page) / page);
    assert_eq!(at - apart.max(page), libc(&next));
}

#[test]
fn limits_threads_children_and_ids_are_the_commands_own() {
    let scene = Scene::new();
    let program = compiled(&scene, "places", PLACES, &[]);
    let after = |text: String| text.split_once(';').unwrap().1.to_owned();
    let job = ["--aslr", "job", "--seed", "s"];
    for limits in ["ulimit -S -s 8192", "ulimit -S -s 1234", "ulimit -s unlimited"] {
        let plain = run(clean(&scene, "sh").args(["-c", &format!("{limits}; {program}")]));
        let line = format!("{limits}; exec \"$@\"");
        let mut moved = clean(&scene, "sh");
        moved.args(["-c", &line, "sh", BECALM, "run"]).args(job).args(["--", &program]);
        assert_eq!(after(run(&mut moved).out()), after(plain.out()), "{limits}");
    }
    // No child that the command never had, no tracer, the same process id.
    let script = "wait; echo $?; grep TracerPid /proc/self/status; echo $PPID";
    let expected = format!("0\nTracerPid:\t0\n{}\n", std::process::id());
    assert_eq!(said(&scene, &job, &["bash", "-c", script]), expected);
    assert_eq!(run(&mut laid_out(&scene, &job, &["sh", "-c", "exit 7"])).code(), 7);
    assert_eq!(run(&mut laid_out(&scene, &job, &["no-such-command-here"])).code(), 127);
}

#[test]
fn where_a_layout_cannot_be_had_that_is_said() {
    let scene = Scene::new();
    let program = compiled(&scene, "places", PLACES, &[]);
    let denying = compiled(&scene, "denying", DENYING, &[]);
    let words = ["run", "--aslr", "job", "--seed", "s", "--", &program];
    let denied = run(clean(&scene, &denying).arg(BECALM).args(words));
    assert_eq!(denied.code(), 125);
    assert!(denied.err().contains("randomisation cannot be switched off"), "{}", denied.err());

    let fixed = compiled(&scene, "fixed", PLACES, &["-static", "-no-pie"]);
    let fixed = run(&mut laid_out(&scene, &words[1..5], &[&fixed]));
    assert_eq!(fixed.code(), 0);
    assert!(fixed.err().contains("linked statically at a fixed address"), "{}", fixed.err());

    let setuid = compiled(&scene, "setuid", PLACES, &[]);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(&setuid, mode).unwrap();
    let setuid = run(&mut laid_out(&scene, &words[1..5], &[&setuid]));
    assert_eq!(setuid.code(), 0);
    assert!(setuid.err().contains("switches randomisation on again"), "{}", setuid.err());

    let limits = "ulimit -s 8192; exec \"$@\"";
    let low = run(clean(&scene, "sh").args(["-c", limits, "sh", BECALM]).args(words));
    assert!(low.err().contains("the layout is that of --aslr off"), "{}", low.err());
    let off = run(clean(&scene, "setarch").args(["-R", &program])).out();
    // A shell adds variables, so only the stack may lie elsewhere.
    let libc = |text: &str| text.split("libc").nth(1).unwrap().split(';').next().map(str::to_owned);
    assert_eq!(libc(&low.out()), libc(&off));

    let strace = run(clean(&scene, "strace").args(["-f", "-o", "/dev/null", BECALM]).args(words));
    assert!(strace.err().contains("cannot be traced"), "{}", strace.err());
    assert_eq!(strace.out(), off);
}

#[test]
fn without_a_job_a_launch_has_a_layout_of_its_own_and_ranks_of_no_known_job_are_refused() {
    let scene = Scene::new();
    let program = compiled(&scene, "places", PLACES, &[]);
    let launch = || run(&mut laid_out(&scene, &["--aslr", "job"], &[&program]));
    let (one, other) = (launch(), launch());
    assert!(one.err().contains("no job was found"), "{}", one.err());
    assert_ne!(one.out(), other.out());
    let mut rank = laid_out(&scene, &["--aslr", "job"], &[&program]);
    let refused = run(rank.env("PMI_RANK", "1").env("PMI_SIZE", "4"));
    assert_eq!(refused.code(), 125);
    assert!(refused.err().contains("--seed"), "{}", refused.err());
    for wrong in [["--aslr", "on"], ["--aslr", "layout:12"], ["--seed", "s"]] {
        assert_eq!(run(&mut laid_out(&scene, &wrong, &[&program])).code(), 2, "{wrong:?}");
    }
}

#[test]
fn json_says_which_layout_it_is() {
    let scene = Scene::new();
    let said =
        run(laid_out(&scene, &["--json", "--aslr", "job"], &["true"]).env("SLURM_JOB_ID", "7"));
    let value: serde_json::Value = serde_json::from_str(&said.err()).unwrap();
    assert_eq!(value["aslr"]["job"], "SLURM_JOB_ID=7");
    assert!(value["aslr"]["layout"].as_str().unwrap().starts_with("layout:0x"), "{value}");
}

/// Who knows it knows where everything lies.
#[test]
fn a_secret_that_another_user_has_put_there_or_may_read_is_not_drawn_from() {
    if !is_root() {
        return;
    }
    for user in [12345, 0] {
        let (scene, _) = scene_for_a_user(&[]);
        chown(scene.directory(), Some(0), Some(0)).unwrap();
        let home = scene.subdirectory("state");
        set_permissions(&home, Permissions::from_mode(0o1777)).unwrap();
        let state = scene.path("state").join("becalm");
        let secret = state.join("layout-secret");
        let drawn = || {
            let (to, group) = (format!("--reuid={user}"), format!("--regid={user}"));
            let mut command = clean(&scene, "setpriv");
            command.args([&*to, &group, "--clear-groups", "--", &scene.at("becalm")]);
            command.args(["run", "--json", "--aslr", "job", "--", "true"]);
            run(command.env("SLURM_JOB_ID", "7"))
        };
        let refused = |why: &str| {
            let ran = drawn();
            assert_eq!(ran.code(), 125, "{user}: {}", ran.err());
            assert!(ran.err().contains(why), "{user}: {}", ran.err());
            assert!(ran.err().contains("give --seed"), "{user}: {}", ran.err());
        };
        assert_eq!(drawn().code(), 0);
        for (mode, why) in [(0o644, "others may read it"), (0o666, "others than its owner may")] {
            set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
            refused(why);
        }
        chown(&secret, Some(65534), None).unwrap();
        refused("layout-secret: belongs to user 65534");
        chown(&state, Some(65534), None).unwrap();
        refused("state/becalm: belongs to user 65534");
        // Nothing is made there, either.
        fs::remove_file(&secret).unwrap();
        refused("state/becalm: belongs to user 65534");
        assert!(!secret.exists());
    }
}
