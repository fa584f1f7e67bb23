//! `becalm run --overlay` and `--writable-tmpfs`: changes on top of an image.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::BECALM;
use testkit::imaged::{As, Imaged, ways};
use testkit::user::{SECOND_GROUP, as_a_granted_member, as_a_member, is_root};
use testkit::{Live, run};

/// A directory that belongs to whoever uses it.
fn changes(env: &Imaged, who: As) -> String {
    let directory = env.scene.subdirectory(&format!("changes, {who:?}:1"));
    if who == As::User {
        let _ = chown(&directory, Some(65534), Some(65534));
    }
    directory
}

#[test]
fn changes_in_memory_are_gone_with_the_last_rank() {
    let env = Imaged::new();
    for who in ways() {
        let options = ["--writable-tmpfs"];
        let script = "cd \"$0\"; rm -r sub; echo new > where; mkdir more; ls; cat where";
        let said = env.said(who, &options, script);
        assert_eq!(said, "__pycache__\nlink\nmore\ntool\nwhere\nnew\n", "{who:?}");
        env.all_gone();
        assert_eq!(env.said(who, &options, "cat \"$0/where\""), "image\n");
    }
}

#[test]
fn ranks_of_a_node_see_each_others_changes() {
    let env = Imaged::new();
    for who in ways() {
        let script = "echo mine > \"$0/mine\"; echo ready; read line";
        let mut first = Live::start(&mut env.sh(who, &["--writable-tmpfs"], script));
        first.line();
        assert_eq!(env.said(who, &["--writable-tmpfs"], "cat \"$0/mine\""), "mine\n");
        first.end();
        env.all_gone();
    }
}

#[test]
fn changes_in_a_directory_are_kept_and_can_be_looked_at() {
    let env = Imaged::new();
    for who in ways() {
        let directory = changes(&env, who);
        let overlay = ["--overlay", &directory];
        env.said(who, &overlay, "cd \"$0\"; rm tool; rm -r sub; echo new > new; echo x >> where");
        env.all_gone();
        let script = "cd \"$0\"; ls; cat where";
        assert_eq!(
            env.said(who, &overlay, script),
            "__pycache__\nlink\nnew\nwhere\nimage\nx\n",
            "{who:?}"
        );
        env.all_gone();
        let read_only = format!("{directory}:ro");
        assert_eq!(
            env.said(who, &["--overlay", &read_only], script),
            "__pycache__\nlink\nnew\nwhere\nimage\nx\n"
        );
        let ran = run(&mut env.sh(who, &["--overlay", &read_only], "echo > \"$0/y\""));
        assert!(ran.err().contains("Read-only"), "{}", ran.err());
        // The image and its directory are as they were.
        assert_eq!(env.said(who, &[], "cat \"$0/where\""), "image\n");
        assert!(Path::new(&env.directory).join("tool").exists());
        env.all_gone();
    }
}

#[test]
fn changes_can_go_to_a_directory_of_a_second_group() {
    if !is_root() {
        return;
    }
    let env = Imaged::new();
    let directory = env.scene.subdirectory("shared");
    chown(&directory, Some(0), Some(SECOND_GROUP)).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o2775)).unwrap();
    let member = |script: &str| {
        let line = env.sh(As::RootByFuse, &["--overlay", &directory], script);
        let becalm = env.scene.at("becalm");
        let words: Vec<&str> = line.get_args().map(|word| word.to_str().unwrap()).collect();
        let ran = run(&mut as_a_member(&[&[becalm.as_str()], &words[..]].concat()));
        assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
        env.all_gone();
        ran.out()
    };
    member("cd \"$0\"; rm tool; rm -r sub; mkdir more; echo new > more/new; echo x >> where");
    assert_eq!(member("cd \"$0\"; ls; cat where"), "__pycache__\nlink\nmore\nwhere\nimage\nx\n");
    assert_eq!(member("cd \"$0\"; mv more/new .; rm -r more; cat new"), "new\n");
}

/// What a member of a group does in a directory of a project.
const PROJECT_WORK: &str = "cd \"$0\"; touch a; echo x > b; mkdir sub; touch sub/c; mv b sub/b
cp -p theirs mine; chmod g+w a; echo y >> theirs; ln theirs hard; chmod g+s sub; rm removable
mkdir -m 2770 deep; touch deep/d; find . -printf '%p %y %m %s\\n' | sort";

#[test]
fn a_project_directory_of_a_second_group_is_written_to_as_without_becalm_and_chgrp_is_spoken_of() {
    if !is_root() {
        return;
    }
    let env = Imaged::new();
    let project = |name: &str| {
        let directory = env.scene.subdirectory(name);
        chown(&directory, Some(0), Some(SECOND_GROUP)).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o2775)).unwrap();
        for file in ["theirs", "removable"] {
            let path = format!("{directory}/{file}");
            fs::write(&path, "text\n").unwrap();
            chown(&path, Some(4711), Some(SECOND_GROUP)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        }
        directory
    };
    let (plain, imaged) = (project("plain"), project("imaged"));
    let becalm = env.scene.at("becalm");
    let words = |script| {
        let start = [becalm.as_str(), "run", "--image", &env.image, "--", "sh", "-c"];
        [&start[..], &[script, &imaged]].concat()
    };
    let without = run(&mut as_a_member(&["sh", "-c", PROJECT_WORK, &plain]));
    let with = run(as_a_member(&words(PROJECT_WORK)).current_dir(&imaged));
    assert_eq!((with.code(), with.out()), (without.code(), without.out()), "{}", with.err());
    let owners = |directory: &str| {
        let print = ["-mindepth", "1", "-printf", "%P %U %G %m\n"];
        let found = run(Command::new("find").arg(directory).args(print)).out();
        let mut lines: Vec<String> = found.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(owners(&imaged), owners(&plain));
    let said = "your other groups (2345) can be written to as ever";
    assert!(with.err().contains(said), "{}", with.err());
    // Nothing of it where the command starts elsewhere.
    assert!(!run(&mut as_a_member(&words("true"))).err().contains("groups"));
    env.all_gone();
    // Where the site grants the group, files can be given to it, too.
    let give = "cd /; touch \"$0/../given\" || exit; chgrp 2345 \"$0/../given\"; stat -c %g \"$0/../given\"";
    let ran = run(as_a_granted_member(&env.scene, &words(give)).current_dir(&imaged));
    assert_eq!((ran.out().as_str(), ran.err().as_str()), ("2345\n", ""));
    env.all_gone();
}

#[test]
fn a_second_writer_is_refused_and_told_who_the_first_is() {
    let env = Imaged::new();
    for who in ways() {
        let directory = changes(&env, who);
        let script = "echo ready; read line";
        let mut first = Live::start(&mut env.sh(who, &["--overlay", &directory], script));
        first.line();
        let holder = env.holders()[0];
        // Another job, that is: a rank of the same one would join.
        let mut other = env.sh(who, &["--overlay", &directory], "echo it ran");
        other.env("SLURM_JOB_ID", "another");
        let ran = run(&mut other);
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
        let expected = format!("process {holder} (becalm-holder) uses it");
        assert!(ran.err().contains(&expected), "{}", ran.err());
        // What the holder keeps it keeps after the first rank's end.
        first.end();
        env.all_gone();
        assert_eq!(env.said(who, &["--overlay", &directory], "echo free"), "free\n");
        env.all_gone();
    }
}

#[test]
fn an_ext3_image_keeps_changes_for_root_and_is_refused_to_others() {
    let env = Imaged::new();
    let image = env.scene.at("overlay.img");
    let made = run(Command::new(BECALM).args(["image", "overlay", &image, "64M"]));
    assert_eq!(made.code(), 0, "{}", made.err());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(&image, mode).unwrap();
    let refused = env.refused(As::User, &["--overlay", &image]);
    assert!(refused.contains("only root") && refused.contains("--overlay DIR"), "{refused}");
    for who in ways().into_iter().filter(|who| *who != As::User) {
        let overlay = ["--overlay", &image];
        env.said(who, &overlay, "echo new > \"$0/new\"; rm -f \"$0/tool\"");
        env.all_gone();
        let read_only = format!("{image}:ro");
        let said = env.said(who, &["--overlay", &read_only], "ls \"$0\"");
        assert_eq!(said, "__pycache__\nlink\nnew\nsub\nwhere\n");
        env.all_gone();
    }
    // As a node leaves it that is switched off.
    let mut debugfs = Command::new("debugfs");
    assert!(run(debugfs.args(["-w", "-R", "feature needs_recovery", &image])).code() == 0);
    for who in ways().into_iter().filter(|who| *who != As::User) {
        let refused = env.refused(who, &["--overlay", &format!("{image}:ro")]);
        assert!(refused.contains(&image) && refused.contains("e2fsck -p"), "{refused}");
    }
    // Mended is 1.
    assert!([0, 1].contains(&run(Command::new("e2fsck").args(["-p", &image])).code()));
    for who in ways().into_iter().filter(|who| *who != As::User) {
        env.said(who, &["--overlay", &format!("{image}:ro")], "ls \"$0\"");
        env.all_gone();
    }
}

#[test]
fn a_squashfs_is_an_overlay_that_is_only_looked_at() {
    let env = Imaged::new();
    let more = Imaged::of("more", |directory| fs::write(directory.join("added"), "added").unwrap());
    for who in ways() {
        let read_only = format!("{}:ro", more.image);
        let said = env.said(who, &["--overlay", &read_only], "cat \"$0/added\" \"$0/link\"");
        assert_eq!(said, "addedcontent");
    }
    let refused = env.refused(As::User, &["--overlay", &more.image]);
    assert!(refused.contains("add :ro"), "{refused}");
}
