//! Programs and libraries that `becalm image build` binds while it packs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use testkit::imaged::{As, Imaged};
use testkit::user::scene_for_a_user;

use super::BECALM;

/// A store as Spack lays one out, built by this compiler, and packed with these options.
struct Store {
    imaged: Imaged,
    program: String,
    answer: Value,
}

impl Store {
    fn new(compiler: &str, kind: &[&str], words: &[&str]) -> Store {
        let (scene, _) = scene_for_a_user(&[]);
        let at = scene.subdirectory("s");
        let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/make");
        let mut make = Command::new(make);
        make.args(["--libs", "40"]).args(kind).arg(&at).env("CC", compiler);
        let made = make.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let program = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let (directory, image) = (format!("{at}/store"), scene.at("image.sqsh"));
        let answer = built(&[&["-o", &image], words, &[&directory]].concat());
        Store { imaged: Imaged { scene, directory, image }, program, answer }
    }

    /// How many lookups fail at the program's start, on disk or in the image.
    fn failed(&self, in_image: bool) -> usize {
        let traces = self.imaged.scene.subdirectory(if in_image { "image" } else { "disk" });
        fs::set_permissions(&traces, fs::Permissions::from_mode(0o777)).unwrap();
        let trace = format!("{traces}/trace");
        let words = ["strace", "-f", "-qq", "-e", "trace=%file", "-o", &trace, &self.program];
        let mut command = match in_image {
            true => self.imaged.run(As::User, &[], &words),
            false => testkit::user::as_a_user(&words),
        };
        let ran = command.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success() && said.contains("libraries answered"), "{said}{errors}");
        let store = &self.imaged.directory;
        let trace = fs::read_to_string(&trace).unwrap();
        let failed = trace.lines().filter(|line| line.contains("ENOENT"));
        failed.filter(|line| line.contains(&**store)).count()
    }

    fn healed(&self) -> &Value {
        &self.answer["healed"]
    }
}

fn built(words: &[&str]) -> Value {
    let mut becalm = Command::new(BECALM);
    becalm.args(["image", "build", "--json"]).args(words);
    answer(&becalm.env_remove("LD_LIBRARY_PATH").output().unwrap())
}

#[track_caller]
fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    testkit::answer::parse(&output.stdout)
}

/// The bytes of all files of a tree.
fn contents(at: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut all, mut left) = (Vec::new(), vec![at.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => left.push(entry.path()),
                false => all.push((entry.path(), fs::read(entry.path()).unwrap_or_default())),
            }
        }
    }
    all.sort();
    all
}

fn readelf(file: &Path) -> String {
    let read = Command::new("readelf").arg("-dW").arg(file).output().unwrap();
    String::from_utf8(read.stdout).unwrap()
}

#[test]
fn a_program_whose_libraries_are_searched_over_rpaths_starts_from_an_image_without_a_failed_lookup()
{
    for kind in [&[][..], &["--runpath"]] {
        let store = Store::new("gcc", kind, &[]);
        let before = store.failed(false);
        // Half as many on Arm, for which glibc has no levels (glibc-hwcaps).
        assert!(before > 400, "{before}");
        assert_eq!(store.failed(true), 0, "{kind:?}");
        let search = &store.healed()["library_search"];
        assert_eq!(search["failed_before"], before, "what is said is what the loader did");
        assert_eq!(search["failed_after"], 0);
        assert!(store.healed()["libraries"].as_array().unwrap().len() > 10);
        store.imaged.all_gone();
    }
}

#[test]
fn the_sources_stay_as_they_are_and_as_is_so_does_the_image() {
    let store = Store::new("gcc", &[], &["--as-is"]);
    assert_eq!(*store.healed(), Value::Null);
    let before = contents(Path::new(&store.imaged.directory));
    assert_eq!(store.failed(true), store.failed(false));
    let image = store.imaged.scene.at("healed.sqsh");
    let answer = built(&["-o", &image, &store.imaged.directory]);
    assert!(!answer["healed"]["libraries"].as_array().unwrap().is_empty());
    assert_eq!(contents(Path::new(&store.imaged.directory)), before);
    let again = fs::read(&image).unwrap();
    built(&["--readers", "1", "-o", &image, &store.imaged.directory]);
    assert!(fs::read(&image).unwrap() == again, "the same tree gives the same bytes");
}

#[test]
fn musls_loader_searches_less_too() {
    let store = Store::new("musl-gcc", &[], &[]);
    let (before, now) = (store.failed(false), store.failed(true));
    assert!(before > 100 && now * 2 < before, "{before} {now}");
    assert_eq!(store.healed()["library_search"]["failed_after"], now);
}

#[test]
fn an_edited_source_of_a_bound_library_is_noticed_and_a_mere_chmod_is_none() {
    let store = Store::new("gcc", &[], &[]);
    let bound = store.healed()["libraries"][0]["path"].as_str().unwrap().to_owned();
    let mode = fs::metadata(&bound).unwrap().permissions().mode();
    for mode in [mode ^ 0o020, mode] {
        fs::set_permissions(&bound, fs::Permissions::from_mode(mode)).unwrap();
    }
    for check in ["quick", "full"] {
        let said = store.imaged.said(As::User, &["--check", check], &store.program);
        assert!(said.contains("libraries answered"), "{check}: {said}");
    }
    // With the same size and time: only the content tells.
    let (mut bytes, when) = (fs::read(&bound).unwrap(), fs::metadata(&bound).unwrap());
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&bound, bytes).unwrap();
    let file = fs::File::options().write(true).open(&bound).unwrap();
    file.set_modified(when.modified().unwrap()).unwrap();
    for check in ["quick", "full"] {
        let why = store.imaged.refused(As::User, &["--check", check]);
        assert!(why.contains("has changed, and keeps its time"), "{check}: {why}");
    }
}

/// `bin/app` needs four libraries, each in a directory of its own, by this list; `more` is done before
/// all is packed.
fn four(list: &str, more: impl FnOnce(&Path)) -> (tempfile::TempDir, Value) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap().join("env");
    let gcc = |words: &[&str]| {
        let done = Command::new("gcc").args(words).current_dir(&root).status().unwrap();
        assert!(done.success(), "{words:?}");
    };
    fs::create_dir_all(root.join("bin")).unwrap();
    let mut link: Vec<String> = vec!["main.c".into(), "-o".into(), "bin/app".into()];
    for name in ["w", "x", "y", "z"] {
        fs::create_dir_all(root.join(name)).unwrap();
        fs::write(root.join("lib.c"), format!("int {name}(void) {{ return 1; }}")).unwrap();
        let (out, soname) = (format!("{name}/lib{name}.so"), format!("-Wl,-soname,lib{name}.so"));
        gcc(&["-shared", "-fPIC", "lib.c", "-o", &out, &soname]);
        link.push(out);
    }
    let main = "int w(), x(), y(), z(); int main() { return w() + x() + y() + z() - 4; }";
    fs::write(root.join("main.c"), main).unwrap();
    link.push(format!("-Wl,-rpath,{}", list.replace("ROOT", root.to_str().unwrap())));
    gcc(&link.iter().map(String::as_str).collect::<Vec<_>>());
    more(&root);
    let image = directory.path().join("i.sqsh");
    let answer = built(&["-o", image.to_str().unwrap(), root.to_str().unwrap()]);
    (directory, answer)
}

fn extracted(directory: &Path) -> PathBuf {
    let mut becalm = Command::new(BECALM);
    becalm.args(["image", "extract", "i.sqsh", "out"]).current_dir(directory);
    assert!(becalm.output().unwrap().status.success());
    directory.join("out/bin/app")
}

#[test]
fn what_is_found_through_origin_is_named_by_origin_and_moves_with_the_image() {
    let list = "$ORIGIN/../w:$ORIGIN/../x:$ORIGIN/../y:$ORIGIN/../z";
    let (directory, answer) = four(list, |_| ());
    assert_eq!(answer["healed"]["libraries"][0]["names"], 4, "{answer}");
    let app = extracted(directory.path());
    let said = readelf(&app);
    assert!(said.contains("[$ORIGIN/../z/libz.so]"), "{said}");
    let outside = answer["outside"].as_array().unwrap();
    let by_origin = |it: &&Value| it["what"].to_string().contains("ORIGIN");
    assert_eq!(outside.iter().find(by_origin), None, "what is named by $ORIGIN is in the image");
    // Elsewhere, and where it was made of is gone.
    fs::rename(directory.path().join("env"), directory.path().join("gone")).unwrap();
    assert!(Command::new(app).status().unwrap().success());
}

#[test]
fn a_library_is_not_bound_where_another_may_lie_before_it_tomorrow_outside_the_image() {
    let bound = |list: &str| {
        let (_directory, answer) = four(list, |_| ());
        answer["healed"]["libraries"].as_array().unwrap().len()
    };
    assert_eq!(bound("ROOT/w:ROOT/x:ROOT/y:ROOT/z"), 1);
    assert_eq!(bound("/nowhere/lib:ROOT/w:ROOT/x:ROOT/y:ROOT/z"), 0);
}

#[test]
fn what_the_rules_of_elf_bind_refuse_is_packed_as_it_is_and_said() {
    let list = "ROOT/w:ROOT/x:ROOT/y:ROOT/z";
    let (directory, answer) = four(list, |root| {
        fs::set_permissions(root.join("bin/app"), fs::Permissions::from_mode(0o4755)).unwrap();
    });
    let left = answer["healed"]["as_it_was"].as_array().unwrap();
    assert!(left[0]["path"].as_str().unwrap().ends_with("bin/app"), "{left:?}");
    assert!(left[0]["why"].as_str().unwrap().contains("setuid"), "{left:?}");
    let packed = fs::read(extracted(directory.path())).unwrap();
    assert!(packed == fs::read(directory.path().join("env/bin/app")).unwrap());
}
