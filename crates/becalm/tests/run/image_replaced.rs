//! A LD_LIBRARY_PATH that leads to other libraries than those that an image was bound to: what runs in
//! the image is never another library than without it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use testkit::imaged::{As, Imaged, ways};
use testkit::live::Ran;
use testkit::staged::Staging;
use testkit::user::{as_a_user, scene_for_a_user};
use testkit::{Live, run};

use crate::BECALM;

/// What the program says that loads what it was linked to.
const OWN: &str = "1 1 1 1\n";

/// How an environment is made.
struct Kind<'a> {
    compiler: &'a str,
    /// With a DT_RUNPATH, or a DT_RPATH.
    runpath: bool,
    /// The list; `ROOT` is the environment.
    list: &'a str,
    /// Options of `image build`.
    options: &'a [&'a str],
    /// LD_LIBRARY_PATH where it is built; `HERE` is what it lies in.
    built_with: Option<&'a str>,
}

const RUNPATH: Kind<'static> = Kind {
    compiler: "gcc",
    runpath: true,
    list: "ROOT/w:ROOT/x:ROOT/y:ROOT/z",
    options: &[],
    built_with: None,
};

/// `env/bin/app` needs a library of each of `env/w`, `x`, `y` and `z`, and says what each answers.
struct Replaceable {
    env: Imaged,
}

impl Replaceable {
    fn new(kind: &Kind<'_>) -> Replaceable {
        let (scene, _) = scene_for_a_user(&[]);
        let root = scene.subdirectory("env");
        fs::create_dir(format!("{root}/bin")).unwrap();
        let source = scene.at("main.c");
        let main = "#include <stdio.h>\nint w(void), x(void), y(void), z(void);\n\
                    int main(void) { printf(\"%d %d %d %d\\n\", w(), x(), y(), z()); }\n";
        fs::write(&source, main).unwrap();
        let tags = if kind.runpath { "enable" } else { "disable" };
        let list = kind.list.replace("ROOT", &root);
        let rpath = format!("-Wl,--{tags}-new-dtags,-rpath,{list}");
        let app = format!("{root}/bin/app");
        let mut link = vec![source, "-o".to_owned(), app, rpath];
        for name in ["w", "x", "y", "z"] {
            let at = format!("{root}/{name}");
            link.push(library(kind.compiler, Path::new(&at), name, 1));
        }
        compile(kind.compiler, &link);
        let env = Imaged { directory: root, image: scene.at("image.sqsh"), scene };
        let of = Replaceable { env };
        of.build(kind);
        of
    }

    /// Packs it.
    fn build(&self, kind: &Kind<'_>) {
        let Imaged { image, directory, scene } = &self.env;
        let mut build = Command::new(BECALM);
        let _ = fs::remove_file(image);
        build.args(["image", "build", "-o", image]).args(kind.options).arg(directory);
        build.env_remove("LD_LIBRARY_PATH");
        if let Some(list) = kind.built_with {
            build.env("LD_LIBRARY_PATH", list.replace("HERE", &scene.at("")));
        }
        let built = run(&mut build);
        assert_eq!(built.code(), 0, "{}", built.err());
    }

    /// Another library of that name, which answers this, in a directory of the scene's.
    fn other(&self, name: &str, answer: u32, directory: &str) -> String {
        let at = self.env.scene.at(directory);
        library("gcc", Path::new(&at), name, answer);
        at
    }

    fn app(&self) -> String {
        format!("{}/bin/app", self.env.directory)
    }

    /// What it says without becalm.
    fn plain(&self, list: &str) -> String {
        let mut command = as_a_user(&[self.app()]);
        run(command.env("LD_LIBRARY_PATH", list)).out()
    }

    fn ran(&self, who: As, options: &[&str], list: &str) -> Ran {
        run(self.env.run(who, options, &[&self.app()]).env("LD_LIBRARY_PATH", list))
    }

    /// Another library would be loaded, and the image refuses.
    #[track_caller]
    fn refuses(&self, list: &str, library: &str) {
        assert_ne!(self.plain(list), OWN, "{list}: loads another library");
        for who in ways() {
            for options in [&[][..], &["--check", "full"]] {
                let ran = self.ran(who, options, list);
                assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{who:?} {}", ran.err());
                assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
                let words = ["LD_LIBRARY_PATH", library, "--as-is", "--check no", "build it again"];
                for word in words {
                    assert!(ran.err().contains(word), "{word}: {}", ran.err());
                }
            }
            let passed = self.ran(who, &["--check", "no"], list);
            assert_eq!(passed.out(), OWN, "it is bound: {}", passed.err());
        }
        self.env.all_gone();
    }

    /// It answers what it does without becalm, which is this.
    #[track_caller]
    fn same(&self, list: &str, answer: &str) {
        assert_eq!(self.plain(list), answer, "{list}");
        for who in ways() {
            let ran = self.ran(who, &[], list);
            assert_eq!(ran.out(), answer, "{list} {who:?}: {}", ran.err());
        }
    }

    /// How many names the image says that LD_LIBRARY_PATH could lead elsewhere.
    fn replaceable(&self) -> usize {
        let inspected =
            run(Command::new(BECALM).args(["image", "inspect", "--json", &self.env.image]));
        let told: serde_json::Value = serde_json::from_str(&inspected.out()).unwrap();
        told["squashfs"]["manifest"]["replaceable"].as_array().unwrap().len()
    }
}

fn compile<S: AsRef<std::ffi::OsStr>>(compiler: &str, words: &[S]) {
    let done = run(Command::new(compiler).args(words));
    assert_eq!(done.code(), 0, "{}", done.err());
}

/// `libNAME.so` in a directory, which answers that number.
fn library(compiler: &str, at: &Path, name: &str, answer: u32) -> String {
    fs::create_dir_all(at).unwrap();
    let file = at.join(format!("lib{name}.so"));
    let source = tempfile::Builder::new().suffix(".c").tempfile().unwrap();
    fs::write(&source, format!("int {name}(void) {{ return {answer}; }}\n")).unwrap();
    let (source, file) = (source.path().to_str().unwrap(), file.to_str().unwrap());
    let soname = format!("-Wl,-soname,lib{name}.so");
    compile(compiler, &["-shared", "-fPIC", source, "-o", file, &soname]);
    file.to_owned()
}

#[test]
fn a_library_that_ld_library_path_leads_to_in_place_of_a_bound_one_is_refused_or_loaded() {
    let replaceable = Replaceable::new(&RUNPATH);
    let other = replaceable.other("x", 7, "other");
    replaceable.refuses(&other, &format!("{other}/libx.so"));
    replaceable.refuses(&format!("/nowhere:{other}/"), &format!("{other}/libx.so"));
    // Built again, as the line says.
    replaceable.build(&Kind { built_with: Some("HEREother"), ..RUNPATH });
    replaceable.same(&other, "1 7 1 1\n");
    // And what LD_LIBRARY_PATH led to then is no more bound where it is not set by now.
    replaceable.same("", OWN);
    replaceable.build(&Kind { options: &["--as-is"], ..RUNPATH });
    replaceable.same(&other, "1 7 1 1\n");
}

#[test]
fn a_list_that_leads_to_the_bound_libraries_themselves_or_to_none_is_no_reason_to_refuse() {
    let replaceable = Replaceable::new(&RUNPATH);
    let root = &replaceable.env.directory;
    let other = replaceable.other("x", 7, "other");
    let unneeded = replaceable.other("unneeded", 7, "unneeded");
    let view = replaceable.env.scene.subdirectory("view");
    for name in ["w", "x"] {
        symlink(format!("{root}/{name}/lib{name}.so"), format!("{view}/lib{name}.so")).unwrap();
    }
    let foreign = replaceable.other("x", 7, "foreign");
    // For addresses of 32 bits, which the loader passes over.
    let mut bytes = fs::read(format!("{foreign}/libx.so")).unwrap();
    bytes[4] = 1;
    fs::write(format!("{foreign}/libx.so"), bytes).unwrap();
    for list in [
        format!("{root}/x"),
        format!("{root}/z:{root}/x/"),
        format!("{root}/x:{other}"),
        view,
        unneeded,
        foreign,
        "/nowhere:/etc/passwd".to_owned(),
    ] {
        replaceable.same(&list, OWN);
    }
}

#[test]
fn what_the_loader_searches_before_ld_library_path_is_not_asked_for() {
    let replaceable = Replaceable::new(&Kind { runpath: false, ..RUNPATH });
    assert_eq!(replaceable.replaceable(), 0);
    let other = replaceable.other("x", 7, "other");
    replaceable.same(&other, OWN);
}

#[test]
fn musls_loader_searches_ld_library_path_before_any_list() {
    for runpath in [true, false] {
        let kind = Kind { compiler: "musl-gcc", runpath, ..RUNPATH };
        let replaceable = Replaceable::new(&kind);
        let other = replaceable.env.scene.at("other");
        library("musl-gcc", Path::new(&other), "x", 7);
        replaceable.refuses(&other, &format!("{other}/libx.so"));
    }
}

#[test]
fn what_comes_into_a_directory_after_the_image_was_built_is_seen() {
    let here = Kind { built_with: Some("HERElater"), ..RUNPATH };
    let replaceable = Replaceable::new(&here);
    let later = replaceable.env.scene.subdirectory("later");
    replaceable.same(&later, OWN);
    replaceable.other("z", 9, "later");
    replaceable.refuses(&later, &format!("{later}/libz.so"));
}

#[test]
fn a_directory_of_the_image_counts_as_one_though_its_source_is_gone() {
    let replaceable = Replaceable::new(&RUNPATH);
    let root = replaceable.env.directory.clone();
    replaceable.other("x", 7, "env/other");
    replaceable.build(&RUNPATH);
    let other = format!("{root}/other");
    replaceable.refuses(&other, &format!("{other}/libx.so"));
    fs::rename(&root, format!("{root}.gone")).unwrap();
    for who in ways() {
        assert_eq!(replaceable.ran(who, &[], "").out(), OWN);
        let ran = replaceable.ran(who, &[], &other);
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{who:?} {}", ran.err());
        assert!(ran.err().contains("LD_LIBRARY_PATH"), "{}", ran.err());
    }
}

#[test]
fn variants_for_hardware_count_and_a_directory_that_depends_on_the_program_is_refused() {
    let replaceable = Replaceable::new(&RUNPATH);
    // Which of them its loader takes is another glibc's matter, on another processor: all count.
    let levels = [("levels", "glibc-hwcaps/x86-64-v2"), ("old", "tls/aarch64/cpuid")];
    let levels = levels.map(|(list, level)| {
        let library = replaceable.other("x", 7, &format!("{list}/{level}"));
        (replaceable.env.scene.at(list), format!("{library}/libx.so"))
    });
    for who in ways() {
        for (list, library) in &levels {
            let ran = replaceable.ran(who, &[], list);
            assert!(ran.code() == 125 && ran.err().contains(library), "{}", ran.err());
        }
        let ran = replaceable.ran(who, &[], "/opt/$ORIGIN/lib");
        assert!(ran.code() == 125 && ran.err().contains("/opt/$ORIGIN/lib"), "{}", ran.err());
    }
}

#[test]
fn names_by_origin_move_with_the_image_and_so_does_what_they_are_compared_with() {
    let list = "$ORIGIN/../w:$ORIGIN/../x:$ORIGIN/../y:$ORIGIN/../z";
    let replaceable = Replaceable::new(&Kind { list, ..RUNPATH });
    assert_eq!(replaceable.replaceable(), 4);
    let other = replaceable.other("x", 7, "other");
    replaceable.refuses(&other, &format!("{other}/libx.so"));
    let at = replaceable.env.scene.subdirectory("elsewhere");
    for who in ways() {
        let ran = |list: &str| {
            let app = format!("{at}/bin/app");
            let mut command = replaceable.env.run(who, &["--at", &at], &[&app]);
            run(command.env("LD_LIBRARY_PATH", list))
        };
        assert_eq!(ran(&format!("{at}/x")).out(), OWN, "its own, at its place");
        assert_eq!(ran(&other).code(), 125);
    }
}

#[test]
fn a_rank_that_joins_with_another_list_is_refused_and_the_others_run_on() {
    let replaceable = Replaceable::new(&RUNPATH);
    let other = replaceable.other("x", 7, "other");
    for who in ways() {
        let script = "echo ready; read line; exec \"$0/bin/app\"";
        let mut first = Live::start(&mut replaceable.env.sh(who, &[], script));
        assert_eq!(first.line(), "ready");
        let refused = replaceable.ran(who, &[], &other);
        assert_eq!((refused.code(), refused.out().as_str()), (125, ""), "{}", refused.err());
        assert!(refused.err().contains("LD_LIBRARY_PATH"), "{}", refused.err());
        let joined = replaceable.ran(who, &["--json"], &format!("{}/x", replaceable.env.directory));
        assert_eq!(joined.out(), OWN, "{}", joined.err());
        assert!(joined.err().contains("\"joined\": true"), "{}", joined.err());
        assert_eq!(replaceable.env.holders().len(), 1);
        assert_eq!(first.end().out(), OWN);
        replaceable.env.all_gone();
    }
}

#[test]
fn an_image_that_is_unpacked_instead_of_mounted_is_refused_as_well() {
    let replaceable = Replaceable::new(&RUNPATH);
    let other = replaceable.other("x", 7, "other");
    let app = replaceable.app();
    let staging = Staging::of(replaceable.env);
    let command = |options: &[&str], list: &str| {
        let mut command = staging.run(As::User, options, &[&app]);
        command.env("LD_LIBRARY_PATH", list);
        command
    };
    staging.refused(&mut command(&[], &other), "LD_LIBRARY_PATH leads to");
    assert_eq!(run(&mut command(&[], "")).out(), OWN);
    assert_eq!(run(&mut command(&["--check", "no"], &other)).out(), OWN);
    staging.all_gone();
}

#[test]
fn an_image_of_a_becalm_that_wrote_no_such_names_runs_as_before() {
    let replaceable = Replaceable::new(&RUNPATH);
    let other = replaceable.other("x", 7, "other");
    let script = r#"
import json, re, sys, zlib
path = sys.argv[1]
data = open(path, "rb").read()
at = data.rindex(b"becalm-image 1 ")
line = data[at:data.index(b"\n", at) + 1]
length = int(line.split()[2])
begin = at + len(line)
manifest = json.loads(data[begin:begin + length])
assert manifest.pop("replaceable")
old = json.dumps(manifest).encode()
# The line must stay as long as it is, but for the checksum's digits.
old += b" " * (length - len(old))
line = b"becalm-image 1 %d %d\n" % (length, zlib.crc32(old))
open(path, "wb").write(data[:at] + line + old + b"\n" + data[begin + length + 1:])
"#;
    let done = run(Command::new("python3").args(["-c", script, &replaceable.env.image]));
    assert_eq!(done.code(), 0, "{}", done.err());
    for who in ways() {
        assert_eq!(replaceable.ran(who, &[], "").out(), OWN);
        let ran = replaceable.ran(who, &[], &other);
        assert_eq!(ran.out(), OWN, "{}", ran.err());
    }
}
