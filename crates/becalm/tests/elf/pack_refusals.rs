//! Where a pack might not be what the loader would do, the program itself is started. Each reason is
//! brought about.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use testkit::user::is_root;
use testkit::{Ran, Scene, copy_program, run};

use crate::BECALM;
use crate::packed::{FORMS, Packed, REPORT, all, assert_same, clean, compile};

/// A program that needs one library, which says what it says.
pub fn small(scene: Scene, options: &[&str]) -> Packed {
    library(&scene, "first");
    let source = scene.file(
        "main.c",
        "#include <stdio.h>\nconst char *says(void);\nint main(int c, char **v) \
        { printf(\"%s %d\\n\", says(), c); return 9; }",
        0o644,
    );
    let (empty, lib) = (scene.subdirectory("empty"), scene.at("lib"));
    // Several lookups fail in the directory before.
    let rpath = format!("-Wl,-rpath,{empty}:{lib}");
    let program = compile(&scene, "gcc", &[&source, &format!("-L{lib}"), "-lsays", &rpath], "main");
    Packed::with(scene, &program, options)
}

/// Its library, written anew.
fn library(scene: &Scene, says: &str) {
    library_in(scene, "lib", says);
}

fn library_in(scene: &Scene, directory: &str, says: &str) {
    fs::create_dir_all(scene.at(directory)).unwrap();
    let text = format!("const char *says(void) {{ return \"{says}\"; }}");
    let source = scene.file("says.c", text, 0o644);
    compile(
        scene,
        "gcc",
        &["-shared", "-fPIC", "-Wl,-soname,libsays.so", &source],
        &format!("{directory}/libsays.so"),
    );
}

/// Asserts that the pack is not used, by its own code, for a reason that has this text, where these
/// words are before the program's; and that the program then says and does what it does without.
#[track_caller]
fn assert_falls_back(packed: &Packed, before: &[&str], text: &str) {
    let plain = run(&mut led_by(before, &packed.program));
    for (form, start) in
        [("alone", led_by(before, &packed.pack)), ("mounted", mounted(packed, before))]
    {
        let mut start = start;
        assert_same(&plain, &run(&mut start), form);
        assert_refused(&plain, &run(start.env(REPORT, "1")), text, form);
    }
}

fn led_by(before: &[&str], program: &str) -> Command {
    let words = [before, &[program, "x"]].concat();
    clean(Command::new(words[0]), &words[1..])
}

#[track_caller]
fn assert_refused(plain: &Ran, ran: &Ran, text: &str, form: &str) {
    assert_eq!(ran.out(), plain.out(), "{form}: {}", ran.err());
    assert_eq!(ran.status, plain.status, "{form}: {}", ran.err());
    assert!(ran.err().contains("started without its pack: "), "{form}: {}", ran.err());
    assert!(ran.err().contains(text), "{form}: no {text:?} in {}", ran.err());
}

/// The mounted form, without what becalm itself finds out before: its mount, by other means.
fn mounted(packed: &Packed, before: &[&str]) -> Command {
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec setarch -R \"$@\"";
    let copy = packed.made["copy"].as_str().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", copy, &packed.program]).args(before);
    clean(command, &[&packed.program, "x"])
}

#[test]
fn variables_that_the_loader_or_malloc_obeys_start_the_program() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::new(), &[]);
    for (name, value) in [
        ("LD_LIBRARY_PATH", "/nonexistent"),
        ("LD_PRELOAD", "libm.so.6"),
        ("LD_AUDIT", "/nonexistent"),
        ("LD_BIND_NOW", "1"),
        ("LD_DEBUG_OUTPUT", "/nonexistent"),
        ("MALLOC_ARENA_MAX", "1"),
        ("MALLOC_PERTURB_", "7"),
        ("GLIBC_TUNABLES", "glibc.malloc.perturb=3"),
    ] {
        let set = format!("{name}={value}");
        assert_falls_back(&packed, &["env", &set], "the environment has a variable");
        let told = run(packed.packed(FORMS[0], &["x"]).env(name, value));
        assert!(told.err().contains(&format!("{name} is set")), "{}", told.err());
        assert_eq!((told.out().as_str(), told.code()), ("first 2\n", 9));
    }
    // None of these.
    let near = ["env", "LDX=1", "MALLOC=1", "OLD_LD_X=1", "GLIBC=1"];
    for mut start in [led_by(&near, &packed.pack), mounted(&packed, &near)] {
        let ran = run(start.env(REPORT, "1"));
        assert_eq!((ran.err().as_str(), ran.code()), ("", 9));
    }
}

#[test]
fn another_limit_of_the_stack_starts_the_program() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::new(), &[]);
    let before = ["prlimit", "--stack=4194304:", "--"];
    assert_falls_back(&packed, &before, "the limit of the stack");
    let words =
        [&before[1..], &[BECALM, "run", "--pack", &packed.pack, "--", &packed.program, "x"]];
    let told = run(&mut clean(Command::new(before[0]), &words.concat()));
    assert!(told.err().contains("limit of the stack") && told.code() == 9, "{}", told.err());
}

#[test]
fn with_little_room_for_memory_the_program_starts_as_always() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::new(), &[]);
    let run_under = |limit: &str| {
        let words =
            [limit, "--", BECALM, "run", "--pack", &packed.pack, "--", &packed.program, "x"];
        run(&mut clean(Command::new("prlimit"), &words))
    };
    let little = run_under("--as=200000000");
    assert!(little.err().contains("memory is limited (ulimit -v)"), "{}", little.err());
    assert_eq!((little.out().as_str(), little.code()), ("first 2\n", 9));
    let much = run_under("--as=100000000000");
    assert_eq!((much.err().as_str(), much.code()), ("", 9));
}

#[test]
fn a_changed_library_starts_the_program_with_the_new_one() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::new(), &[]);
    let lib = packed.scene.at("lib/libsays.so");
    assert_eq!(run(&mut packed.alone(&["x"])).out(), "first 2\n");
    // As an update does it, by a rename; the same size and time.
    let about = fs::metadata(&lib).unwrap();
    library_in(&packed.scene, "new", "other");
    let new = packed.scene.at("new/libsays.so");
    let time = fs::FileTimes::new().set_modified(about.modified().unwrap());
    fs::File::options().write(true).open(&new).unwrap().set_times(time).unwrap();
    fs::rename(new, &lib).unwrap();
    // Its directory is looked at first.
    assert_falls_back(&packed, &[], &packed.scene.at("lib"));
    assert_eq!(run(&mut packed.alone(&["x"])).out(), "other 2\n");
}

#[test]
fn a_library_written_in_place_or_only_touched_starts_the_program() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::new(), &[]);
    let lib = packed.scene.at("lib/libsays.so");
    let before = fs::metadata(&lib).unwrap().modified().unwrap();
    let file = fs::File::options().append(true).open(&lib).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(before)).unwrap();
    // Its time is what it was; when that was set is not.
    assert_falls_back(&packed, &[], &lib);
}

#[test]
fn a_library_that_is_found_earlier_now_starts_the_program_with_it() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::new(), &[]);
    library_in(&packed.scene, "empty", "earlier");
    assert_falls_back(&packed, &[], "empty");
    assert_eq!(run(&mut packed.alone(&["x"])).out(), "earlier 2\n");
}

#[test]
fn a_changed_program_is_started_itself() {
    let packed = small(Scene::new(), &[]);
    let new = packed.scene.at("new");
    copy_program(&packed.program, &new);
    fs::rename(new, &packed.program).unwrap();
    let plain = run(&mut packed.plain(&["x"]));
    assert_refused(&plain, &run(packed.alone(&["x"]).env(REPORT, "1")), &packed.program, "alone");
    let told = run(&mut packed.packed(FORMS[0], &["x"]));
    assert!(told.err().contains("the program has changed"), "{}", told.err());
    assert_eq!((told.out(), told.code()), (plain.out(), 9));
}

#[test]
fn what_was_declared_immutable_is_not_looked_at_again() {
    let scene = Scene::new();
    let directory = scene.directory();
    let packed = small(scene, &["--immutable", directory.to_str().unwrap()]);
    assert_eq!(run(packed.alone(&["x"]).env(REPORT, "1")).out(), "first 2\n");
    let time = fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
    // The library that stands for its mount is looked at; a directory and the other paths are not.
    fs::File::open(packed.scene.at("empty")).unwrap().set_times(time).unwrap();
    let ran = run(packed.alone(&["x"]).env(REPORT, "1"));
    assert_eq!((ran.out().as_str(), ran.err().as_str()), ("first 2\n", ""));
}

#[test]
fn a_link_into_what_is_immutable_is_looked_at() {
    let scene = Scene::new();
    let (store, other) = (scene.subdirectory("store"), scene.subdirectory("other"));
    let packed = small(scene, &["--immutable", &store, "--immutable", &other]);
    let lib = packed.scene.at("lib/libsays.so");
    // As a profile of Nix's: a link into a store.
    fs::rename(&lib, packed.scene.at("store/libsays.so")).unwrap();
    std::os::unix::fs::symlink(packed.scene.at("store/libsays.so"), &lib).unwrap();
    let packed = Packed::with(packed.scene, &packed.program, &["--immutable", &store]);
    assert_eq!(run(packed.alone(&["x"]).env(REPORT, "1")).err(), "");
    library_in(&packed.scene, "other", "other");
    fs::remove_file(&lib).unwrap();
    std::os::unix::fs::symlink(packed.scene.at("other/libsays.so"), &lib).unwrap();
    assert_eq!(run(&mut packed.alone(&["x"])).out(), "other 2\n");
}

#[test]
fn another_loader_starts_the_program() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let loader = scene.at("ld.so");
    copy_program("/lib64/ld-linux-x86-64.so.2", &loader);
    let source = scene.file("x.c", "int main(int c, char **v) { return 9; }", 0o644);
    let program =
        compile(&scene, "gcc", &[&source, &format!("-Wl,--dynamic-linker={loader}")], "x");
    let packed = Packed::of(scene, &program);
    assert_eq!(run(packed.alone(&["x"]).env(REPORT, "1")).err(), "");
    let new = packed.scene.at("new");
    copy_program(&loader, &new);
    fs::rename(new, &loader).unwrap();
    assert_falls_back(&packed, &[], &loader);
}

#[test]
fn a_start_with_privileges_of_its_own_is_the_programs() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::for_everyone(), &[]);
    assert_falls_back(&packed, &["setpriv", "--ruid=65534", "--"], "AT_SECURE");
}

#[test]
fn another_kernel_starts_the_program() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::new(), &[]);
    assert_falls_back(&packed, &["setarch", "-R", "--uname-2.6"], "the kernel is another one");
}

/// A pack made on a machine that differs in one thing: what it has noted of it is changed.
#[track_caller]
fn assert_refused_elsewhere(packed: &Packed, find: impl Fn(&[u8]) -> usize, text: &str) {
    let good = fs::read(&packed.pack).unwrap();
    let mut other = good.clone();
    other[find(&good)] ^= 0x40;
    let own = packed.scene.at("elsewhere");
    testkit::write_program(&own, &other);
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let plain = run(&mut packed.plain(&["x"]));
    let ran = run(clean(Command::new(&own), &["x"]).env(REPORT, "1"));
    assert_refused(&plain, &ran, text, "elsewhere");
    // becalm itself finds it damaged.
    testkit::write_program(&packed.pack, &other);
    let told = run(&mut packed.packed(FORMS[0], &["x"]));
    assert!(told.err().contains("is damaged"), "{}", told.err());
    assert_eq!((told.out(), told.code()), (plain.out(), 9));
    testkit::write_program(&packed.pack, &good);
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|bytes| bytes == part).unwrap()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_pack_of_another_processor_or_kernel_starts_the_program() {
    let packed = small(Scene::new(), &[]);
    // AT_HWCAP, AT_HWCAP2 and AT_MINSIGSTKSZ are compared.
    for key in [16, 26, 51] {
        assert_refused_elsewhere(
            &packed,
            |pack| find(pack, &words(&[key, 1])) + 16,
            "another machine",
        );
    }
    // cpuid: leaf 1's features, leaf 7's, and the size of the state that xsave saves.
    let leaf = |leaf: u64| move |pack: &[u8]| find(pack, &words(&[leaf, u64::MAX])) + 32;
    assert_refused_elsewhere(&packed, leaf(7), "processor");
    assert_refused_elsewhere(&packed, |pack| leaf(0xd)(pack) - 4, "processor");
    let first = |pack: &[u8]| find(pack, &words(&[1, 0x00ff_ffff_ffff_ffff])) + 32;
    assert_refused_elsewhere(&packed, first, "processor");
    // The vdso's build id, in its first page.
    let build_id = |pack: &[u8]| find(pack, b"\x03\0\0\0GNU\0") + 8;
    assert_refused_elsewhere(&packed, build_id, "vdso");
    let version = fs::read_to_string("/proc/sys/kernel/version").unwrap();
    assert_refused_elsewhere(&packed, |pack| find(pack, version.trim().as_bytes()), "kernel");
}

#[test]
fn a_pack_that_others_own_or_may_write_is_not_used() {
    if !is_root() {
        return;
    }
    let packed = small(Scene::new(), &[]);
    let copy = packed.made["copy"].as_str().unwrap();
    let plain = run(&mut packed.plain(&["x"]));
    let refused = |text: &str| {
        let told = run(&mut packed.packed(FORMS[0], &["x"]));
        assert!(told.err().contains(text), "{}", told.err());
        assert!(told.err().contains("starts as always"), "{}", told.err());
        assert_eq!((told.out(), told.code()), (plain.out(), plain.code()));
    };
    for file in [&packed.pack, copy] {
        let mode = |mode| fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        for wrong in [0o757, 0o775, 0o4755] {
            mode(wrong);
            refused("its mode is");
        }
        mode(0o755);
        chown(file, Some(65534), None).unwrap();
        refused("belongs to user 65534");
        chown(file, Some(0), None).unwrap();
    }
    packed.assert_same(&["x"]);
    let moved = packed.scene.at("moved");
    fs::rename(&packed.pack, &moved).unwrap();
    let mut command = Command::new(BECALM);
    command.args(["run", "--pack", &moved, "--", &packed.program, "x"]);
    let told = run(&mut clean(command, &[]));
    assert!(
        told.err().contains("make it again where it lies now") && told.code() == 9,
        "{}",
        told.err()
    );
}

#[test]
fn a_pack_that_is_lost_or_cut_short_is_said_and_the_program_starts_as_always() {
    let packed = small(Scene::new(), &[]);
    let cut = packed.scene.at("cut.pack");
    let whole = fs::read(&packed.pack).unwrap();
    for length in [0, 7, whole.len() / 2, whole.len() - 1] {
        fs::write(&cut, &whole[..length]).unwrap();
        for pack in [cut.as_str(), "/etc/passwd", "/dev/null", "/tmp", "/nonexistent"] {
            let mut run_pack = Command::new(BECALM);
            run_pack.args(["run", "--pack", pack, "--", &packed.program, "x"]);
            let told = run(&mut clean(run_pack, &[]));
            assert_eq!(told.code(), 9, "{pack}: {}", told.err());
            assert_eq!(told.out(), run(&mut packed.plain(&["x"])).out(), "{pack}");
            assert_eq!(
                told.err().matches("; the program starts as always").count(),
                1,
                "{}",
                told.err()
            );
        }
    }
}

#[test]
fn a_pack_of_another_program_is_an_error_and_nothing_runs() {
    let packed = small(Scene::new(), &[]);
    for (pack, command, status, text) in [
        (&packed.pack, "/bin/echo", 125, "is a pack of"),
        (&packed.pack, "no-such-command", 127, "not found"),
    ] {
        let mut run_pack = Command::new(BECALM);
        run_pack.args(["run", "--pack", pack, "--", command, "x"]);
        let told = run(&mut clean(run_pack, &[]));
        assert_eq!((told.code(), told.out().as_str()), (status, ""), "{}", told.err());
        assert!(told.err().contains(text) && told.err().lines().count() == 1, "{}", told.err());
    }
}

/// As the loader's own state would be wrong for it.
#[test]
fn the_whole_program_falls_back_as_well_as_it_starts() {
    if !is_root() {
        return;
    }
    let (packed, given) = all(Scene::new());
    let given: Vec<_> = given.iter().map(String::as_str).collect();
    let plain = run(packed.plain(&given).env("PROBE", "set"));
    fs::File::open(packed.scene.at("lib/libthrower.so"))
        .unwrap()
        .set_times(fs::FileTimes::new().set_modified(std::time::SystemTime::now()))
        .unwrap();
    for form in FORMS {
        let ran = run(packed.packed(form, &given).env("PROBE", "set"));
        assert_eq!((ran.out(), ran.status), (plain.out(), plain.status), "{form}: {}", ran.err());
    }
}
