//! What was healed in an image, once its sources have changed: never old code by what was made for what
//! is no more.

use std::fs::{self, FileTimes};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::imaged::{As, Imaged, as_rank, ways};
use testkit::run;
use testkit::user::{is_root, scene_for_a_user};

use crate::BECALM;

fn packed(fill: impl FnOnce(&Path)) -> Imaged {
    let (scene, _) = scene_for_a_user(&[]);
    let directory = scene.subdirectory("env");
    let image = scene.at("image.sqsh");
    fill(Path::new(&directory));
    let mut build = Command::new(BECALM);
    build.args(["image", "build", "-o", &image, &directory]);
    let built = run(build.env("PYTHONPATH", format!("{directory}/lib")));
    assert_eq!(built.code(), 0, "{}", built.err());
    Imaged { scene, directory, image }
}

/// A module that is a link to a link to a source, without bytecode.
fn linked_module() -> Imaged {
    packed(|env| {
        for directory in ["lib", "links", "real"] {
            fs::create_dir(env.join(directory)).unwrap();
        }
        fs::write(env.join("real/one.py"), "V = 'one'\n").unwrap();
        fs::write(env.join("real/two.py"), "V = 'two'\n").unwrap();
        symlink("../real/one.py", env.join("links/current.py")).unwrap();
        symlink("../links/current.py", env.join("lib/module.py")).unwrap();
    })
}

#[track_caller]
fn imported(env: &Imaged, who: As, options: &[&str]) -> Result<String, String> {
    let words = ["python3", "-B", "-c", "import module; print(module.V)"];
    let mut command = env.run(who, options, &words);
    let ran = run(command.env("PYTHONPATH", format!("{}/lib", env.directory)).current_dir("/"));
    match ran.code() {
        125 => Err(ran.err().to_owned()),
        _ => Ok(ran.out().trim().to_owned()),
    }
}

#[test]
fn a_module_that_is_a_link_is_never_older_than_what_that_leads_to() {
    let env = linked_module();
    for who in ways() {
        assert_eq!(imported(&env, who, &[]).as_deref(), Ok("one"), "{who:?}");
    }
    let real = PathBuf::from(&env.directory).join("real/one.py");
    let time = fs::metadata(&real).unwrap().modified().unwrap();
    fs::write(&real, "V = 'new'\n").unwrap();
    let file = fs::File::options().write(true).open(&real).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
    for who in ways() {
        assert_eq!(imported(&env, who, &["--live"]).as_deref(), Ok("new"), "{who:?}");
        match imported(&env, who, &[]) {
            Ok(said) => assert_eq!(said, "new", "{who:?}"),
            Err(why) => assert!(why.contains("real/one.py has changed"), "{who:?}: {why}"),
        }
    }
}

#[test]
fn with_live_a_link_on_the_way_to_a_module_leads_where_it_leads_now() {
    let env = linked_module();
    let link = Path::new(&env.directory).join("links/current.py");
    fs::remove_file(&link).unwrap();
    symlink("../real/two.py", &link).unwrap();
    for who in ways() {
        let why = imported(&env, who, &[]).unwrap_err();
        assert!(why.contains("links has changed"), "{who:?}: {why}");
        assert_eq!(imported(&env, who, &["--live"]).as_deref(), Ok("two"), "{who:?}");
    }
}

#[test]
fn with_live_a_library_that_comes_before_a_bound_one_is_taken() {
    let gcc = |directory: &Path, words: &[&str]| {
        assert!(Command::new("gcc").args(words).current_dir(directory).status().unwrap().success());
    };
    let library = |directory: &Path, to: &str, says: &str| {
        let text = format!("const char *said(void) {{ return \"{says}\"; }}");
        fs::write(directory.join("q.c"), text).unwrap();
        gcc(directory, &["-shared", "-fPIC", "-Wl,-soname,libq.so", "-o", to, "q.c"]);
        fs::remove_file(directory.join("q.c")).unwrap();
    };
    let env = packed(|env| {
        for directory in ["a", "b", "c", "bin"] {
            fs::create_dir(env.join(directory)).unwrap();
        }
        library(env, "c/libq.so", "old");
        let main = "const char *said(void); int puts(const char *);\
                    int main(void) { puts(said()); return 0; }";
        fs::write(env.join("m.c"), main).unwrap();
        let list = ["a", "b", "c"].map(|name| env.join(name).display().to_string()).join(":");
        gcc(env, &["-o", "bin/m", "m.c", "-Lc", "-lq", &format!("-Wl,-rpath,{list}")]);
    });
    let inspected = run(Command::new(BECALM).args(["image", "inspect", "--json", &env.image]));
    assert!(inspected.out().contains("bin/m"), "it is bound: {}", inspected.out());
    let program = format!("{}/bin/m", env.directory);
    library(Path::new(&env.directory), "b/libq.so", "new");
    assert_eq!(run(&mut Command::new(&program)).out(), "new\n");
    for who in ways() {
        let ran = run(&mut env.run(who, &["--live"], &[&program]));
        assert_eq!((ran.code(), ran.out()), (0, "new\n".into()), "{who:?}: {}", ran.err());
    }
}

#[test]
fn a_file_that_is_closed_by_now_is_not_given_and_said_to_be_closed() {
    let env = packed(|env| {
        fs::create_dir(env.join("data")).unwrap();
        fs::write(env.join("data/secret"), "secret").unwrap();
    });
    let file = Path::new(&env.directory).join("data/secret");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let ran = run(&mut env.sh(As::User, &[], "cd \"$0/data\" && ls -l && cat secret"));
    assert!(ran.out().contains("---------- "), "{}", ran.out());
    assert!(ran.err().contains("Permission denied"), "{}", ran.err());
    assert!(!ran.out().contains("secret\nsecret"), "{}", ran.out());
}

/// The kernel's mounts need nobody: their holder leaves with the last rank, and others may be on their
/// way in.
#[test]
fn a_rank_that_comes_as_the_last_one_leaves_starts_all_the_same() {
    if !is_root() {
        return;
    }
    let env = Imaged::new();
    for round in 0..60 {
        let ranks: Vec<_> = (0..4)
            .map(|rank| {
                let mut rank_of = env.run(As::Root, &["--by", "kernel"], &["true"]);
                as_rank(&mut rank_of, rank).stderr(std::process::Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for rank in ranks {
            let ended = rank.wait_with_output().unwrap();
            let why = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(ended.status.success(), "round {round}: {why}");
        }
    }
    env.all_gone();
}
