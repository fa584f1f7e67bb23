//! The tree of `becalm run --image --stage`: one for all ranks, gone after the last, whoever is
//! killed, where there is too little memory, and where somebody else was before.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::imaged::{As, Imaged};
use testkit::live::wait_until;
use testkit::staged::{NOWHERE, Staging, each_user, told};
use testkit::user::{as_a_user, is_root};
use testkit::{Live, Ran, run};

#[test]
fn of_ranks_that_start_at_once_one_unpacks_and_all_use_its_tree() {
    let staging = Staging::new();
    for who in each_user() {
        // Each stays until all have been there.
        let script = "echo \"$ENV_ROOT\"; read line || :; cat \"$ENV_ROOT/where\"";
        let start = |_| Live::start(&mut staging.sh(who, &["--json"], script));
        let mut ranks: Vec<Live> = (0..8).map(start).collect();
        let trees: Vec<String> = ranks.iter_mut().map(Live::line).collect();
        assert!(trees.iter().all(|tree| *tree == trees[0]), "{trees:?}");
        let ended: Vec<Ran> = ranks.into_iter().map(Live::end).collect();
        let first = ended.iter().filter(|ran| told(ran)["image"]["joined"] == false);
        assert_eq!(first.count(), 1, "{who:?}");
        assert!(ended.iter().all(|ran| ran.out() == "image\n"));
        staging.all_gone();
    }
}

#[test]
fn what_the_first_rank_leaves_running_keeps_the_tree() {
    let staging = Staging::new();
    let python = "import os, sys, time
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 4096)
    time.sleep(3)
    open(sys.argv[1], 'w').write(open(os.environ['ENV_ROOT'] + '/where').read())
    os._exit(0)";
    let seen = staging.env.scene.at("seen");
    fs::write(&seen, "").unwrap();
    fs::set_permissions(&seen, PermissionsExt::from_mode(0o666)).unwrap();
    let mut command = staging.run(As::User, &[], &["python3", "-c", python, &seen]);
    assert_eq!(run(command.env("ENV_ROOT", &staging.env.directory)).code(), 0);
    assert!(!staging.left().is_empty());
    staging.all_gone();
    assert_eq!(fs::read_to_string(&seen).unwrap(), "image\n", "it had closed all descriptors");
}

/// A larger environment whose unpacking takes its time: each write waits.
fn slow(staging: &Staging, words: &[&str]) -> Command {
    let becalm = staging.env.scene.at("becalm");
    let script = NOWHERE.replace(
        "exec setpriv",
        "exec strace -qq -f -o /dev/null \
        -e trace=pwrite64 -e inject=pwrite64:delay_enter=300000 setpriv",
    );
    let mut line = vec!["unshare", "-U", "-c", "--keep-caps", "sh", "-c", &script, "sh"];
    let stage = format!("--stage={}", staging.dir);
    line.extend([becalm.as_str(), "run", "--image", &staging.env.image, &stage, "--"]);
    line.extend(words);
    as_a_user(&line)
}

fn large(name: &str) -> Imaged {
    Imaged::of(name, |directory| {
        for number in 0..24u8 {
            let mut noise = u64::from(number) + 1;
            let mut next = || {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                noise.to_le_bytes()
            };
            let bytes: Vec<u8> = (0..1 << 17).flat_map(|_| next()).collect();
            fs::write(directory.join(format!("{number:02}")), bytes).unwrap();
        }
    })
}

/// The process that unpacks, once it is at it: one of becalm's with a file of the tree open.
fn unpacker(staging: &Staging) -> i32 {
    let mut found = 0;
    wait_until("somebody unpacks", || {
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let writes = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let mut open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
            name.trim() == "becalm"
                && open.any(|file| {
                    let file = file.to_string_lossy();
                    file.starts_with(&staging.dir) && file.contains("/.becalm-")
                })
        };
        found = pids.find(writes).unwrap_or_default();
        found != 0
    });
    found
}

fn kill(pid: i32) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn when_the_one_that_unpacks_is_killed_the_next_starts_over() {
    let staging = Staging::of(large("large"));
    let mut first = Live::start(&mut slow(&staging, &["true"]));
    let pid = unpacker(&staging);
    let second = Live::start(&mut staging.sh(As::User, &["--json"], "cat \"$ENV_ROOT/where\""));
    kill(pid);
    first.child.wait().unwrap();
    let ran = second.end();
    assert_eq!(ran.out(), "image\n", "{}", ran.err());
    assert_eq!(told(&ran)["image"]["joined"], false);
    staging.all_gone();
}

#[test]
fn what_a_killed_job_left_is_removed_by_the_next_of_the_same_user() {
    let staging = Staging::new();
    let of_job = |job: &str, script: &str| {
        let mut command = staging.sh(As::User, &[], script);
        command.env("SLURM_JOB_ID", job);
        command
    };
    let mut rank = Live::start(&mut of_job("1", "echo $$; exec sleep 100"));
    let pid = rank.line().parse().unwrap();
    let lock = staging.left().into_iter().find(|path| path.ends_with(".lock")).unwrap();
    wait_until("there is a holder", || holder_of(&lock).is_some());
    kill(holder_of(&lock).unwrap());
    kill(pid);
    rank.child.wait().unwrap();
    assert!(Path::new(&lock).exists());
    let script = "ls \"$ENV_ROOT/../..\"";
    assert_eq!(run(&mut of_job("2", script)).out().lines().count(), 2, "a tree and its lock");
    staging.all_gone();
}

fn holder_of(lock: &str) -> Option<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        name.trim() == "becalm-holder" && open.any(|file| file == Path::new(lock))
    })
}

/// A filesystem in memory, gone with the test.
struct Memory(String);

impl Memory {
    fn new(staging: &Staging, options: &str) -> Memory {
        let mount = ["-t", "tmpfs", "-o", options, "becalm-test", &staging.dir];
        assert!(Command::new("mount").args(mount).status().unwrap().success());
        Memory(staging.dir.clone())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers_before_anything_is_written() {
    if !is_root() {
        return;
    }
    let staging = Staging::of(large("large"));
    {
        let _memory = Memory::new(&staging, "size=25M,mode=1777");
        let needs = "image.sqsh needs 26 MB in";
        staging.refused(&mut staging.run(As::User, &[], &["true"]), needs);
        let has = "has 26 MB of 26 MB free, a twentieth of which is left alone";
        staging.refused(&mut staging.run(As::Root, &[], &["true"]), has);
        assert!(staging.left().is_empty());
    }
    let _memory = Memory::new(&staging, "size=100M,nr_inodes=20,mode=1777");
    staging.refused(&mut staging.run(As::User, &[], &["true"]), "28 files are needed, 1");
    assert!(staging.left().is_empty());
}

#[test]
fn memory_that_fills_up_meanwhile_is_a_refusal_to_all_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    let staging = Staging::of(large("large"));
    let _memory = Memory::new(&staging, "size=40M,mode=1777");
    let first = Live::start(&mut slow(&staging, &["true"]));
    unpacker(&staging);
    let second = Live::start(&mut staging.run(As::User, &[], &["true"]));
    let filler = format!("{}/filler", staging.dir);
    let _full = Command::new("dd")
        .args(["if=/dev/zero", &format!("of={filler}"), "bs=1M"])
        .stderr(Stdio::null())
        .status();
    for ran in [first.end(), second.end()] {
        assert_eq!(ran.code(), 125, "{}", ran.err());
        let why = ["No space left on device", "is full meanwhile", "MB free"];
        assert!(why.iter().any(|why| ran.err().contains(why)), "{}", ran.err());
    }
    assert_eq!(staging.left(), [filler]);
}

#[test]
fn no_directory_of_anybody_else_is_used() {
    if !is_root() {
        return;
    }
    let staging = Staging::new();
    let planted = format!("{}/becalm-stage-65534", staging.dir);
    fs::create_dir(&planted).unwrap();
    fs::set_permissions(&planted, PermissionsExt::from_mode(0o700)).unwrap();
    let mut command = staging.run(As::User, &[], &["true"]);
    // In a user namespace, all others are shown as nobody, as whom this runs.
    staging.refused(&mut command, "becalm-stage-65534");
    chown(&planted, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&planted, PermissionsExt::from_mode(0o755)).unwrap();
    staging.refused(&mut command, "is not a directory that only this user can enter");
    fs::remove_dir(&planted).unwrap();
    let target = staging.env.scene.subdirectory("target");
    chown(&target, Some(65534), Some(65534)).unwrap();
    symlink(&target, &planted).unwrap();
    staging.refused(&mut command, "is not a directory that only this user can enter");
    fs::remove_file(&planted).unwrap();
    // Where others may rename what is made.
    fs::set_permissions(&staging.dir, PermissionsExt::from_mode(0o777)).unwrap();
    staging.refused(&mut command, "others could replace what is made in it");
    let _memory = Memory::new(&staging, "noexec,mode=1777");
    staging.refused(&mut command, "is mounted noexec");
}
