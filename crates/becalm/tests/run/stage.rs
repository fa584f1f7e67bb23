//! `becalm run --image --stage` where nothing can be mounted: the image is unpacked into memory of
//! the node, and the command led there.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::imaged::{As, Imaged};
use testkit::live::wait_until;
use testkit::staged::{Staging, each_user, told};
use testkit::user::is_root;
use testkit::{Live, Ran, run};

/// The state of all that a test asks of a tree.
const LOOK: &str = "cat \"$ENV_ROOT/where\" \"$ENV_ROOT/absolute\" \"$ENV_ROOT/relative\"; echo; \
                    readlink \"$ENV_ROOT/outside\"; stat -c %h \"$ENV_ROOT/lib/other name\"; \
                    command -v tool; tool a 'b c'; echo \"$0\"; exit 7";

#[test]
fn a_command_and_its_variables_lead_into_the_tree_that_is_gone_after_it() {
    let staging = Staging::new();
    for who in each_user() {
        let ran = run(&mut staging.sh(who, &[], LOOK));
        assert_eq!(ran.code(), 7, "{}", ran.err());
        let out = ran.out();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[..4], ["image", "contentcontent", "/etc/passwd", "2"], "{}", ran.err());
        assert!(lines[4].starts_with(&staging.dir) && lines[4].ends_with("/tree/bin/tool"));
        assert_eq!(lines[5], format!("{} a b c", lines[4]));
        assert_eq!(lines[6], staging.env.directory, "arguments stay");
        let said = ran.err();
        assert_eq!(said.lines().count(), 1, "{said}");
        for part in ["nothing can be mounted", &staging.dir, "(in bin: 1, .pth: 1, RPATH: 1)"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        staging.all_gone();
    }
}

#[test]
fn the_command_itself_is_started_from_the_tree_and_so_is_its_interpreter() {
    let staging = Staging::new();
    let bin = format!("{}/bin", staging.env.directory);
    // By its path, relative to the working directory, as an argument, by PATH.
    let mut relative = staging.run(As::User, &["--json"], &["bin/tool", "x"]);
    relative.current_dir(&staging.env.directory);
    let tool = format!("{bin}/tool");
    let mut by_path = staging.run(As::User, &["--json"], &["piplike", "x"]);
    by_path.env("PATH", format!("{bin}:/usr/bin:/bin"));
    let words = |ran: Ran| {
        let told = told(&ran);
        let tree = told["image"]["staged"]["tree"].as_str().unwrap().to_owned();
        let words = told["image"]["staged"]["command"].as_array().unwrap().clone();
        let words = words.iter().map(|word| word.as_str().unwrap().replace(&tree, "TREE"));
        (words.collect::<Vec<_>>().join(" "), ran.out().replace(&tree, "TREE"))
    };
    let of = |command: &mut Command| words(run(command));
    let same = ("TREE/bin/tool x".to_owned(), "TREE/bin/tool x\n".to_owned());
    assert_eq!(of(&mut staging.run(As::User, &["--json"], &[&tool, "x"])), same);
    assert_eq!(of(&mut relative), same);
    let (command, out) = of(&mut staging.run(As::User, &["--json"], &["sh", &tool, &tool]));
    assert_eq!(command, format!("sh TREE/bin/tool {tool}"));
    assert_eq!(out, format!("TREE/bin/tool {tool}\n"));
    let (command, out) = of(&mut by_path);
    assert_eq!(command, "TREE/bin/own-echo TREE/bin/piplike x");
    assert_eq!(out, "TREE/bin/piplike x\n");
    let status = |name| {
        run(staging.run(As::User, &[], &[name]).env("PATH", "/usr/sbin:/usr/bin:/bin")).code()
    };
    assert_eq!((status("no-such-command-here"), status("/")), (127, 126));
    staging.all_gone();
}

#[test]
fn the_first_rank_says_it_for_all_of_the_job() {
    let staging = Staging::new();
    let rank = |rank: &str| {
        let mut command = staging.run(As::User, &[], &["true"]);
        command.env("SLURM_JOB_ID", "1").env("SLURM_STEP_ID", "0");
        command.env("SLURM_PROCID", rank).env("SLURM_STEP_NUM_TASKS", "4");
        run(&mut command).err().lines().count()
    };
    assert_eq!((rank("3"), rank("0")), (0, 1));
    staging.all_gone();
}

#[test]
fn an_environment_that_is_called_by_a_symbolic_link_is_found_too() {
    let staging = Staging::new();
    let home = staging.env.scene.at("home");
    symlink(staging.env.scene.directory(), &home).unwrap();
    let directory = format!("{home}/an env, été");
    let run_there = || {
        let mut command = staging.run(As::User, &["--json"], &["tool"]);
        command
            .env("PATH", format!("{directory}/bin:/usr/bin:/bin"))
            .env("VIRTUAL_ENV", &directory);
        run(&mut command)
    };
    for ran in [run_there(), run_there()] {
        let staged = &told(&ran)["image"]["staged"];
        assert_eq!(staged["variables"].as_array().unwrap().len(), 2, "{staged}");
        assert_eq!(ran.out(), format!("{}/bin/tool \n", staged["tree"].as_str().unwrap()));
    }
    staging.all_gone();
}

#[test]
fn where_a_mount_is_possible_nothing_is_staged() {
    let staging = Staging::new();
    let stage = format!("--stage={}", staging.dir);
    let mut ways = vec![As::User];
    if is_root() {
        ways.push(As::Root);
    }
    for who in ways {
        // A later rank joins the mount of the first.
        let mut first = Live::start(&mut staging.env.sh(who, &[&stage], "echo up; read line"));
        first.line();
        let ran = run(&mut staging.env.sh(who, &[&stage, "--json"], "cat \"$0/where\""));
        assert_eq!(ran.out(), "image\n");
        let told = told(&ran);
        assert_eq!(
            (&told["image"]["by"], &told["image"]["staged"]),
            (&"fuse".into(), &Value::Null)
        );
        assert_eq!(told["image"]["joined"], true);
        assert!(staging.left().is_empty());
    }
}

#[test]
fn without_fuse_an_ordinary_user_stages_too() {
    if !is_root() {
        return;
    }
    let staging = Staging::new();
    let closed = staging.env.scene.file("closed", "", 0o600);
    let stage = format!("--stage={}", staging.dir);
    let inner = staging.env.run(As::User, &[&stage, "--json"], &["true"]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount --bind \"$0\" /dev/fuse && exec \"$@\"", &closed]);
    command.arg(inner.get_program()).args(inner.get_args());
    let ran = run(&mut command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let why = told(&ran)["image"]["staged"]["why"].to_string();
    assert!(why.contains("chmod 666 /dev/fuse"), "{why}");
    staging.all_gone();
}

#[test]
fn the_tree_is_read_only_unless_changes_in_memory_are_asked_for() {
    let staging = Staging::new();
    let script = "echo x > \"$ENV_ROOT/new\"; echo x >> \"$ENV_ROOT/where\"; \
                  ls \"$ENV_ROOT\"; stat -c %a \"$ENV_ROOT\" \"$ENV_ROOT/bin/tool\"";
    let ran = run(&mut staging.sh(As::User, &[], script));
    assert_eq!(ran.err().matches("Permission denied").count(), 2, "{}", ran.err());
    assert!(ran.out().ends_with("555\n555\n") && !ran.out().contains("new"), "{}", ran.out());
    let ran = run(&mut staging.sh(As::User, &["--writable-tmpfs"], script));
    assert!(ran.out().ends_with("755\n755\n") && ran.out().contains("new"), "{}", ran.out());
    staging.all_gone();
    assert!(!Path::new(&staging.env.directory).join("new").exists());
}

#[test]
fn what_takes_a_mount_is_refused() {
    let staging = Staging::new();
    let changes = staging.env.scene.subdirectory("changes");
    let _ = chown(&changes, Some(65534), Some(65534));
    for (options, why) in [
        (["--overlay", &changes], "--overlay cannot be staged: it takes a mount"),
        (["--bind", "/etc:/mnt"], "--bind cannot be staged"),
        (["--at", "/"], "a whole root cannot be staged"),
    ] {
        staging.refused(&mut staging.run(As::User, &options, &["true"]), why);
    }
    assert!(staging.left().is_empty());
}

#[test]
fn a_stale_image_is_refused_also_by_a_rank_that_looks_more_closely() {
    let staging = Staging::new();
    std::thread::sleep(std::time::Duration::from_millis(1100)); // squashfs counts seconds
    fs::write(Path::new(&staging.env.directory).join("lib/new"), "").unwrap();
    let changed = "lib has changed";
    staging.refused(&mut staging.run(As::User, &[], &["true"]), changed);
    let mut first =
        Live::start(&mut staging.sh(As::User, &["--check", "no"], "echo up; read line || :"));
    first.line();
    staging.refused(&mut staging.run(As::User, &[], &["true"]), changed);
    assert_eq!(first.end().code(), 0);
    staging.all_gone();
}

#[test]
fn json_says_what_is_staged_and_where() {
    let staging = Staging::new();
    // In memory, by default.
    let mut command = staging.plain(As::User, &["--stage", "--json"], &["true"]);
    let ran = run(command.env("ENV_ROOT", &staging.env.directory));
    let told = told(&ran);
    let image = &told["image"];
    assert_eq!((&image["by"], &image["joined"]), (&"stage".into(), &false.into()));
    assert_eq!(image["over"][0], staging.env.directory.as_str());
    let staged = &image["staged"];
    assert!(staged["tree"].as_str().unwrap().starts_with("/dev/shm/becalm-stage-65534/"));
    assert!(staged["why"].as_str().unwrap().contains("max_user_namespaces is 0"));
    assert_eq!(staged["named"], serde_json::json!({ "scripts": 1, "pth": 1, "rpaths": 1 }));
    assert_eq!(staged["variables"], serde_json::json!(["ENV_ROOT"]));
    wait_until("it is gone", || !Path::new(staged["tree"].as_str().unwrap()).exists());
}

#[test]
fn a_python_environment_is_imported_from_the_tree_and_its_scripts_run_there() {
    let staging = Staging::of(Imaged::environment());
    let directory = &staging.env.directory;
    // Gone from disk: what is imported comes from the tree.
    fs::remove_dir_all(format!("{directory}/lib")).unwrap();
    let import = "import numpy, scipy.linalg, sys; print(sys.prefix, numpy.__file__, sep='\\n')";
    for who in each_user() {
        let mut command = staging.sh(who, &["--check", "no"], "python -c \"$1\" && exec pip -V");
        let ran = run(command.arg(import));
        // What the shell starts by a `#!` line goes to the original, which has no lib any more.
        assert!(ran.err().contains("No module named"), "{}", ran.err());
        let out = ran.out();
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[0].starts_with(&staging.dir) && lines[1].starts_with(lines[0]), "{out}");
        // What becalm starts goes to the tree; a rank that joins another does not say what is so.
        staging.all_gone();
        let mut command = staging.run(who, &["--check", "no"], &["pip", "-V"]);
        let ran = run(command.env("PATH", format!("{directory}/bin:/usr/bin:/bin")));
        assert!(
            ran.out().contains(&format!(" from {}", staging.dir)),
            "{} {}",
            ran.out(),
            ran.err()
        );
        let named = ran.err();
        assert!(named.contains("(in bin: ") && !named.contains("(in bin: 0"), "{named}");
    }
    staging.all_gone();
}
