//! A command under `becalm rehearse` behaves as without it, whoever runs it; and what it asked of
//! the rehearsed filesystem is told.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::BECALM;
use serde_json::Value;
use testkit::live::run_with_input;
use testkit::rehearsal::each_rehearser;
use testkit::scene::running;
use testkit::user::{SECOND_GROUP, as_a_granted_member, as_a_member, is_root, scene_for_a_user};
use testkit::{Scene, copy_program, run, trap};

fn json(text: &[u8]) -> Value {
    testkit::answer::parse(text)
}

#[test]
fn a_command_sees_the_directory_at_its_place_through_a_mount_that_nobody_else_sees() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let script = "cat $0/file; grep -c 'fuse.becalm becalm:local' /proc/self/mountinfo";
        let ran = run(&mut user.rehearse(&tree, &["sh", "-c", script, &tree]));
        assert_eq!((ran.code(), ran.out().as_str()), (0, "text\n1\n"), "{}", ran.err());
        assert!(ran.err().contains("sh sent local "), "{}", ran.err());
        assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&tree));
        user.assert_tidy();
    }
}

#[test]
fn exit_statuses_and_deaths_by_signal_are_the_commands_own() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        for status in [0, 1, 3, 125, 255] {
            let script = format!("exit {status}");
            assert_eq!(run(&mut user.rehearse(&tree, &["sh", "-c", &script])).code(), status);
        }
        for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGSEGV] {
            let script = format!("ulimit -c 0; kill -{signal} $$");
            let ran = run(&mut user.rehearse(&tree, &["sh", "-c", &script]));
            assert_eq!(ran.status.signal(), Some(signal), "{}", ran.err());
        }
        let mut command = user.rehearse(&tree, &["no-such-command-here"]);
        // A directory that the user may not look into would be another failure.
        let ran = run(command.env("PATH", "/usr/bin:/bin"));
        assert_eq!(ran.code(), 127);
        assert!(ran.err().contains("command not found"), "{}", ran.err());
        let file = format!("{tree}/file");
        assert_eq!(run(&mut user.rehearse(&tree, &[&file])).code(), 126);
        user.assert_tidy();
    }
}

#[test]
fn all_that_is_read_and_written_passes_through() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let input: Vec<u8> =
            (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let ran = run_with_input(&mut user.rehearse(&tree, &["cat"]), &input);
        assert!(ran.stdout == input && ran.code() == 0, "{}", ran.err());
        let ran = run(&mut user.rehearse(&tree, &["sh", "-c", "echo out; echo err >&2"]));
        assert_eq!(ran.out(), "out\n");
        assert!(ran.err().starts_with("err\n"), "{}", ran.err());
    }
}

#[test]
fn a_working_directory_below_a_path_is_the_rehearsed_one() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let script = "pwd; readlink /proc/self/cwd; stat -f -c %T .; touch new";
        let mut command = user.rehearse(&tree, &["sh", "-c", script]);
        let ran = run(command.current_dir(&tree));
        let real = fs::canonicalize(&tree).unwrap();
        let real = real.display();
        assert_eq!(ran.out(), format!("{real}\n{real}\nfuseblk\n"), "{}", ran.err());
        assert!(ran.err().contains("Read-only file system"), "{}", ran.err());
    }
}

#[test]
fn nothing_is_changed_unless_that_was_asked_for() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let script = "cd $0; for act in 'touch new' 'rm file' 'mv file else' 'chmod 700 file' \
            'mkdir d' 'ln -s x y'; do $act 2>&1 | grep -c 'Read-only file system'; done";
        let ran = run(&mut user.rehearse(&tree, &["sh", "-c", script, &tree]));
        assert_eq!(ran.out(), "1\n".repeat(6), "{}", ran.err());
        assert_eq!(fs::read_dir(&tree).unwrap().count(), 1);

        let script = "cd $0 && echo more >>file && mkdir d && mv file d/ && ln -s d/file link";
        let mut command = user.with(&["--writable"], &tree, &["sh", "-c", script, &tree]);
        let ran = run(&mut command);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        assert_eq!(fs::read_to_string(format!("{tree}/link")).unwrap(), "text\nmore\n");
        let owner = fs::metadata(&tree).unwrap().uid();
        assert_eq!(fs::metadata(format!("{tree}/d")).unwrap().uid(), owner);
    }
}

/// What members of a group do in a directory that they share, and in one like /tmp; each act with
/// its exit status.
const SHARED_WORK: &str = "cd \"$0\"; t() { \"$@\" 2>/dev/null; echo \"$? $*\"; }
t touch shared/a; t sh -c 'echo x >shared/b'; t mkdir shared/sub; t mv shared/b shared/c
t chmod 664 shared/c; t touch shared/c; t sh -c 'echo y >>shared/c'; t ln shared/c shared/hard
t ln -s c shared/soft; t mv shared/c shared/sub/c; t truncate -s 1 shared/sub/c; t rm shared/a
t sh -c 'echo z >>shared/colleague'; t touch shared/colleague; t chmod 600 shared/colleague
t mv shared/removable shared/renamed; t rm -f shared/renamed; t test -w shared; t test -w closed
t rm -f shared/link; t touch closed/no; t sh -c 'echo z >>closed/file'; t rm -f closed/file
t touch tmp/mine; t chmod 600 tmp/mine; t rm tmp/mine; t mkdir tmp/own; t rm -f tmp/roots
t sh -c 'echo z >>tmp/roots'; t chmod 640 given; t touch given; t sh -c 'echo z >>given'";

#[test]
fn a_member_of_a_second_group_may_do_what_they_may_do_without_a_rehearsal() {
    if !is_root() {
        return;
    }
    let (scene, _) = scene_for_a_user(&[]);
    let (members, roots) = (Some(SECOND_GROUP), Some(0));
    let build = |name: &str| {
        let tree = scene.subdirectory(name);
        fs::set_permissions(&tree, Permissions::from_mode(0o755)).unwrap();
        let own = |path: &str, mode: u32, owner, group| {
            let path = format!("{tree}/{path}");
            chown(&path, owner, group).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        for (directory, mode, group) in
            [("shared", 0o2775, members), ("closed", 0o755, roots), ("tmp", 0o1777, roots)]
        {
            fs::create_dir(format!("{tree}/{directory}")).unwrap();
            own(directory, mode, roots, group);
        }
        for (file, mode, owner, group) in [
            ("shared/colleague", 0o664, Some(4711), members),
            ("shared/removable", 0o600, Some(4711), roots),
            ("closed/file", 0o644, roots, roots),
            ("tmp/roots", 0o644, roots, roots),
            ("given", 0o664, Some(65534), members),
        ] {
            fs::write(format!("{tree}/{file}"), "text\n").unwrap();
            own(file, mode, owner, group);
        }
        symlink("colleague", format!("{tree}/shared/link")).unwrap();
        tree
    };
    let state = |tree: &str| {
        let print = "%P %y %m %U %G %s\n";
        let found = run(Command::new("find").args([tree, "-mindepth", "1", "-printf", print]));
        let mut lines: Vec<String> = found.out().lines().map(str::to_owned).collect();
        lines.sort();
        lines.join("\n")
    };
    let (plain, rehearsed) = (build("plain"), build("rehearsed"));
    let without = run(&mut as_a_member(&["sh", "-c", SHARED_WORK, &plain]));
    let becalm = scene.at("becalm");
    let start = [&becalm, "rehearse", "--profile", "local", "--writable", &rehearsed, "--"];
    let words = [&start[..], &["sh", "-c", SHARED_WORK, &rehearsed]].concat();
    let with = run(&mut as_a_member(&words));
    assert_eq!(with.out(), without.out(), "{}", with.err());
    assert_eq!(state(&rehearsed), state(&plain));
    assert!(without.out().contains("0 touch shared/a\n"), "{}", without.out());
    // What the kernel does not allow is said before the start.
    let first = with.err().lines().next().unwrap_or_default().to_owned();
    assert!(first.contains("other groups (2345)") && first.contains("chgrp"), "{first}");
    let own = format!("{rehearsed}/tmp/own");
    let words = [&start[..], &["chgrp", "2345", &own]].concat();
    assert!(run(&mut as_a_member(&words)).err().contains("Invalid argument"));
    // Where the site grants the group, nothing is missing.
    let ran = run(&mut as_a_granted_member(&scene, &words));
    assert_eq!((ran.code(), ran.err().contains("other groups")), (0, false), "{}", ran.err());
    assert_eq!(fs::metadata(&own).unwrap().gid(), SECOND_GROUP);
}

#[test]
fn paths_may_have_any_name_lie_in_each_other_or_be_links() {
    for user in each_rehearser() {
        let odd = user.tree("with space\nand \\ more");
        let ran = run(&mut user.rehearse(&odd, &["cat", &format!("{odd}/file")]));
        assert_eq!((ran.code(), ran.out().as_str()), (0, "text\n"), "{}", ran.err());

        let outer = user.tree("outer");
        fs::create_dir(format!("{outer}/inner")).unwrap();
        let inner = format!("{outer}/inner");
        let count = ["grep", "-c", "fuse.becalm", "/proc/self/mountinfo"];
        let words = [&["--profile", "local", &inner, &outer, &inner, "--"], &count[..]].concat();
        assert_eq!(run(&mut user.becalm(&words)).out(), "1\n");

        let link = user.scene.at("link");
        symlink(&outer, &link).unwrap();
        let ran = run(&mut user.rehearse(&link, &["cat", &format!("{link}/file")]));
        assert_eq!(ran.out(), "text\n");
        assert!(ran.err().contains("is a symbolic link"), "{}", ran.err());
    }
}

#[test]
fn what_cannot_be_rehearsed_is_refused_in_one_line_before_the_command_runs() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let file = format!("{tree}/file");
        let nowhere = format!("{tree}/nowhere");
        for path in [nowhere.as_str(), &file, "/", "/proc", "/sys/kernel", "/dev"] {
            let ran = run(&mut user.rehearse(path, &["echo", "ran"]));
            assert_eq!((ran.code(), ran.out().as_str()), (125, ""));
            assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
            assert!(ran.err().starts_with("becalm: "), "{}", ran.err());
        }
        user.assert_tidy();
        let no_command = ["--profile", "local", &tree];
        let no_profile = ["--profile", "no-such", &tree, "--", "true"];
        for words in [&no_command[..], &no_profile] {
            assert_eq!(run(&mut user.becalm(words)).code(), 2);
        }
    }
}

#[test]
fn a_rehearsal_can_be_rehearsed() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let file = format!("{tree}/file");
        // An ordinary user is one already inside.
        let inner = [user.program(), "rehearse", "--profile", "local", &tree, "--", "cat", &file];
        let ran = run(&mut user.rehearse(&tree, &inner));
        assert_eq!((ran.code(), ran.out().as_str()), (0, "text\n"), "{}", ran.err());
        assert_eq!(ran.err().matches("sent local").count(), 2, "{}", ran.err());
        user.assert_tidy();
    }
}

#[test]
fn many_processes_at_once_are_served() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let script = "for n in $(seq 64); do cat $0/file & done; wait";
        let ran = run(&mut user.rehearse(&tree, &["sh", "-c", script, &tree]));
        assert_eq!(ran.out(), "text\n".repeat(64), "{}", ran.err());
    }
}

#[test]
fn the_answer_as_data_is_as_documented() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let options = ["--profile", "nfs", "--json", "--record", &tree, "--"];
        let script = "cat $0/file $0/nowhere; ls $0";
        let words = [&options[..], &["sh", "-c", script, &tree]].concat();
        let ran = run(&mut user.becalm(&words));
        let answer = json(&ran.stdout);
        assert!(ran.err().contains("text\n"), "the command's own output: {}", ran.err());
        assert!(answer["rpcs"].as_u64().unwrap() >= 4, "{answer:#}");
        assert_eq!(answer["enoent"], 1, "{answer:#}");
        let causes = &answer["causes"];
        assert_eq!(causes["causes"][0]["cause"], "program", "{answer:#}");
        let part = |value: &Value| value["rpcs"].as_u64().unwrap();
        let told: u64 = causes["causes"].as_array().unwrap().iter().map(part).sum();
        assert_eq!(told + part(&causes["no_call"]), part(&answer), "{answer:#}");
        assert_eq!(part(&causes["no_call"]), 0, "{answer:#}");

        let longer = format!("{{\"what\": \"was there before{}\"}}", " ".repeat(100_000));
        let file = user.scene.file("answer.json", &longer, 0o666);
        let option = format!("--json={file}");
        let ran = run(&mut user.with(&[&option], &tree, &["cat", &format!("{tree}/file")]));
        assert_eq!((ran.code(), ran.out().as_str()), (0, "text\n"), "{}", ran.err());
        json(&fs::read(&file).unwrap());
    }
}

#[test]
fn profiles_are_listed_shown_and_can_be_ones_own() {
    for user in each_rehearser() {
        let listed = run(&mut user.becalm(&["--profiles"])).out();
        for name in ["nfs", "lustre", "gpfs", "local"] {
            assert!(listed.contains(name), "{listed}");
        }
        let text = run(&mut user.becalm(&["--show", "nfs"])).out();
        let own = user.scene.file("own.toml", text.replace("\"nfs\"", "\"mine\""), 0o644);
        let tree = user.tree("tree");
        let ran = run(&mut user.becalm(&["--profile", &own, &tree, "--", "ls", &tree]));
        assert!(ran.err().contains("ls sent mine "), "{}", ran.err());
        assert_eq!(run(&mut user.becalm(&["--show", "no-such"])).code(), 2);
    }
}

#[test]
fn a_second_start_asks_what_the_first_one_said_it_would() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        for number in 0..20 {
            fs::create_dir(format!("{tree}/{number}")).unwrap();
            fs::write(format!("{tree}/{number}/file"), "").unwrap();
        }
        let each = format!("cat {tree}/$n/file; test -e {tree}/$n/no");
        let once = format!("for n in $(seq 0 19); do {each}; done; ls {tree}");
        let twice = format!("{once}; {once}");
        for profile in ["nfs", "lustre", "gpfs"] {
            let asked = |script: &str| {
                let words = ["--profile", profile, "--json", &tree, "--", "sh", "-c", script];
                json(&run(&mut user.becalm(&words)).stdout)
            };
            let (cold, both) = (asked(&once), asked(&twice));
            let number = |value: &Value| value.as_u64().unwrap();
            let second = number(&both["rpcs"]) - number(&cold["rpcs"]);
            assert_eq!(second, number(&cold["warm"]["rpcs"]), "{profile}: {cold:#} {both:#}");
        }
    }
}

#[test]
fn a_node_can_be_made_cold_from_inside() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let becalm = user.program();
        let asked = |between: &str| {
            let script = format!("cat {tree}/file; {between}; cat {tree}/file");
            let words = ["--profile", "gpfs", "--json", &tree, "--", "sh", "-c", &script];
            let ran = run(&mut user.becalm(&words));
            json(&ran.stdout)["rpcs"].as_u64().unwrap()
        };
        let (warm, cold) = (asked("true"), asked(&format!("{becalm} rehearse --cold")));
        assert!(cold > warm, "{cold} {warm}");
        assert_eq!(run(&mut user.becalm(&["--cold"])).code(), 1, "nothing is rehearsed here");
    }
}

#[test]
fn a_path_that_is_a_mount_is_rehearsed_with_what_that_mount_forbids() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let point = scene.subdirectory("point");
    let script = "mount -t tmpfs -o nosuid,nodev,noexec none $1 && echo text >$1/file && \
        cp /bin/true $1/ && $0 rehearse --profile local --writable $1 -- \
        sh -c 'cat $0/file; grep \"$0\" /proc/self/mountinfo | cut -d\" \" -f6 | tail -n1; $0/true' $1";
    let mut command = Command::new("unshare");
    let ran = run(command.args(["--mount", "sh", "-c", script, BECALM, &point]));
    assert_eq!(ran.code(), 126, "noexec: {}", ran.err());
    assert_eq!(ran.out(), "text\nrw,nosuid,nodev,noexec,relatime\n", "{}", ran.err());
}

#[test]
fn delays_in_a_tracer_take_the_place_of_fuse_and_say_so() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let words = ["--profile", "nfs", "--by", "tracer", "--json", &tree, "--", "cat"];
        let ran = run(&mut user.becalm(&[&words[..], &[&format!("{tree}/file")]].concat()));
        let answer = json(&ran.stdout);
        assert_eq!((ran.code(), &answer["by"]), (0, &Value::from("tracer")), "{}", ran.err());
        assert!(answer["difference"].as_str().unwrap().contains("tracer"), "{answer:#}");
        assert_eq!(answer["rpcs"], 2, "a lookup and an open: {answer:#}");
        assert!(answer["waited_ns"].as_u64().unwrap() >= 1_000_000, "{answer:#}");
    }
}

#[test]
fn a_program_that_gets_no_rights_in_a_rehearsal_is_named_in_one_line_and_root_loses_none() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let (program, own) = (scene.at("identity"), scene.at("becalm"));
    fs::copy(trap("identity"), &program).unwrap();
    fs::hard_link(BECALM, &own).unwrap_or_else(|_| copy_program(BECALM, &own));
    fs::set_permissions(scene.directory(), Permissions::from_mode(0o755)).unwrap();
    let by_a_child = format!("{program}; true");
    // Not nobody, as which a user namespace shows everybody else.
    for (user, owner) in [(1234, 0), (0, 1234)] {
        chown(&program, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
        let with = |options: &[&str], words: &[&str]| {
            let mut command = Command::new("setpriv");
            command.args([&format!("--reuid={user}"), &format!("--regid={user}")]);
            command.args(["--clear-groups", "--", &own, "rehearse", "--profile", "local"]);
            command.args(options).args(["/usr/share", "--"]).args(words).current_dir("/");
            run(&mut command)
        };
        let is_named = |said: &str| {
            let lines: Vec<_> =
                said.lines().filter(|line| line.contains("gets privileges")).collect();
            let first = lines.first().is_some_and(|line| line.contains(&program));
            assert!(lines.len() == usize::from(first), "{said}");
            first
        };
        for by in ["fuse", "tracer"] {
            for record in [&["--record"][..], &[]] {
                let options = [&["--by", by], record].concat();
                let ran = with(&options, &[&program]);
                let ids = format!("ids: {user} {} ", if user == 0 { owner } else { user });
                assert!(ran.out().contains(&ids), "{by}: {}{}", ran.out(), ran.err());
                assert_eq!(is_named(&ran.err()), user != 0, "{by}: {}", ran.err());
                // Nobody watches what a command starts through FUSE alone.
                let ran = with(&options, &["sh", "-c", &by_a_child]);
                let seen = user != 0 && (by == "tracer" || !record.is_empty());
                assert_eq!(is_named(&ran.err()), seen, "{by}: {}", ran.err());
            }
        }
    }
}

#[test]
fn a_program_in_a_rehearsed_directory_is_looked_up_once_and_that_is_its_own() {
    for user in each_rehearser() {
        let tree = user.tree("tree");
        let program = format!("{tree}/program");
        fs::copy("/bin/true", &program).unwrap();
        for by in ["fuse", "tracer"] {
            for record in [&["--record"][..], &[]] {
                let words = [&["--profile", "nfs", "--by", by, "--json", &tree], record].concat();
                let ran = run(&mut user.becalm(&[&words[..], &["--", &program]].concat()));
                let answer = json(&ran.stdout);
                assert_eq!(answer["rpcs"], 2, "{by}: a lookup and an open: {answer:#}");
                let [waited, wall] =
                    ["waited_ns", "wall_ns"].map(|of| answer[of].as_u64().unwrap());
                assert!(waited <= wall, "{by}: {answer:#}");
                if let Some(causes) = answer["causes"]["causes"].as_array() {
                    let causes: Vec<_> = causes.iter().map(|cause| &cause["cause"]).collect();
                    assert_eq!(causes, ["program"], "{by}: {answer:#}");
                    assert_eq!(answer["causes"]["no_call"]["rpcs"], 0, "{by}: {answer:#}");
                }
                assert_eq!(answer["causes"].is_null(), record.is_empty(), "{by}: {answer:#}");
            }
        }
    }
}

#[test]
fn where_there_is_no_fuse_the_tracer_is_taken() {
    if !is_root() {
        return;
    }
    let user = each_rehearser().pop().unwrap();
    let tree = user.tree("tree");
    let script = "mount --bind /dev/null /dev/fuse && exec \"$@\"";
    let hidden =
        running(Command::new("unshare"), &user.with(&[], &tree, &["cat", &format!("{tree}/file")]));
    let words: Vec<_> = hidden.get_args().collect();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).args(&words);
    let ran = run(&mut command);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "text\n"), "{}", ran.err());
    assert!(ran.err().starts_with("becalm: no FUSE: "), "{}", ran.err());
    let forced = run(&mut {
        let mut command = Command::new("unshare");
        let with = user.with(&["--by", "fuse"], &tree, &["cat"]);
        let with = running(Command::new("unshare"), &with);
        command.args(["--mount", "sh", "-c", script, "sh"]).args(with.get_args());
        command
    });
    assert_eq!(forced.code(), 125, "{}", forced.err());
}

#[test]
fn calibration_measures_and_its_answer_is_as_documented() {
    for user in each_rehearser() {
        let directory = user.tree("tree");
        let ran =
            run(&mut user.becalm(&["--calibrate", "--profile", "gpfs", "--json", &directory]));
        let answer = json(&ran.stdout);
        let calibration = &answer["calibration"];
        assert_eq!(ran.code(), i32::from(calibration["good"] == false), "{answer:#}");
        let asked = |at: usize| calibration["series"][at]["wanted_ns"].as_u64();
        assert_eq!((asked(0), asked(1), asked(3)), (Some(300_000), None, Some(1_200_000)));
        let p50 = |at: usize| calibration["series"][at]["p50_ns"].as_u64().unwrap();
        // How much later it may be depends on what else this machine does.
        assert!(p50(0) >= 290_000 && p50(3) >= 1_100_000, "{answer:#}");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "the tree for it is gone");
        user.assert_tidy();
    }
}
