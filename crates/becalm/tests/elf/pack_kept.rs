//! A pack is what its maker made of files that show when they change, and nobody else's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use testkit::{Scene, run};

use crate::pack_refusals::small;
use crate::packed::{FORMS, REPORT, compile, pack_command};

/// Modes, lists and the directories above decide who may read a library: its pack asks none of them.
#[test]
fn a_pack_and_its_copy_are_their_owners_alone() {
    let packed = small(Scene::new(), &[]);
    for file in [&packed.pack, packed.made["copy"].as_str().unwrap()] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o700);
    }
    small(Scene::new(), &[]).given_to_all().assert_same(&["x"]);
}

/// An image made again of other files can have their numbers, sizes and times: whoever says that it is not
/// packs it anew himself.
#[test]
fn what_lies_in_an_image_is_packed_only_where_it_is_said_not_to_change() {
    let scene = Scene::new();
    let source = scene.file("own.c", "int own(void) { return 0; }", 0o644);
    let (files, image) = (scene.subdirectory("files"), scene.at("image"));
    compile(&scene, "gcc", &["-shared", "-fPIC", &source], "files/libown.so");
    let main = scene.file("main.c", "int own(void);\nint main(void) { return own(); }", 0o644);
    let mounted = scene.subdirectory("mounted");
    let (rpath, link) = (format!("-Wl,-rpath,{mounted}"), format!("-L{files}"));
    let program = compile(&scene, "gcc", &[&main, &link, "-lown", &rpath], "main");
    assert_eq!(run(Command::new("mksquashfs").args([&files, &image, "-quiet"])).code(), 0);
    assert_eq!(run(Command::new("squashfuse").args([&image, &mounted])).code(), 0);
    let pack = scene.at("program.pack");
    let refused = run(&mut pack_command(&program, &pack, &[]));
    let made = run(&mut pack_command(&program, &pack, &["--immutable", &mounted]));
    let gone = "fusermount3 -u \"$0\" || fusermount -u \"$0\" || umount \"$0\"";
    assert_eq!(run(Command::new("sh").args(["-c", gone, &mounted])).code(), 0);
    assert_eq!((refused.code(), made.code()), (1, 0), "{}{}", refused.err(), made.err());
    assert!(refused.err().contains("--immutable"), "{}", refused.err());
}

/// Whoever can rename in it can put another file in the pack's place, before and after each look at it.
#[test]
fn a_pack_in_a_directory_that_others_may_write_is_not_used() {
    let packed = small(Scene::new(), &[]);
    let plain = run(&mut packed.plain(&["x"]));
    let directory = packed.scene.directory();
    for (mode, is_used) in [(0o777, false), (0o770, false), (0o1777, true), (0o755, true)] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        for form in FORMS {
            let ran = run(packed.packed(form, &["x"]).env(REPORT, "1"));
            assert_eq!((ran.out(), ran.status), (plain.out(), plain.status), "{mode:o}");
            assert_eq!(ran.err().is_empty(), is_used, "{mode:o}: {}", ran.err());
            assert!(is_used || ran.err().contains("in the pack's place"), "{}", ran.err());
        }
    }
}

/// Its copy, which names the pack as its interpreter, is executed where it is mounted over the program.
#[test]
fn a_pack_that_cannot_be_executed_is_named_and_the_program_starts_as_always() {
    let packed = small(Scene::new(), &[]);
    let plain = run(&mut packed.plain(&["x"]));
    let set =
        |file: &str, mode| fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    let copy = packed.made["copy"].as_str().unwrap();
    for file in [packed.pack.as_str(), copy] {
        for (mode, is_used) in [(0o644, false), (0o600, false), (0o711, true), (0o744, true)] {
            set(file, mode);
            for form in FORMS {
                let ran = run(packed.packed(form, &["x"]).env(REPORT, "1"));
                assert_eq!((ran.out(), ran.status), (plain.out(), plain.status), "{mode:o}");
                let named = ran
                    .err()
                    .contains(&format!("becalm: {file}: its mode is {mode:04o}, you may not"));
                assert_eq!((ran.err().is_empty(), named), (is_used, !is_used), "{}", ran.err());
            }
        }
        set(file, 0o755);
    }
}

#[test]
fn a_pack_is_not_written_where_its_being_there_is_a_change() {
    let packed = small(Scene::new(), &[]);
    let pack = packed.scene.at("empty/x.pack");
    let ran = run(&mut pack_command(&packed.program, &pack, &[]));
    assert!(ran.code() == 1 && ran.err().contains("-o ELSEWHERE"), "{}", ran.err());
    assert_eq!(fs::read_dir(packed.scene.at("empty")).unwrap().count(), 0);
}

/// A file that is open to be written cannot be executed.
#[test]
fn a_pack_can_be_made_again_while_programs_start_from_it() {
    let packed = small(Scene::new(), &[]);
    let plain = run(&mut packed.plain(&["x"]));
    std::thread::scope(|scope| {
        let again = scope.spawn(|| {
            (0..8).all(|_| run(&mut pack_command(&packed.program, &packed.pack, &[])).code() == 0)
        });
        let mut starts = 0;
        while !again.is_finished() || starts < 20 {
            for form in FORMS {
                let ran = run(&mut packed.packed(form, &["x"]));
                assert_eq!((ran.out(), ran.status), (plain.out(), plain.status), "{}", ran.err());
                starts += 1;
            }
        }
        assert!(again.join().unwrap());
    });
}

#[test]
fn asked_to_end_while_it_writes_nothing_is_left_or_all_is_there() {
    // What is asked while the last byte is written may still find all in its place.
    let moments = [("fsync", 1, 0), ("fsync", 2, 0), ("rename", 1, 2), ("rename", 2, 2)];
    for (call, when, least) in moments {
        let scene = Scene::new();
        let pack = scene.at("program.pack");
        let inject = format!("inject={call}:signal=TERM:when={when}");
        let becalm = pack_command("/usr/bin/true", &pack, &[]);
        let mut strace = Command::new("strace");
        strace.args(["-o", "/dev/null", "-e", "trace=fsync,rename", "-e", &inject]);
        let ended = run(strace.arg(becalm.get_program()).args(becalm.get_args()));
        assert_eq!(ended.status.signal(), Some(15), "{call} {when}: {}", ended.err());
        let files = fs::read_dir(scene.directory()).unwrap().count();
        assert!([least, 2].contains(&files), "{call} {when}: {files} files are left");
    }
}
