//! Each kind of change between one question and the next: what `becalm modules answer` gives is
//! what Modules says now.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::answer::{Asking, settle, tree, with_each};
use crate::scene::{Modulepath, all};

type Change = fn(&Modulepath);

fn at(scene: &Modulepath, name: &str) -> std::path::PathBuf {
    scene.modulepath.join(name)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The same length and the same times as before, as `touch -r` gives them.
fn rewrite_unseen(path: &Path) {
    let before = fs::metadata(path).unwrap();
    let content = fs::read_to_string(path).unwrap().replace("twelve", "TWELVE");
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
}

const CHANGES: [(&str, Change); 23] = [
    ("edit", |scene| drop(scene.file("gcc/12", "#%Module\nsetenv GCC other\n"))),
    ("edit, with the old time", |scene| rewrite_unseen(&at(scene, "gcc/12"))),
    ("empty", |scene| drop(scene.file("gcc/12", ""))),
    ("remove", |scene| fs::remove_file(at(scene, "gcc/13")).unwrap()),
    ("add a version", |scene| drop(scene.file("gcc/14", "#%Module\nsetenv GCC fourteen\n"))),
    ("add a module", |scene| drop(scene.file("new/1", "#%Module\n"))),
    ("another default", |scene| {
        drop(scene.file("gcc/.version", "#%Module\nset ModulesVersion 12\n"));
    }),
    ("no default", |scene| fs::remove_file(at(scene, "gcc/.version")).unwrap()),
    ("an rc file", |scene| {
        drop(scene.file("gcc/.modulerc", "#%Module\nmodule-version gcc/12 default\n"));
    }),
    ("an rc file at the top", |scene| {
        drop(scene.file(".modulerc", "#%Module\nmodule-alias gcc/13 mpi/2\n"));
    }),
    ("an rc file at home", |scene| {
        fs::write(scene.at(".modulerc"), "#%Module\nmodule-alias new gcc/12\n").unwrap();
    }),
    ("replace by rename", |scene| {
        let new = scene.at("beside");
        fs::write(&new, "#%Module\nsetenv GCC renamed\n").unwrap();
        fs::rename(new, at(scene, "gcc/12")).unwrap();
    }),
    ("another directory in its place", |scene| {
        fs::rename(at(scene, "gcc"), scene.at("old")).unwrap();
        scene.file("gcc/1", "#%Module\nsetenv GCC one\n");
    }),
    ("a link to it in the place of a directory above", |scene| {
        fs::rename(&scene.modulepath, scene.at("behind")).unwrap();
        symlink(scene.at("behind"), &scene.modulepath).unwrap();
    }),
    ("a link in its place", |scene| {
        fs::rename(at(scene, "gcc/12"), scene.at("moved")).unwrap();
        symlink(scene.at("moved"), at(scene, "gcc/12")).unwrap();
    }),
    ("a link to elsewhere", |scene| {
        fs::remove_file(at(scene, "linked")).unwrap();
        symlink(at(scene, "mpi"), at(scene, "linked")).unwrap();
    }),
    ("a directory where there was none", |scene| {
        fs::create_dir(scene.at("later")).unwrap();
        fs::write(scene.at("later/gcc"), "#%Module\nsetenv GCC later\n").unwrap();
    }),
    ("unreadable", |scene| mode(&at(scene, "gcc/12"), 0)),
    ("a directory that is closed", |scene| mode(&at(scene, "gcc"), 0)),
    ("another owner", |scene| {
        // Only root gives files away; elsewhere nothing changes.
        let _ = chown(at(scene, "gcc/12"), Some(1), Some(1));
    }),
    ("a collection", |scene| {
        fs::create_dir_all(scene.at(".module")).unwrap();
        fs::write(scene.at(".module/mine"), "module load gcc/12\n").unwrap();
    }),
    ("touch", |scene| {
        let now = std::time::SystemTime::now();
        fs::File::open(at(scene, "gcc/12")).unwrap().set_modified(now).unwrap();
    }),
    ("remove everything", |scene| fs::remove_dir_all(&scene.modulepath).unwrap()),
];

const QUESTIONS: [&[&str]; 11] = [
    &["load", "gcc"],
    &["load", "gcc/12"],
    &["load", "linked/1"],
    &["load", "new"],
    &["show", "gcc/12"],
    &["whatis"],
    &["avail", "-t"],
    &["is-avail", "gcc/14"],
    &["savelist"],
    &["restore", "mine"],
    &["path", "gcc"],
];

#[test]
fn after_each_kind_of_change_the_answer_is_that_of_now() {
    for modules in &all() {
        let scenes: Vec<Modulepath> = CHANGES.iter().map(|_| tree()).collect();
        for scene in &scenes {
            symlink(at(scene, "gcc"), at(scene, "linked")).unwrap();
        }
        settle();
        for ((name, change), scene) in CHANGES.iter().zip(&scenes) {
            let path = format!("{}:{}", scene.modulepath.display(), scene.at("later").display());
            let outside = scene.at("");
            let asking = Asking::new(scene, modules).with("MODULEPATH", &path).from(&outside);
            QUESTIONS.iter().for_each(|words| asking.agree(words));
            change(scene);
            // What fails is told with the change before it.
            eprintln!("{name}");
            QUESTIONS.iter().for_each(|words| asking.agree(words));
        }
    }
}

#[test]
fn a_modulefile_that_was_mended_is_remembered_again() {
    with_each(|modules| {
        let scene = tree();
        let module = scene.file("clock/1", "#%Module\nclock seconds\nsetenv A 1\n");
        settle();
        let asking = Asking::new(&scene, modules);
        let words = ["load", "clock/1"];
        asking.agree(&words);
        assert_eq!(asking.why(&words), "never remembered: it reads the clock\n");
        fs::write(module, "#%Module\nsetenv A 2\n").unwrap();
        settle();
        asking.agree(&words);
        asking.is_remembered(&words);
    });
}

#[test]
fn what_changed_a_moment_ago_is_not_relied_on() {
    for modules in &all() {
        let scene = tree();
        let asking = Asking::new(&scene, modules);
        for at in 0..4 {
            scene.file("gcc/12", &format!("#%Module\nsetenv GCC {at}\n"));
            asking.agree(&["load", "gcc/12"]);
            asking.agree(&["load", "gcc/12"]);
        }
    }
}

/// The processor time of what a process has started, in hundredths of a second (proc_pid_stat(5)).
fn time_of_child(pid: u32) -> u64 {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let child = read(format!("/proc/{pid}/task/{pid}/children"));
    let Ok(child) = child.trim().parse::<u32>() else { return 0 };
    let stat = read(format!("/proc/{child}/stat"));
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Nothing is left of it that a look at what was read would tell.
#[test]
fn a_directory_that_is_moved_there_and_back_while_it_is_read_is_noticed() {
    for modules in &all() {
        let scene = tree();
        let (above, path) = (scene.at("above/it"), scene.at("above/it/modules"));
        fs::create_dir_all(path.join("long")).unwrap();
        let long = "#%Module\nfor {set i 0} {$i < 10000000} {incr i} {}\nsetenv IS here\n";
        fs::write(path.join("long/1"), long).unwrap();
        settle();
        let asking = Asking::new(&scene, modules).with("MODULEPATH", path.to_str().unwrap());
        let words = ["load", "long/1"];
        let mut becalm = asking.becalm(&words).stdout(Stdio::null()).spawn().unwrap();
        // By then Modules is in the modulefile.
        while time_of_child(becalm.id()) < 20 {
            std::thread::sleep(Duration::from_millis(5));
            assert!(becalm.try_wait().unwrap().is_none());
        }
        fs::rename(&above, scene.at("above/aside")).unwrap();
        fs::rename(scene.at("above/aside"), &above).unwrap();
        assert!(becalm.wait().unwrap().success());
        let why = asking.why(&words);
        assert_eq!(why, format!("not remembered this time: {} was moved\n", above.display()));
        settle();
        asking.agree(&words);
        asking.is_remembered(&words);
    }
}

/// Images as they are made to be reproduced: whatever is in them, they have the same times.
#[test]
fn another_image_with_the_same_times_is_never_answered_from_memory() {
    if !testkit::user::is_root() {
        return;
    }
    for modules in &all() {
        let scene = Modulepath::new();
        let image = |version: &str| {
            scene.file("gcc/12", &format!("#%Module\nsetenv GCC {version}\n"));
            let image = scene.at(version);
            let mut make = std::process::Command::new("mksquashfs");
            make.arg(&scene.modulepath).arg(&image).args(["-all-time", "0", "-mkfs-time", "0"]);
            let made =
                make.args(["-all-root", "-noappend", "-quiet", "-no-progress"]).output().unwrap();
            assert!(made.status.success(), "{made:?}");
            image
        };
        let (one, two) = (image("one"), image("two"));
        let asks = |image: &Path| {
            let script = "mount -o loop \"$1\" \"$MODULEPATH\"; for i in 1 2; do \"$0\" modules answer bash load gcc/12; \
                          done; \"$0\" modules index; \"$MODULES_CMD\" bash load gcc/12; umount \"$MODULEPATH\"";
            let mut there = scene.command("unshare", modules);
            there.args(["--mount", "sh", "-c", script, crate::BECALM]).arg(image);
            String::from_utf8(
                there.env("XDG_STATE_HOME", scene.at("state")).output().unwrap().stdout,
            )
            .unwrap()
        };
        for (image, version) in [(&one, "one"), (&two, "two"), (&one, "one")] {
            let said = asks(image);
            // 5.2 quotes it.
            let set = said.replace('\'', "");
            assert_eq!(set.matches(&format!("GCC={version};")).count(), 3, "{said}");
            assert!(said.contains("left to Modules"), "{said}");
        }
    }
}
