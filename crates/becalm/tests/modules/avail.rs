//! `becalm modules index` and `avail` from the command line: the real command's bytes, or status
//! 75 and nothing.
mod who_reads;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use crate::BECALM;
use crate::scene::{Modulepath, both};
use who_reads::setfacl;

const FORMS: [&[&str]; 8] = [
    &["avail"],
    &["avail", "-t"],
    &["avail", "-l"],
    &["avail", "-j"],
    &["avail", "-a"],
    &["avail", "-d"],
    &["avail", "gcc"],
    &["avail", "nosuch"],
];

#[track_caller]
fn assert_same(native: &Output, real: &Output, what: &str) {
    assert_eq!(native.status.code(), Some(0), "{what}: {native:?}");
    // Modules writes the names of a JSON object in the order in which Tcl keeps them.
    let parsed = |output: &Output| serde_json::from_slice::<serde_json::Value>(&output.stderr);
    match (parsed(native), parsed(real)) {
        (Ok(json), Ok(real_json)) => {
            assert_eq!((json, &native.stdout), (real_json, &real.stdout), "{what}");
            assert_eq!(native.status, real.status, "{what}");
        }
        _ => assert_eq!(native, real, "{what}"),
    }
}

#[track_caller]
fn assert_left(native: &Output, what: &str) {
    assert_eq!(native.status.code(), Some(75), "{what}: {native:?}");
    assert!(native.stdout.is_empty() && native.stderr.is_empty(), "{what}: {native:?}");
}

#[test]
fn the_index_says_what_it_holds_and_avail_answers_from_it() {
    for modules in &both() {
        let scene = Modulepath::new();
        assert_left(&scene.becalm(modules, &["avail"]), "without an index");

        let made = scene.becalm(modules, &["index", "--json"]);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let answer = testkit::answer::parse(&made.stdout);
        assert_eq!(answer["indexes"][0]["files"], 2);
        assert_eq!(answer["indexes"][0]["rc_files"], 1);

        for form in FORMS {
            assert_same(&scene.becalm(modules, form), &scene.real(modules, form), &form.join(" "));
        }
    }
}

#[test]
fn a_modulepath_that_only_modules_can_read_has_no_index() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    scene
        .file("gcc/.modulerc", "#%Module\nif {[info exists env(X)]} { module-version gcc/12 x }\n");
    let made = scene.becalm(modules, &["index"]);
    assert_eq!(made.status.code(), Some(1));
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.contains("left to Modules") && said.contains(".modulerc: line 2"), "{said}");
    let avail = scene.becalm(modules, &["avail", "--why"]);
    assert_eq!(avail.status.code(), Some(75));
    assert!(String::from_utf8_lossy(&avail.stderr).contains("no index"), "{avail:?}");
}

#[test]
fn what_may_not_be_equal_is_left_to_modules() {
    for modules in &both() {
        let scene = Modulepath::new();
        scene.index(modules);
        for words in [
            &["avail", "gcc@12"][..],
            &["avail", "--output=sym"],
            &["avail", "-v"],
            &["avail", "gcc/[12]*"],
            &["avail", "--no-such-option"],
        ] {
            assert_left(&scene.becalm(modules, words), &words.join(" "));
        }
        for (name, value) in [
            ("MODULEPATH", "modulefiles"),
            ("MODULEPATH", "/tmp/x$HOME"),
            ("MODULES_AVAIL_OUTPUT", "modulepath"),
            ("MODULES_SITECONFIG", "/etc/hosts"),
            ("MODULES_TAG_ABBREV", "hidden=HID"),
            ("MODULES_NOT_YET_THOUGHT_OF", "1"),
            ("__MODULES_LMTAG", "gcc/12&sticky"),
            ("MODULERCFILE", "/etc/hosts"),
            ("MODULES_CMD", "/usr/bin/tclsh"),
        ] {
            let mut command = scene.command(BECALM, modules);
            let avail = command.args(["modules", "avail"]).env(name, value).output().unwrap();
            assert_left(&avail, &format!("{name}={value}"));
        }
        let home = scene.at("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join(".modulerc"), "#%Module\n").unwrap();
        let mut command = scene.command(BECALM, modules);
        let avail = command.args(["modules", "avail"]).env("HOME", &home).output().unwrap();
        assert_left(&avail, "an rc file of the user");
    }
}

#[test]
fn a_changed_tree_is_left_to_modules_until_it_is_indexed_again() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 11] = [
        ("a version more", |tree| fs::write(tree.join("gcc/14"), "#%Module\n").unwrap()),
        ("a version less", |tree| fs::remove_file(tree.join("gcc/12")).unwrap()),
        ("a name more", |tree| fs::create_dir(tree.join("new")).unwrap()),
        ("an rc file written in place", |tree| {
            fs::write(tree.join("gcc/.version"), "#%Module\nset ModulesVersion 12\n").unwrap();
        }),
        ("an rc file more", |tree| fs::write(tree.join(".modulerc"), "#%Module\n").unwrap()),
        ("a modulefile that is none any more", |tree| {
            fs::write(tree.join("gcc/12"), "#!Module\n").unwrap();
        }),
        ("one with its old time", |tree| {
            let file = tree.join("gcc/12");
            let then = file.metadata().unwrap().modified().unwrap();
            fs::write(&file, "#!Module\nsetenv GCC twelve\n").unwrap();
            fs::File::options().write(true).open(&file).unwrap().set_modified(then).unwrap();
        }),
        ("a modulefile that its owner may read", |tree| {
            fs::set_permissions(tree.join("gcc/12"), Permissions::from_mode(0o600)).unwrap();
        }),
        ("a modulefile of another group", |tree| {
            chown(tree.join("gcc/12"), None, Some(1)).unwrap();
        }),
        ("a modulefile that one user may not read", |tree| {
            setfacl("u:65534:---", &tree.join("gcc/12"));
        }),
        ("a modulepath moved", |tree| {
            fs::rename(tree, tree.with_extension("old")).unwrap();
            fs::create_dir(tree).unwrap();
        }),
    ];
    for modules in &both() {
        for (what, change) in changes {
            let scene = Modulepath::new();
            scene.index(modules);
            assert_eq!(scene.becalm(modules, &["avail"]).status.code(), Some(0), "{what}");
            change(&scene.modulepath);
            assert_left(&scene.becalm(modules, &["avail"]), what);
            scene.index(modules);
            let (native, real) =
                (scene.becalm(modules, &["avail"]), scene.real(modules, &["avail"]));
            assert_same(&native, &real, what);
        }
    }
}

#[test]
fn what_modules_would_not_look_at_need_not_be_as_it_was() {
    for modules in &both() {
        let scene = Modulepath::new();
        scene.file("llvm/17", "#%Module\n");
        scene.file("llvm/.version", "#%Module\n");
        scene.index(modules);
        scene.file("llvm/17", "no modulefile\n");
        let avail = |program: &str| {
            let mut command = scene.command(program, modules);
            command.env("MODULES_MCOOKIE_CHECK", "eval");
            command
        };
        let native = avail(BECALM).args(["modules", "avail"]).output().unwrap();
        let real = avail(modules.command.to_str().unwrap()).args(["bash", "avail"]).output();
        assert_same(&native, &real.unwrap(), "cookies are not checked");
        assert_left(&scene.becalm(modules, &["avail"]), "all are opened");
        scene.file("llvm/.version", "#%Module\nset ModulesVersion 17\n");
        scene.file("llvm/18", "#%Module\n");
        for words in [&["avail", "gcc"][..], &["avail", "gcc/1*", "nosuch"], &["avail", "*cc"]] {
            assert_same(&scene.becalm(modules, words), &scene.real(modules, words), words[1]);
        }
        for words in [&["avail", "gcc", "llvm"][..], &["avail", "-C", "gcc"], &["avail", "*"]] {
            assert_left(&scene.becalm(modules, words), words[1]);
        }
    }
}

#[test]
fn an_option_counts_where_modules_takes_it_and_only_there() {
    let options = [
        "-t",
        "-l",
        "-j",
        "-d",
        "-L",
        "-C",
        "-S",
        "-a",
        "-i",
        "-P",
        "-p",
        "-v",
        "-o",
        "-w",
        "-f",
        "--terse",
        "--long",
        "--json",
        "--default",
        "--latest",
        "--contains",
        "--starts-with",
        "--all",
        "--icase",
        "--indepth",
        "--no-indepth",
        "--paginate",
        "--no-pager",
        "--color",
        "--color=always",
        "--color=",
        "--width",
        "--width=40",
        "--width=",
        "-w40",
        "--output=sym",
        "--show_hidden",
        "--append",
        "-tl",
        "--al",
        "--terse=1",
        "--",
        "-",
        "-t avail",
    ];
    for modules in &both() {
        let scene = Modulepath::new();
        scene.file("gcc/.14", "#%Module\n");
        scene.index(modules);
        let mut answered = 0;
        let mut command = |words: &[&str]| {
            let words = [&["command"], words].concat();
            let native = scene.becalm(modules, &words);
            match native.status.code() {
                Some(75) => assert_left(&native, &words.join(" ")),
                _ => {
                    answered += 1;
                    assert_same(&native, &scene.real(modules, &words[1..]), &words.join(" "));
                }
            }
        };
        for option in options {
            command(&[option, "avail"]);
            command(&["avail", option]);
            command(&["av", option, "gcc"]);
            command(&["append-path", "-L", option, "avail"]);
            command(&["avail", "append-path", "-L", option]);
        }
        command(&["-w", "40", "avail"]);
        command(&["avail", "-w", "40"]);
        assert!(answered > 70, "{answered}");
    }
}

#[test]
fn a_change_within_the_second_of_the_index_is_seen_where_times_are_whole_seconds() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    let shell = |script: &str| {
        let mut shell = scene.command("unshare", modules);
        shell.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("BECALM", BECALM);
        shell.env("DISK", scene.at("disk")).env("MODULEPATH", scene.at("mnt/tree"));
        shell.current_dir(scene.at("")).args(["--mount", "sh", "-ec", script]).output().unwrap()
    };
    fs::create_dir(scene.at("mnt")).unwrap();
    // The mount is in a namespace of its own: it goes with the shell. At the beginning of a second,
    // all that follows is in the same one.
    let done = shell(
        "truncate -s 8M $DISK; mkfs.ext4 -q -I 128 $DISK 2>/dev/null; mount -o loop $DISK mnt || exit 99
        mkdir -p mnt/tree/gcc; cd mnt/tree/gcc
        for round in 1 2 3; do
            while case $(date +%N) in 0*) false;; esac; do :; done
            echo '#%Module' > a$round
            $BECALM modules index
            echo '#%Module' > b$round
            $BECALM modules avail -t 2> ../../answer && grep b$round ../../answer || test $? = 75
        done",
    );
    if done.status.code() == Some(99) && std::env::var_os("CI").is_none() {
        eprintln!("skipped: this user cannot mount a disk: {done:?}");
        return;
    }
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn an_index_of_somebody_else_or_of_garbage_is_not_used() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    scene.index(modules);
    let files = || fs::read_dir(scene.at("index")).unwrap().map(|entry| entry.unwrap().path());
    for path in files().filter(|path| path.extension().is_some_and(|kind| kind == "names")) {
        let content = fs::read(&path).unwrap();
        for cut in 0..content.len() {
            fs::write(&path, &content[..cut]).unwrap();
            assert_left(&scene.becalm(modules, &["avail"]), &format!("{cut} bytes"));
        }
        fs::write(&path, recording::seal("becalm-names 2", &[0xff; 64])).unwrap();
        assert_left(&scene.becalm(modules, &["avail"]), "garbage");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_left(&scene.becalm(modules, &["avail"]), "a directory");
        fs::remove_dir(&path).unwrap();
        mkfifo(&path);
        assert_left(&scene.becalm(modules, &["avail"]), "a FIFO");
        fs::remove_file(&path).unwrap();
        fs::write(&path, &content).unwrap();
        chown(&path, Some(65_534), None).unwrap();
        assert_left(&scene.becalm(modules, &["avail"]), "another user's");
    }
}

/// A byte that is another one by now is an answer of Modules' own, or the right one: never a wrong
/// list.
#[test]
fn an_index_with_any_byte_changed_gives_no_wrong_list() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    scene.file("gcc/.modulerc", "#%Module\nmodule-version gcc/12 old\nmodule-alias cc gcc/13\n");
    scene.file("hdf5/1.14", "#%Module\n");
    scene.index(modules);
    let right = scene.becalm(modules, &["avail"]);
    assert!(right.status.success(), "{right:?}");
    for path in fs::read_dir(scene.at("index")).unwrap().map(|entry| entry.unwrap().path()) {
        let content = fs::read(&path).unwrap();
        for at in 0..content.len() {
            for flip in [1 << (at % 8), 0xff] {
                let mut changed = content.clone();
                changed[at] ^= flip;
                fs::write(&path, &changed).unwrap();
                let what = format!("{}: byte {at} ^ {flip:#x}", path.display());
                let given = scene.becalm(modules, &["avail"]);
                if given.status.success() {
                    assert_same(&given, &right, &what);
                } else {
                    assert_left(&given, &what);
                }
            }
        }
        fs::write(&path, &content).unwrap();
    }
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_lease_takes_the_index_on_trust_and_no_longer() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    let made = scene.becalm(modules, &["index", "--lease", "3600"]);
    assert!(made.status.success());
    let before = scene.becalm(modules, &["avail", "-t"]);
    scene.file("new/1", "#%Module\n");
    assert_eq!(scene.becalm(modules, &["avail", "-t"]), before);
    // An hour later.
    for entry in fs::read_dir(scene.at("index")).unwrap() {
        let file = fs::File::open(entry.unwrap().path()).unwrap();
        let then = file.metadata().unwrap().modified().unwrap();
        file.set_modified(then - std::time::Duration::from_secs(3600)).unwrap();
    }
    assert_left(&scene.becalm(modules, &["avail", "-t"]), "an hour later");
}

#[test]
fn a_tree_with_traps_is_neither_waited_for_nor_indexed() {
    let [modules, _] = &both();
    let scene = Modulepath::new();
    mkfifo(&scene.modulepath.join("gcc/fifo"));
    let made = scene.becalm(modules, &["index"]);
    assert_eq!(made.status.code(), Some(1));
    fs::remove_file(scene.modulepath.join("gcc/fifo")).unwrap();
    symlink("..", scene.modulepath.join("gcc/loop")).unwrap();
    let made = scene.becalm(modules, &["index"]);
    assert_eq!(made.status.code(), Some(1));
    let file = scene.file("gcc/12", "#%Module\n");
    let made = scene.becalm(modules, &["index", file.to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&made.stdout).contains("no directory"), "{made:?}");
}

#[test]
fn words_of_other_bytes_are_for_modules() {
    let word = std::os::unix::ffi::OsStrExt::from_bytes(b"a\xff");
    let ran = testkit::run(
        Command::new(BECALM).args(["modules", "avail", "-t"]).arg::<&std::ffi::OsStr>(word),
    );
    assert_eq!((ran.code(), ran.out(), ran.err()), (75, String::new(), String::new()));
}
