//! `becalm run --image`: a command sees the image over the directory that it was made of, and
//! nobody else does; by FUSE as an ordinary user and as root, and by the kernel as root.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::BECALM;
use testkit::imaged::{As, Imaged, as_rank, ways};
use testkit::user::is_root;
use testkit::{Live, Scene, run};

#[test]
fn a_command_sees_the_image_over_its_path_and_nobody_else_does() {
    let env = Imaged::new();
    for who in ways() {
        assert_eq!(env.said(who, &[], "cat \"$0/where\""), "image\n");
        let marker = Path::new(&env.directory).join("where");
        assert_eq!(fs::read_to_string(marker).unwrap(), "directory\n");
        // Scripts, links and names in it are as they were.
        assert_eq!(env.said(who, &[], "\"$0/tool\""), format!("{}/tool\n", env.directory));
        assert_eq!(env.said(who, &[], "cat \"$0/link\""), "content");
        let listed = env.said(who, &[], "cd \"$0\" && find . | sort");
        assert_eq!(
            listed,
            ".\n./__pycache__\n./__pycache__/where\n./link\n./sub\n./sub/a file, with é\n./sub/empty\n./tool\n./where\n"
        );
        let refused = env.sh(who, &[], "echo > \"$0/new\"").output().unwrap();
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(why.contains("Read-only file system"), "{who:?} {why}");
    }
    env.all_gone();
}

#[test]
fn status_signals_streams_directory_and_process_id_are_the_commands_own() {
    let env = Imaged::new();
    for who in ways() {
        assert_eq!(run(&mut env.sh(who, &[], "exit 7")).code(), 7);
        let killed = run(&mut env.sh(who, &[], "kill -TERM $$"));
        assert!(killed.status.to_string().contains("15"), "{}", killed.status);
        let mut child = env.sh(who, &[], "test $PPID = \"$1\"");
        child.arg(std::process::id().to_string());
        assert_eq!(child.status().unwrap().code(), Some(0), "no process stands between");
        // A child that the command never had is not its to wait for.
        let waited = env.said(who, &[], "wait; echo $?");
        assert_eq!(waited, "0\n");
        let mut inside = env.sh(who, &[], "pwd; cat where");
        inside.current_dir(&env.directory);
        assert_eq!(run(&mut inside).out(), format!("{}\nimage\n", env.directory));
        let set = env.said(who, &[], "echo \"$BECALM_IMAGE\"");
        assert_eq!(set, format!("{}\n", env.image));
        let status = |name| {
            run(env.run(who, &[], &[name]).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")).code()
        };
        assert_eq!((status("no-such-command-here"), status("/")), (127, 126));
    }
}

#[test]
fn ranks_of_a_node_share_one_mount_and_one_holder_that_leaves_with_the_last() {
    let env = Imaged::new();
    for who in ways() {
        let script = "readlink /proc/self/ns/mnt; readlink /proc/self/ns/user; \
                      stat -c %d \"$0\"; read line || :";
        let mut first = Live::start(&mut env.sh(who, &[], script));
        let seen: Vec<String> = (0..3).map(|_| first.line()).collect();
        assert_eq!(env.holders().len(), 1);
        let mut later = Live::start(&mut env.sh(who, &[], script));
        let seen_later: Vec<String> = (0..3).map(|_| later.line()).collect();
        assert_eq!(seen, seen_later, "{who:?}");
        // The holder outlives the first rank.
        assert_eq!(first.end().code(), 0);
        assert_eq!(env.holders().len(), 1);
        let third = env.said(who, &[], &script.replace("read line || :", "cat \"$0/where\""));
        assert_eq!(third, format!("{}\nimage\n", seen.join("\n")), "{who:?}");
        assert_eq!(later.end().code(), 0);
        env.all_gone();
    }
}

#[test]
fn a_later_rank_of_a_job_does_not_open_the_image() {
    let env = Imaged::new();
    for who in ways() {
        let mut first = env.sh(who, &[], "echo ready; read line");
        let mut first = Live::start(as_rank(&mut first, 0));
        first.line();
        let log = env.scene.at("strace");
        let strace = ["strace", "-f", "-qq", "-e", "trace=open,openat,openat2", "-o", &log, "--"];
        let later = env.run(who, &[], &["cat", &format!("{}/where", env.directory)]);
        // As root: strace follows the rank into its user namespace.
        let mut traced = Command::new(strace[0]);
        traced.args(&strace[1..]).arg(later.get_program()).args(later.get_args());
        as_rank(&mut traced, 1);
        assert_eq!(run(&mut traced).out(), "image\n", "{who:?}");
        let opened = fs::read_to_string(&log).unwrap();
        assert!(opened.contains("/where") && !opened.contains(&env.image), "{who:?} {opened}");
    }
}

#[test]
fn a_later_rank_that_looks_more_closely_than_the_first_looks_for_itself() {
    let env = Imaged::new();
    sleep(Duration::from_millis(1100)); // squashfs counts seconds
    fs::write(Path::new(&env.directory).join("sub/new"), "").unwrap();
    for who in ways() {
        let mut first =
            Live::start(&mut env.sh(who, &["--check", "no"], "echo ready; read line || :"));
        first.line();
        let refused = env.refused(who, &[]);
        assert!(refused.contains("sub has changed"), "{refused}");
        assert_eq!(env.said(who, &["--check", "no"], "cat \"$0/where\""), "image\n");
        assert_eq!(env.holders().len(), 1);
        assert_eq!(first.end().code(), 0);
        env.all_gone();
    }
}

#[test]
fn many_ranks_that_start_at_once_find_one_another() {
    let env = Imaged::new();
    for who in ways() {
        let script = "readlink /proc/self/ns/mnt; cat \"$0/where\"; sleep 2";
        let ranks: Vec<Live> = (0..8).map(|_| Live::start(&mut env.sh(who, &[], script))).collect();
        let said: Vec<String> = ranks.into_iter().map(|rank| rank.end().out()).collect();
        assert!(said[0].ends_with("image\n"), "{said:?}");
        assert!(said.iter().all(|one| *one == said[0]), "{who:?}: {said:?}");
    }
}

#[test]
fn other_jobs_on_the_node_have_holders_of_their_own() {
    let env = Imaged::new();
    let script = "readlink /proc/self/ns/mnt; read line";
    let of_job = |job: &str| {
        let mut command = env.sh(As::User, &[], script);
        command.env("SLURM_JOB_ID", job).env("SLURM_STEP_ID", "0");
        Live::start(&mut command)
    };
    let (mut one, mut other) = (of_job("1"), of_job("2"));
    assert_ne!(one.line(), other.line());
    assert_eq!(env.holders().len(), 2);
}

#[test]
fn a_daemon_keeps_the_image_until_it_ends() {
    let env = Imaged::new();
    for who in ways() {
        let out = env.scene.at("seen by a daemon");
        let wait = env.scene.file("wait", "", 0o644);
        let script = format!(
            "(while [ -e '{wait}' ]; do sleep 0.05; done; cat \"$0/where\" > '{out}') > /dev/null 2>&1 & exit 3"
        );
        fs::write(&out, "").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&out, mode).unwrap();
        // It is not waited for: it does not end before it is told to.
        assert_eq!(run(&mut env.sh(who, &[], &script)).code(), 3);
        assert_eq!(env.holders().len(), 1, "{who:?}");
        // A rank that comes now joins the daemon.
        assert_eq!(env.said(who, &[], "cat \"$0/where\""), "image\n");
        fs::remove_file(&wait).unwrap();
        env.all_gone();
        assert_eq!(fs::read_to_string(&out).unwrap(), "image\n");
    }
}

#[test]
fn a_killed_rank_leaves_nothing_behind() {
    let env = Imaged::new();
    for who in ways() {
        let mut rank = Live::start(&mut env.sh(who, &[], "echo ready; exec sleep 100"));
        rank.line();
        rank.child.kill().unwrap();
        rank.child.wait().unwrap();
        env.all_gone();
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("becalm-image"), "{mounts}");
}

#[test]
fn a_directory_that_is_not_there_is_seen_all_the_same() {
    let env = Imaged::new();
    for who in ways() {
        for at in ["/no-such-directory/of/software", &env.scene.at("not/there")] {
            let script = format!("cat '{at}/where'; ls / | wc -l; ls '{}'", env.scene.at(""));
            let said = env.said(who, &["--at", at], &script);
            assert!(said.starts_with("image\n"), "{said}");
            assert!(said.contains("image.sqsh"), "what was there is there still: {said}");
            assert!(!Path::new(at).exists(), "nothing is made on disk");
            let write = format!("echo > '{at}/../x'");
            let refused = run(&mut env.sh(who, &["--at", at], &write));
            assert!(refused.err().contains("Read-only"), "{}", refused.err());
        }
    }
}

#[test]
fn a_stale_image_is_refused_with_what_has_changed() {
    let env = Imaged::new();
    sleep(Duration::from_millis(1100)); // squashfs counts seconds
    fs::write(Path::new(&env.directory).join("sub/new"), "").unwrap();
    let refused = env.refused(As::User, &[]);
    assert!(refused.contains("sub has changed"), "{refused}");
    assert_eq!(env.said(As::User, &["--check", "no"], "cat \"$0/where\""), "image\n");
    fs::remove_file(Path::new(&env.directory).join("sub/new")).unwrap();

    let env = Imaged::new();
    let file = Path::new(&env.directory).join("sub/a file, with é");
    fs::write(&file, "edited").unwrap();
    // A file edited in place changes no directory: whoever serves the image sees it.
    assert_eq!(env.said(As::User, &[], "cat \"$0/link\""), "edited");
    let refused = env.refused(As::User, &["--check", "full"]);
    // Which of both it is called depends on whether the clock has gone on to another second.
    let names = ["a file, with é has another size", "a file, with é has changed"];
    assert!(names.iter().any(|name| refused.contains(name)), "{refused}");
}

#[test]
fn what_is_no_image_is_refused_in_one_line() {
    let mut env = Imaged::new();
    let broken = env.scene.file("broken.sqsh", [b"hsqs".as_slice(), &[255; 500]].concat(), 0o644);
    let text = env.scene.file("text", "no image", 0o644);
    for (image, why) in [(broken, "squashfs"), (text, "squashfs"), ("nix".into(), "cannot find")] {
        env.image = image;
        let refused = env.refused(As::User, &["--at", "/mnt"]);
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn binds_are_seen_and_may_be_read_only() {
    let env = Imaged::new();
    let data = env.scene.subdirectory("data, 1");
    fs::write(format!("{data}/x"), "here").unwrap();
    let bind = format!("{data}:/no-such-place/data:ro");
    for who in ways() {
        let script = "cat /no-such-place/data/x \"$0/where\"; echo > /no-such-place/data/y";
        let ran = run(&mut env.sh(who, &["--bind", &bind], script));
        assert_eq!(ran.out(), "hereimage\n");
        assert!(ran.err().contains("Read-only"), "{}", ran.err());
    }
    let refused = env.refused(As::User, &["--bind", "/nix:/mnt"]);
    assert!(refused.contains("--bind /nix: No such file"), "{refused}");
}

#[test]
fn without_user_namespaces_the_refusal_says_why_and_what_to_do() {
    let env = Imaged::new();
    let becalm = env.scene.at("becalm");
    // In a user namespace of its own, whose limit is 0, none can be made below it.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let mut command = testkit::user::as_a_user(&["unshare", "-Ur", "sh", "-c", script, "sh"]);
    command.args([&becalm, "run", "--image", &env.image, "--", "echo", "it ran"]);
    let ran = run(&mut command);
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
    assert!(ran.err().contains("max_user_namespaces is 0"), "{}", ran.err());
    assert!(ran.err().contains("--stage has it unpacked into memory"), "{}", ran.err());
}

#[test]
fn the_kernel_finds_what_was_traced_fetched_in_large_pieces() {
    if !is_root() {
        return;
    }
    // Nothing that could be compressed, and more than a disk's cache of pieces.
    let mut noise = 1u64;
    let mut next = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise.to_le_bytes()
    };
    let scene = Scene::new();
    let [env, share] = ["env", "share"].map(|name| scene.subdirectory(name));
    let [traced, other] = ["traced", "other"].map(|name| format!("{env}/{name}"));
    for file in [&traced, &other] {
        fs::write(file, (0..4 << 20).flat_map(|_| next()).collect::<Vec<u8>>()).unwrap();
    }
    let image = format!("{share}/env.sqsh");
    let build = ["image", "build", "-o", &image, &env, "--", "cat", &traced];
    assert_eq!(run(Command::new(BECALM).args(build).current_dir("/")).code(), 0);
    let profile = "name = \"far\"\n[mds]\nround_trip = \"1ms\"\nservice = \"1us\"\n\
                   [data]\nround_trip = \"1ms\"\n[cache]\nentries = \"forever\"\n\
                   negatives = \"forever\"\nopen = \"revalidated\"\nlist = \"cached\"\n";
    let profile = scene.file("far.toml", profile, 0o644);
    let reads = |file: &str| {
        let told = scene.at("told");
        let json = format!("--json={told}");
        let mut command = Command::new(BECALM);
        command.args(["rehearse", "--profile", &profile, &json, &share, "--", BECALM, "run"]);
        command.args(["--image", &image, "--by", "kernel", "--", "md5sum", file]);
        assert_eq!(run(&mut command).code(), 0);
        let told = testkit::answer::parse(fs::read(told).unwrap());
        let mut kinds = told["kinds"].as_array().unwrap().iter();
        kinds.find(|kind| kind["kind"] == "read").unwrap()["rpcs"].as_u64().unwrap()
    };
    // 32 MiB, in requests of 1 MiB and, as the kernel does by itself, of 256 KiB at most.
    let (traced, other) = (reads(&traced), reads(&other));
    assert!(traced < 80, "{traced} reads");
    assert!(other > 100 + 32, "{other} reads, with those of what was traced");
}

#[test]
fn json_says_what_mounts_it_and_where() {
    let env = Imaged::new();
    for who in ways() {
        let mut first = Live::start(&mut env.sh(who, &[], "echo ready; read line"));
        first.line();
        let ran = run(&mut env.sh(who, &["--json"], ":"));
        let told: serde_json::Value = serde_json::from_str(&ran.err()).unwrap();
        assert_eq!(told["image"]["over"][0], env.directory.as_str());
        assert_eq!(told["image"]["by"], if who == As::Root { "kernel" } else { "fuse" });
        assert_eq!(told["image"]["joined"], true);
    }
}
