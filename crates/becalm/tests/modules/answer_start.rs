//! Programs that Modules starts, and that are followed: at the start of a shell `manpath`, and what modulefiles ask.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::answer::{Asking, settle, tree, with_each};

/// A program that is the first `manpath` of a search path.
fn own_manpath(directory: &Path, script: &str) -> String {
    own_program(directory, "manpath", script)
}

/// A search path with a program of one's own first.
fn own_program(directory: &Path, name: &str, script: &str) -> String {
    fs::create_dir_all(directory).unwrap();
    let program = directory.join(name);
    testkit::write_program(&program, script);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", directory.display())
}

#[test]
fn the_start_of_a_shell_is_remembered_with_what_manpath_looked_at() {
    with_each(|modules| {
        let scene = tree();
        settle();
        let start = &["autoinit"];
        let asking = Asking::new(&scene, modules);
        asking.agree(start);
        asking.is_remembered(start);

        fs::write(scene.at(".manpath"), format!("MANDATORY_MANPATH {}\n", scene.at("").display()))
            .unwrap();
        assert!(asking.why(start).contains("this has changed"), "{}", asking.why(start));
        asking.agree(start);
        settle();
        asking.agree(start);
        asking.is_remembered(start);

        let other = [("MANPATH", "/nowhere:"), ("PATH", "/bin:/usr/bin"), ("SYSTEM", "other")];
        for (name, value) in other {
            let asking = Asking::new(&scene, modules).with(name, value);
            asking.agree(start);
            asking.is_remembered(start);
        }
    });
}

#[test]
fn another_manpath_is_asked_each_time() {
    with_each(|modules| {
        let scene = tree();
        let path = own_manpath(&scene.at("bin"), "#!/bin/sh\ndate +/man/%N\n");
        settle();
        let asking = Asking::new(&scene, modules).with("PATH", &path);
        asking.agree(&["autoinit"]);
        asking.agree(&["autoinit"]);
        let why = asking.why(&["autoinit"]);
        assert!(why.starts_with("never remembered: it starts /usr/bin/dash"), "{why}");
    });
}

#[test]
fn where_there_is_no_manpath_that_is_remembered_until_there_is_one() {
    with_each(|modules| {
        let scene = tree();
        let interpreter = scene.at("bin");
        fs::create_dir(&interpreter).unwrap();
        settle();
        let path = interpreter.display().to_string();
        let asking = Asking::new(&scene, modules).with("PATH", &path);
        asking.agree(&["autoinit"]);
        asking.is_remembered(&["autoinit"]);
        own_manpath(&interpreter, "#!/bin/sh\necho /man\n");
        asking.agree(&["autoinit"]);
    });
}

#[test]
fn what_a_modulefile_asks_a_known_program_is_remembered_with_what_that_looked_at() {
    with_each(|modules| {
        let scene = tree();
        let own = scene.at("own");
        symlink("first", scene.at("link")).unwrap();
        fs::write(scene.at("site"), "north\n").unwrap();
        let asks = format!(
            "#%Module\nsetenv MACHINE [exec uname -m]\nsetenv LINK [exec -- readlink {0}/link]\n\
             setenv SITE [exec cat {0}/site]\nsetenv OWN [exec realpath {0}/own 2>/dev/null]\n\
             setenv HERE [exec realpath .]\nsetenv HOST [exec /bin/hostname]\n",
            scene.at("").display()
        );
        scene.file("asks/1", &asks);
        let words = ["load", "asks"];
        let asking = Asking::new(&scene, modules);
        let is_remembered_until = |changes: &dyn Fn()| {
            settle();
            asking.agree(&words);
            asking.is_remembered(&words);
            changes();
            asking.agree(&words);
        };
        is_remembered_until(&|| {
            fs::remove_file(scene.at("link")).unwrap();
            symlink("second", scene.at("link")).unwrap();
        });
        is_remembered_until(&|| fs::write(scene.at("site"), "south\n").unwrap());
        is_remembered_until(&|| fs::create_dir(&own).unwrap());
        // Others make files where Tcl makes one for what a program says on its error channel.
        settle();
        asking.agree(&words);
        tempfile::NamedTempFile::new().unwrap();
        asking.is_remembered(&words);
        // Another directory, another search path, another program of the name.
        let elsewhere = Asking::new(&scene, modules).from(&own);
        elsewhere.agree(&words);
        let path = own_program(&own, "uname", "#!/bin/sh\ndate +%N >/dev/null; echo other\n");
        // What is said of a question is of who asked last, by seconds.
        std::thread::sleep(std::time::Duration::from_secs(1));
        let other = Asking::new(&scene, modules).with("PATH", &path);
        other.agree(&words);
        other.agree(&words);
        let why = other.why(&words);
        assert!(why.starts_with("never remembered: it starts /usr/bin/dash"), "{why}");
    });
}

/// Says which of several names are there, below a directory beside the modulepath.
fn looks(root: &Path, names: &[&str]) -> String {
    let looks = |(at, name): (usize, &&str)| {
        format!("setenv THERE{at} [file exists {}/{name}]\n", root.display())
    };
    names.iter().enumerate().map(looks).fold("#%Module\n".to_owned(), |all, one| all + &one)
}

#[test]
fn what_was_not_there_is_noticed_when_it_comes_in_whatever_way() {
    const MANY: [&str; 10] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "dangling"];
    with_each(|modules| {
        let scene = tree();
        let root = scene.at("beside");
        fs::create_dir(&root).unwrap();
        fs::create_dir(scene.at("many")).unwrap();
        symlink(scene.at("target"), scene.at("many/dangling")).unwrap();
        symlink(scene.at("elsewhere"), root.join("link")).unwrap();
        scene.file("looks/1", &looks(&root, &["a/b/c", "a/b/d", "a/e", "link/f", "link/g"]));
        scene.file("many/1", &looks(&scene.at("many"), &MANY));
        let asking = Asking::new(&scene, modules);
        let comes = |module: &str, comes: &dyn Fn()| {
            settle();
            asking.agree(&["load", module]);
            asking.is_remembered(&["load", module]);
            comes();
            asking.agree(&["load", module]);
        };
        comes("looks/1", &|| fs::create_dir(root.join("a")).unwrap());
        comes("looks/1", &|| fs::write(root.join("a/e"), "").unwrap());
        comes("looks/1", &|| {
            fs::create_dir(root.join("a/b")).unwrap();
            fs::write(root.join("a/b/d"), "").unwrap();
        });
        comes("looks/1", &|| {
            fs::create_dir(scene.at("elsewhere")).unwrap();
            fs::write(scene.at("elsewhere/g"), "").unwrap();
        });
        comes("many/1", &|| fs::write(scene.at("many/n7"), "").unwrap());
        comes("many/1", &|| fs::write(scene.at("target"), "").unwrap());
        comes("many/1", &|| fs::rename(scene.at("target"), scene.at("many/n2")).unwrap());
    });
}
