//! Sources that are others than were packed, though their sizes and times are the same: releases that
//! were moved back, bytecode that Python takes unasked, directories that were closed.

use std::fs::{self, FileTimes};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use testkit::imaged::{As, Imaged, ways};
use testkit::live::Ran;
use testkit::{Live, run};

use crate::BECALM;
use crate::image_fresh::code;

const OLDER: &str = "is older than what it was made of";

/// A release as an archive with one time for all gives it.
fn release(directory: &Path, version: &str) {
    fs::create_dir_all(directory.join("pk/deep")).unwrap();
    for module in ["pk/__init__.py", "pk/deep/m.py", "pk/deep/other.py"] {
        fs::write(directory.join(module), code(version, "", module)).unwrap();
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for path in ["pk/__init__.py", "pk/deep/m.py", "pk/deep/other.py", "pk/deep", "pk", "."] {
        let file = fs::File::open(directory.join(path)).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
}

/// Another version of a module, whose time is kept.
fn write_in_place(module: &str, version: &str) {
    let kept = fs::metadata(module).unwrap().modified().unwrap();
    let (_, name) = module.split_once("/pk/").unwrap();
    fs::write(module, code(version, "", &format!("pk/{name}"))).unwrap();
    fs::File::open(module).unwrap().set_modified(kept).unwrap();
}

struct Releases {
    image: Imaged,
}

impl Releases {
    /// An image of the second release, while the first lies beside it.
    fn new(traced: bool) -> Releases {
        Releases::whose_first(traced, "one")
    }

    /// The same, where the first release has another version of the module that the trace opens.
    fn whose_first(traced: bool, version: &str) -> Releases {
        let (scene, _) = testkit::user::scene_for_a_user(&[]);
        let above = scene.subdirectory("apps");
        let [first, directory] = ["first", "env"].map(|name| format!("{above}/{name}"));
        release(Path::new(&first), "one");
        write_in_place(&format!("{first}/pk/deep/m.py"), version);
        release(Path::new(&directory), "two");
        let image = scene.at("image.sqsh");
        let mut build = Command::new(BECALM);
        // So small that what the trace did not open shares no block with what it did.
        build.args(["image", "build", "--block-size", "4K", "-o", &image, &directory]);
        if traced {
            build.args(["--", "python3", "-B", "-c", "import pk.deep.m"]);
        }
        assert_eq!(run(build.env("PYTHONPATH", &directory)).code(), 0);
        Releases { image: Imaged { scene, directory, image } }
    }

    fn apps(&self, name: &str) -> String {
        self.image.scene.at(&format!("apps/{name}"))
    }

    /// A directory of the first release comes to where it was in the second.
    fn move_below(&self) {
        let kept = fs::metadata(self.apps("env/pk")).unwrap().modified().unwrap();
        fs::rename(self.apps("env/pk/deep"), self.apps("deep")).unwrap();
        fs::rename(self.apps("first/pk/deep"), self.apps("env/pk/deep")).unwrap();
        fs::File::open(self.apps("env/pk")).unwrap().set_modified(kept).unwrap();
    }

    #[track_caller]
    fn is_not_old(&self, who: As) {
        let ran = self.ran(who, &[]);
        assert!(ran.out() == "two one\n" || ran.err().contains(OLDER), "{who:?} {}", ran.out());
    }

    fn ran(&self, who: As, options: &[&str]) -> Ran {
        let script = "import pk.deep.m as m, pk.deep.other as o; print(m.V, o.V)";
        let mut command = self.image.run(who, options, &["python3", "-B", "-c", script]);
        run(command.env("PYTHONPATH", &self.image.directory).current_dir("/"))
    }

    #[track_caller]
    fn is_refused(&self, what: &str) {
        for who in ways() {
            for options in [&[][..], &["--check", "full"]] {
                let ran = self.ran(who, options);
                assert!(ran.err().contains(OLDER), "{what} {who:?}: {} {}", ran.out(), ran.err());
            }
        }
        assert_eq!(self.ran(As::User, &["--live"]).out(), "one one\n", "{what}");
    }
}

#[test]
fn a_release_of_before_that_was_moved_back_is_not_taken_for_the_one_that_was_packed() {
    for traced in [true, false] {
        let releases = Releases::new(traced);
        fs::rename(releases.apps("env"), releases.apps("second")).unwrap();
        fs::rename(releases.apps("first"), releases.apps("env")).unwrap();
        releases.is_refused("the packed directory");
    }
}

#[test]
fn nor_is_one_that_was_moved_back_with_the_directory_above_it_or_below() {
    let releases = Releases::new(true);
    let at = |name: &str| releases.image.scene.at(name);
    fs::create_dir(at("old")).unwrap();
    fs::rename(releases.apps("first"), at("old/env")).unwrap();
    fs::rename(at("apps"), at("new")).unwrap();
    fs::rename(at("old"), at("apps")).unwrap();
    releases.is_refused("the directory above");

    let releases = Releases::new(true);
    releases.move_below();
    releases.is_refused("a directory below");
}

/// In the directory that is moved back, only a file is another that the trace did not open; it is as old
/// as what was packed.
#[test]
fn nor_is_what_no_trace_knew_in_a_directory_that_was_moved_back() {
    for who in ways() {
        let releases = Releases::whose_first(true, "two");
        releases.move_below();
        releases.is_not_old(who);

        let releases = Releases::whose_first(true, "two");
        let script = "import pk.deep.m; print('ready', flush=True); input()";
        let first = releases.image.run(who, &[], &["python3", "-B", "-c", script]);
        let mut before = Command::new(first.get_program());
        before.args(first.get_args()).env("PYTHONPATH", &releases.image.directory);
        let mut before = Live::start(before.current_dir("/"));
        before.wait_for("ready");
        releases.move_below();
        releases.is_not_old(who);
        drop(before.end());
        releases.image.all_gone();
    }
}

#[test]
fn a_copy_with_the_same_content_is_as_good_as_what_was_packed() {
    let releases = Releases::new(true);
    let copied =
        run(Command::new("cp").args(["-a", &releases.apps("env"), &releases.apps("copy")]));
    assert_eq!(copied.code(), 0);
    fs::rename(releases.apps("env"), releases.apps("second")).unwrap();
    fs::rename(releases.apps("copy"), releases.apps("env")).unwrap();
    for who in ways() {
        let ran = releases.ran(who, &[]);
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("two two\n", ""), "{who:?}");
    }
    // One byte of it, and the file's time kept.
    write_in_place(&releases.apps("env/pk/deep/other.py"), "one");
    assert!(releases.ran(As::User, &[]).err().contains(OLDER));
}

/// Compiles a module so that Python never looks at its source again, to where Python looks for it or
/// elsewhere.
fn compile_unchecked(module: &str, to: Option<&str>) {
    compile("UNCHECKED_HASH", module, to);
}

fn compile(mode: &str, module: &str, to: Option<&str>) {
    let script = "import py_compile as p, sys; p.compile(sys.argv[2], *sys.argv[3:], \
                  invalidation_mode=p.PycInvalidationMode[sys.argv[1]])";
    let words = ["-c", script, mode, module].into_iter().chain(to);
    assert_eq!(run(Command::new("python3").args(words)).code(), 0);
}

/// Modules of which Python has such bytecode when they are packed.
fn compiled(mode: &str, module: &str, traced: bool) -> Releases {
    let releases = Releases::new(traced);
    compile(mode, &releases.apps(module), None);
    let mut build = Command::new(BECALM);
    build.args(["image", "build", "-o", &releases.image.image, &releases.apps("env")]);
    if traced {
        build.args(["--", "python3", "-B", "-c", "import pk.deep.m"]);
    }
    assert_eq!(run(build.env("PYTHONPATH", releases.apps("env"))).code(), 0);
    releases
}

/// Another bytecode for a module, while its source stays; written over in place, or as another file.
fn replace_bytecode(module: &str, in_place: bool) {
    let kept = fs::metadata(module).unwrap().modified().unwrap();
    let source = fs::read(module).unwrap();
    fs::write(module, "V = 'one'\n").unwrap();
    if in_place {
        let elsewhere = tempfile::tempdir().unwrap();
        let aside = elsewhere.path().join("aside");
        let aside = aside.to_str().unwrap();
        compile_unchecked(module, Some(aside));
        let name = Path::new(module).file_stem().unwrap().to_str().unwrap();
        let directory = Path::new(module).with_file_name("__pycache__");
        let is_of = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(name);
        let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        for bytecode in all.filter(|path| is_of(path)) {
            fs::write(bytecode, fs::read(aside).unwrap()).unwrap();
        }
    } else {
        compile_unchecked(module, None);
    }
    fs::write(module, source).unwrap();
    fs::File::open(module).unwrap().set_modified(kept).unwrap();
}

#[test]
fn bytecode_that_python_takes_unasked_is_the_sources() {
    for (compiled_before, in_place) in [(true, true), (true, false), (false, false)] {
        for name in ["m", "other"] {
            let module = format!("env/pk/deep/{name}.py");
            let releases = match compiled_before {
                true => compiled("UNCHECKED_HASH", &module, true),
                false => Releases::new(true),
            };
            replace_bytecode(&releases.apps(&module), in_place);
            let what = format!("{compiled_before} {in_place} {name}");
            is_never_the_images(&releases, &[&[], &["--check", "full"], &["--live"]], &what);
        }
    }
    // Where nothing is left to be looked at later, and nothing but that it has other bytecode.
    let module = "env/pk/deep/other.py";
    for before in ["UNCHECKED_HASH", "TIMESTAMP"] {
        let releases = compiled(before, module, false);
        replace_bytecode(&releases.apps(module), false);
        is_never_the_images(&releases, &[&[], &["--check", "full"], &["--live"]], before);
    }
}

/// Of the bytecode `one`, which is not in the image.
#[track_caller]
fn is_never_the_images(releases: &Releases, all: &[&[&str]], what: &str) {
    let script = "import pk.deep.m as m, pk.deep.other as o; print(m.V, o.V)";
    let mut plain = Command::new("python3");
    plain.args(["-B", "-c", script]).env("PYTHONPATH", releases.apps("env"));
    let plain = run(&mut plain);
    assert!(plain.out().contains("one"), "{}", plain.out());
    for who in ways() {
        for options in all {
            let ran = releases.ran(who, options);
            let is_right = ran.out() == plain.out() || ran.err().contains(OLDER);
            assert!(is_right, "{what} {who:?} {options:?}: {} {}", ran.out(), ran.err());
        }
    }
}

#[test]
fn nor_is_bytecode_of_before_taken_because_a_command_of_before_has_looked_it_up() {
    for in_place in [true, false] {
        for who in ways() {
            let module = "env/pk/deep/other.py";
            let releases = compiled("UNCHECKED_HASH", module, true);
            let script = "import pk.deep.other; print('ready', flush=True); input()";
            let mut first = releases.image.run(who, &[], &["python3", "-B", "-c", script]);
            first.env("PYTHONPATH", &releases.image.directory).current_dir("/");
            let mut first = Live::start(&mut first);
            first.wait_for("ready");
            replace_bytecode(&releases.apps(module), in_place);
            is_never_the_images(&releases, &[&[]], &format!("{who:?} {in_place}"));
            drop(first.end());
            releases.image.all_gone();
        }
    }
}

#[test]
fn what_was_open_to_a_user_and_is_closed_now_is_not_shown_from_the_image() {
    let releases = Releases::new(true);
    for (path, mode) in [("env/pk/deep", 0o700), ("env", 0o700), ("env/pk/deep/m.py", 0o600)] {
        let path = releases.apps(path);
        let open = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        for options in [&[][..], &["--check", "full"]] {
            let ran = releases.ran(As::User, options);
            assert!(ran.err().contains("may not be used any more"), "{path}: {}", ran.err());
        }
        fs::set_permissions(&path, open).unwrap();
        assert_eq!(releases.ran(As::User, &[]).out(), "two two\n");
    }
}

#[test]
fn in_a_run_from_the_image_another_says_that_nothing_newer_is_seen() {
    let releases = Releases::new(true);
    let image = &releases.image;
    let again = format!("\"$BECALM\" run --image '{}' -- true", image.image);
    let ran = run(image.sh(As::User, &[], &again).env("BECALM", BECALM));
    assert!(ran.code() == 0 && ran.err().contains("is run from"), "{}", ran.err());
    let unchecked = again.replace("run", "run --check no");
    let ran = run(image.sh(As::User, &[], &unchecked).env("BECALM", BECALM));
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
}
