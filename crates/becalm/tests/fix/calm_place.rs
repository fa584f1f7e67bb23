//! Where `becalm fix` writes calm files, images and copies, whom it asks before, and who may read them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::stories::{NOBODY, Story, environment, next, store, unpack};
use testkit::{Scene, run};

/// A user, and a group, that nothing else is of.
const STRANGER: u32 = 1600;
const GROUP: u32 = 7000;

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &str, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory that users write to.
fn shared(story: &Story, name: &str) -> String {
    let directory = story.scene.subdirectory(name);
    set_mode(&directory, 0o777);
    directory
}

#[test]
fn a_calm_file_lies_in_the_real_directory_that_is_named() {
    let story = Story::new(NOBODY, store);
    story.succeeds("mkdir sub real && ln -s ../real sub/link");
    for place in ["../b.calm", "../sub/../b.calm", "link/b.calm", "link/../b.calm"] {
        let fix = format!("cd sub && becalm fix -o {place} -- {}", story.command);
        let applied = story.succeeds(&format!("cd sub && {} --runs=1 {}", "becalm fix --apply", {
            let plan = story.succeeds(&fix);
            next(&plan).strip_prefix("becalm fix --apply").unwrap().to_owned()
        }));
        let ran = story.succeeds(&format!("cd sub && {}", next(&applied)));
        assert_eq!(ran, story.succeeds(&story.command));
    }
    let work = story.scene.at("work");
    assert!(Path::new(&format!("{work}/b.calm.d/app")).exists());
    assert!(Path::new(&format!("{work}/real/b.calm.d/app")).exists());
    // What is printed where it holds no more is typed, from anywhere.
    let library = library(&story, 3);
    fs::write(&library, [fs::read(&library).unwrap(), b"x".to_vec()].concat()).unwrap();
    let refused = story.types(&format!("cd / && becalm run {work}/sub/../b.calm"));
    assert_eq!(refused.code(), 125, "{}", refused.err());
    let again = refused.err();
    let (_, again) = again.split_once("Write it again: ").unwrap();
    story.succeeds(again.split_once(" (or run").unwrap().0);
    story.succeeds(&format!("becalm run {work}/sub/../b.calm"));
}

#[test]
fn an_image_lies_in_the_real_directory_that_is_named() {
    let story = Story::new(NOBODY, environment);
    story.succeeds("mkdir sub");
    let options = "-o ../e.calm --image ../sub/../packed.sqsh --runs=1";
    let fix = format!("cd sub && becalm fix --apply {options} -- {}", story.command);
    let applied = story.succeeds(&fix);
    let ran = story.succeeds(&format!("cd sub && {}", next(&applied)));
    assert_eq!(ran, "1770\n");
    assert!(Path::new(&story.scene.at("work/packed.sqsh")).exists());
}

/// The image belongs over the environment that it was made of.
#[test]
fn a_calm_file_that_was_moved_with_its_environment_says_that_its_image_is_elsewhere() {
    let story = Story::new(NOBODY, environment);
    let fix = "becalm fix --apply --runs=1 -o e.calm -- env/bin/python3 program.py";
    story.succeeds(&format!("mkdir p && cp -a ../env ../program.py p && cd p && {fix}"));
    let calmly = |place: &str| {
        let ran = story.types(&format!("cd {place} && becalm run e.calm"));
        assert_eq!((ran.out(), ran.err()), ("1770\n".to_owned(), String::new()), "{place}");
        story.succeeds(&format!("cd {place} && becalm calm check e.calm"));
    };
    calmly("p");
    for (moved, place) in [("cp -a p q", "q"), ("mv p r", "r")] {
        story.succeeds(moved);
        let ran = story.types(&format!("cd {place} && becalm run e.calm"));
        assert_eq!((ran.code(), ran.out()), (0, "1770\n".to_owned()), "{}", ran.err());
        let said = ran.err();
        let work = story.scene.at("work");
        let why =
            format!("e.calm: it was made in {work}/p: its image belongs over what lies there");
        assert!(said.contains(&why) && said.lines().count() == 1, "{said}");
        let checked = story.types(&format!("cd {place} && becalm calm check e.calm"));
        assert_eq!(checked.code(), 1, "{}", checked.out());
        let (_, again) = said.split_once("Write it again: ").unwrap();
        story.succeeds(&format!("cd {place} && {again}"));
        calmly(place);
    }
}

/// As of two scripts in one directory.
#[test]
fn a_calm_file_of_another_command_is_replaced_only_if_it_is_named() {
    let story = Story::new(NOBODY, store);
    let fix = |options: &str, words: &str| {
        format!("becalm fix --apply --runs=1 {options} -- {} {words}", story.command)
    };
    story.succeeds(&fix("", "first"));
    let before = story.picture();
    let refused = story.types(&fix("", "second"));
    let why = refused.err();
    assert_eq!((refused.code(), why.lines().count()), (1, 1), "{why}{}", refused.out());
    assert!(why.contains(" app.calm: it starts another command ("), "{why}");
    assert!(
        why.ends_with("first); choose another file with -o, or replace it with -o app.calm\n"),
        "{why}"
    );
    assert_eq!(story.picture(), before);
    let (_, option) = why.trim_end().split_once("replace it with ").unwrap();
    story.succeeds(&fix(option, "second"));
    story.succeeds(&fix("", "second"));
    story.succeeds(&fix("-o other.calm", "first"));
}

/// It would start itself, and so on for ever.
#[test]
fn what_starts_by_a_calm_file_is_not_fixed_by_that_calm_file() {
    let story = Story::new(NOBODY, store);
    let fix = |apply: &str, options: &str, command: &str| {
        format!("becalm fix {apply} --runs=1 {options} -- {command}")
    };
    story.succeeds(&fix("--apply", "-o a.calm", &story.command));
    let launcher = format!("becalm run a.calm && {}", story.command);
    fs::write(story.scene.at("work/launcher"), launcher).unwrap();
    let before = story.picture();
    for apply in ["", "--apply"] {
        for (options, command) in [("-o a.calm", "sh launcher"), ("-o ./a.calm", "sh ./launcher")] {
            let refused = story.types(&fix(apply, options, command));
            let (status, why) = (refused.code(), refused.err());
            assert_eq!((status, why.lines().count()), (1, 1), "{why}{}", refused.out());
            assert!(
                why.contains("a.calm: the command starts by it, and would start itself"),
                "{why}"
            );
            assert_eq!(story.picture(), before);
        }
    }
    let refused = story.types(&fix("--apply", "-o a.calm", "sh launcher"));
    let why = refused.err();
    story.succeeds(why.split_once("fix what it starts: ").unwrap().1);
}

/// The plan, and what is applied, are refused in the same one line.
#[track_caller]
fn both_refuse(story: &Story, before: &str, options: &str, why: &str) {
    let was = story.picture();
    let fix = |apply: &str| {
        let line = format!("{before} becalm fix {apply} --runs=1 {options} -- {}", story.command);
        let ran = story.types(&line);
        assert_eq!(ran.code(), 1, "{line}: {}{}", ran.out(), ran.err());
        assert_eq!(ran.err().lines().count(), 1, "{line}: {}", ran.err());
        assert!(ran.err().contains(why), "{line}: {}", ran.err());
        ran.err()
    };
    assert_eq!(fix(""), fix("--apply"));
    assert_eq!(story.picture(), was);
}

/// What the image would hold cannot all be read: the plan says so, and has what else helps, which is
/// nothing here but for what is advised to be typed (status 0; else 1).
#[track_caller]
fn both_do_without(story: &Story, options: &str, why: &str) {
    let was = story.picture();
    for apply in ["", "--apply"] {
        let line = format!("becalm fix {apply} --runs=1 {options} -- {}", story.command);
        let ran = story.types(&line);
        let said = ran.out() + &ran.err();
        assert!([0, 1].contains(&ran.code()), "{line}: {said}");
        assert!(said.replace('\n', " ").contains(why), "{line}: {said}");
    }
    assert_eq!(story.picture(), was);
}

#[test]
fn a_plan_is_refused_where_its_calm_file_could_not_be_written() {
    let story = Story::new(NOBODY, unpack);
    both_refuse(&story, "", "-o ../x.calm", "Permission denied");
    both_refuse(&story, "", "-o nodir/x.calm", "nodir/x.calm: find its directory: No such file");
    both_refuse(&story, "", "-o /proc/x.calm", "/proc: is on proc");
    both_refuse(&story, "unset HOME;", "-o x.calm", "no place for becalm's state");
    let directory = shared(&story, "shared");
    story
        .succeeds(&format!("becalm fix --apply --runs=1 -o ../shared/x.calm -- {}", story.command));
    chown(format!("{directory}/x.calm"), Some(STRANGER), None).unwrap();
    both_refuse(&story, "", "-o ../shared/x.calm", "belongs to user 1600");
}

#[test]
fn a_plan_is_refused_where_its_image_could_not_be_made() {
    let story = Story::new(NOBODY, environment);
    let directory = shared(&story, "shared");
    let env = story.scene.at("env");
    both_refuse(&story, "", "-o x.calm --image ../x.sqsh", "Permission denied");
    set_mode(&env, 0o777);
    both_refuse(&story, "", &format!("-o {env}/x.calm"), "it lies in what is packed");
    let elsewhere = format!("-o {env}/x.calm --image x.sqsh");
    both_refuse(&story, "", &elsewhere, "x.calm: it lies in what is packed");
    set_mode(&env, 0o755);
    let image = "-o x.calm --image ../shared/x.sqsh";
    story.succeeds(&format!("becalm fix --apply --runs=1 {image} -- {}", story.command));
    chown(format!("{directory}/x.sqsh"), Some(STRANGER), None).unwrap();
    both_refuse(&story, "", image, "belongs to user 1600");
    let private = story.scene.file("env/priv", "", 0o600);
    both_do_without(&story, "-o y.calm", "priv: open: Permission denied");
    fs::remove_file(private).unwrap();
    set_mode(&story.scene.subdirectory("env/closed"), 0o700);
    both_do_without(&story, "-o y.calm", "closed: open: Permission denied");
}

#[test]
fn a_calm_file_that_is_written_again_keeps_its_link_and_who_may_read_it() {
    let story = Story::new(NOBODY, unpack);
    let fix = |name: &str| {
        story.succeeds(&format!("becalm fix --apply --runs=1 -o {name} -- {}", story.command));
    };
    story.succeeds("mkdir kept && ln -s kept/real.calm link.calm");
    fix("kept/real.calm");
    let real = story.scene.at("work/kept/real.calm");
    story.succeeds("chmod 600 kept/real.calm && setfacl -m u:1600:r kept/real.calm");
    let list = story.succeeds("getfacl kept/real.calm");
    let was = (story.picture(), fs::metadata(&real).unwrap().ino());
    fix("link.calm");
    assert_ne!(fs::metadata(&real).unwrap().ino(), was.1, "it is written");
    assert_eq!(story.succeeds("getfacl kept/real.calm"), list);
    assert_eq!(story.succeeds("readlink link.calm"), "kept/real.calm\n");
    story.succeeds("becalm run link.calm");
    story.succeeds("becalm undo");
    assert_eq!(story.picture(), was.0);
    assert_eq!(story.succeeds("getfacl kept/real.calm"), list);
    story.succeeds("setfacl -b kept/real.calm && chmod 600 kept/real.calm");
    fix("kept/real.calm");
    assert_eq!(mode(&real), 0o600);
}

/// A library of the store, by its number.
fn library(story: &Story, number: u32) -> String {
    let name = format!("libpart{number:03}.so*");
    let tree = story.scene.at("tree");
    let found = run(Command::new("find").args([&tree, "-name", &name, "-type", "f"]));
    found.out().lines().next().unwrap().to_owned()
}

/// What makes a file one that not everybody may read, and a user of [`GROUP`] may.
fn closings(file: &str) -> [(&'static str, String); 3] {
    let directory = Path::new(file).parent().unwrap().to_str().unwrap();
    [
        ("0750", format!("chgrp {GROUP} '{file}' && chmod 750 '{file}'")),
        ("0750 above", format!("chgrp {GROUP} '{directory}' && chmod 750 '{directory}'")),
        ("list", format!("chmod 755 '{file}' && setfacl -m g:1234:--- '{file}'")),
    ]
}

#[test]
fn copies_are_for_this_user_alone_where_not_everybody_may_read_what_they_are_of() {
    for number in 0..3 {
        let mut story = Story::new(NOBODY, store);
        story.group = GROUP;
        let (how, close) = &closings(&story.command)[number];
        let closed = run(Command::new("sh").args(["-c", close]));
        assert_eq!(closed.code(), 0, "{}", closed.err());
        let plan = story.succeeds(&format!("becalm fix -o app.calm -- {}", story.command));
        assert!(
            plan.replace('\n', " ").contains("Only you can use it: not everyone may read"),
            "{how}: {plan}"
        );
        let applied = story.succeeds(&next(&plan).replace("--apply", "--apply --runs=1"));
        assert!(applied.contains("Only you can use it"), "{how}: {applied}");
        assert_eq!(mode(&story.scene.at("work/app.calm.d")), 0o700, "{how}");
        let copies = fs::read_dir(story.scene.at("work/app.calm.d")).unwrap().flatten();
        for copy in copies {
            assert_eq!(copy.metadata().unwrap().mode() & 0o077, 0, "{how}: {copy:?}");
        }
        assert_eq!(story.succeeds("becalm run app.calm"), story.succeeds(&story.command));
    }
}

#[test]
fn copies_are_for_everybody_where_everybody_may_read_what_they_are_of() {
    let story = Story::new(NOBODY, store);
    let plan = story.succeeds(&format!("umask 077; becalm fix -o app.calm -- {}", story.command));
    assert!(!plan.contains("Only you"), "{plan}");
    let apply = next(&plan).replace("--apply", "--apply --runs=1");
    story.succeeds(&format!("umask 077; {apply}"));
    assert_eq!(mode(&story.scene.at("work/app.calm.d")), 0o755);
    let copies = fs::read_dir(story.scene.at("work/app.calm.d")).unwrap().flatten();
    for copy in copies {
        assert_eq!(copy.metadata().unwrap().mode() & 0o044, 0o044, "{copy:?}");
    }
    // A directory of copies that is there stays as it is, and that is said.
    story.succeeds("chmod 700 app.calm.d");
    let plan = story.succeeds(&format!("becalm fix -o app.calm -- {}", story.command));
    assert!(plan.replace('\n', " ").contains("app.calm.d is closed to others"), "{plan}");
}

/// A program of libraries that need nothing, so that no copy of them is made, at the end of a long
/// list.
fn leaves(scene: &Scene) -> String {
    let make = "set -e; cd \"$1\"; list=; calls=; uses=
        for number in $(seq 60); do mkdir -p empty/$number; list=$list:$PWD/empty/$number; done
        mkdir lib
        for number in $(seq 8); do
            echo \"int leaf$number(void) { return $number; }\" >leaf.c
            gcc -shared -fPIC -nostdlib -Wl,-soname,libleaf$number.so.1 \
                -o lib/libleaf$number.so.1 leaf.c
            calls=\"$calls + leaf$number()\" uses=\"$uses lib/libleaf$number.so.1\"
            echo \"int leaf$number(void);\" >>main.h
        done
        printf '#include <stdio.h>\n#include \"main.h\"\nint main(void) {
            printf(\"%%d\\\\n\", 0%s); }\n' \"$calls\" >main.c
        gcc -o program main.c $uses -Wl,--disable-new-dtags,-rpath,\"${list#:}:$PWD/lib\"";
    let made = run(Command::new("bash").args(["-c", make, "-", &scene.subdirectory("leaves")]));
    assert_eq!(made.code(), 0, "{}", made.err());
    scene.at("leaves/program")
}

#[test]
fn a_library_that_copies_name_and_that_is_not_copied_is_relied_on() {
    let story = Story::new(NOBODY, leaves);
    story.succeeds(&format!("becalm fix --apply --runs=1 -o l.calm -- {}", story.command));
    assert_eq!(story.succeeds("becalm run l.calm"), "36\n");
    story.succeeds("becalm calm check l.calm");
    // In the place of one that is there, the command sees the copy.
    story.succeeds("becalm run l.calm -- becalm run l.calm");
    let library = story.scene.at("leaves/lib/libleaf3.so.1");
    let away = format!("{library}.away");
    fs::rename(&library, &away).unwrap();
    let refused = |why: &str| {
        let checked = story.types("becalm calm check l.calm");
        assert_eq!(checked.code(), 1, "{}", checked.out());
        let ran = story.types("becalm run l.calm");
        assert_eq!(ran.code(), 125, "{}{}", ran.out(), ran.err());
        assert!(ran.err().contains(&format!("libleaf3.so.1 {why}")), "{}", ran.err());
    };
    refused("is gone");
    fs::write(&library, "no library").unwrap();
    refused("has changed");
    fs::rename(&away, &library).unwrap();
    story.succeeds("becalm calm check l.calm");
}
