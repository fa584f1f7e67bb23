//! What `becalm elf bind` leaves as it is, and says why.

#![allow(clippy::unwrap_used)] // A test program.

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use support::bound::{Site, changed, reason, says_with, shown, start};
use support::run;

/// A tree with a program that can be bound; the path of that, and the words that link others to
/// the same library.
fn site_with_program() -> (Site, String, [String; 2]) {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let words = [site.rpath(&["n", "m", "x/lib"]), x];
    let app = site.ask("app", &[&words[0], &words[1]]);
    (site, app, words)
}

/// Binds; the file must be as before, and left out for a reason with these words in it.
#[track_caller]
fn is_left_out(site: &Site, app: &str, path: &str, because: &str) {
    let before = (fs::read(path).unwrap(), fs::metadata(path).unwrap().permissions());
    let bound = site.bind(&[]);
    assert!(changed(&bound).contains(&app), "the rest is bound: {bound:#}");
    let reason = reason(&bound, path);
    assert!(reason.contains(because), "{path}: {reason}");
    assert_eq!((fs::read(path).unwrap(), fs::metadata(path).unwrap().permissions()), before);
    assert_eq!(start(app, &[]).in_vain(), 0);
}

#[test]
fn a_setuid_program_is_left_out() {
    let (site, app, words) = site_with_program();
    let setuid = site.ask("setuid", &[&words[0], &words[1]]);
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    is_left_out(&site, &app, &setuid, "setuid");
}

#[test]
fn a_static_program_is_left_out() {
    let (site, app, _) = site_with_program();
    let program = site.build("static/bin/ask", &["ask.c", "-static", "-w"]);
    is_left_out(&site, &app, &program, "static");
}

/// It has a dynamic section, for its own relocations, and needs nothing.
#[test]
fn a_static_program_that_can_lie_anywhere_stays_as_it_is() {
    let (site, app, _) = site_with_program();
    let program = site.build("static/bin/ask", &["ask.c", "-static-pie", "-w"]);
    let before = fs::read(&program).unwrap();
    let bound = site.bind(&[]);
    assert!(changed(&bound).contains(&app.as_str()), "{bound:#}");
    assert_eq!(fs::read(&program).unwrap(), before);
}

#[test]
fn a_copy_of_the_loader_is_left_out() {
    let (site, app, _) = site_with_program();
    let copy = site.at("x/lib/ld-linux-x86-64.so.2");
    fs::copy("/lib64/ld-linux-x86-64.so.2", &copy).unwrap();
    is_left_out(&site, &app, &copy, "loader");
}

#[test]
fn java_s_own_libraries_are_left_out() {
    let (site, app, words) = site_with_program();
    let jvm = site.part("java", "jvm", &[&words[0], &words[1], "-Wl,-soname,libjvm.so"]);
    is_left_out(&site, &app, &jvm, "libjvm.so*");
}

#[test]
fn what_the_user_names_is_left_out() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let mpi = site.part("mpi", "mpi", &[]);
    let list = site.runpath(&["n", "m", "x/lib", "mpi/lib"]);
    let app = site.ask("app", &[&list, &x, &mpi]);
    site.part("other", "mpi", &[]);
    site.bind(&["--leave", "libmpi.so.*"]);
    let other = [("LD_LIBRARY_PATH", &*site.at("other/lib"))];
    let said = says_with(&app, &["mpi", "x"], &other);
    assert!(said.ends_with("mpi: mpi of other\nx: x of x\n"), "{said}");
    let said = says_with(&app, &["mpi", "x"], &[]);
    assert!(said.ends_with("mpi: mpi of mpi\nx: x of x\n"), "{said}");
}

/// What lies in a store is a stub that is linked against; the node's own driver comes by the
/// variable.
#[test]
fn a_driver_s_stub_is_left_out_and_the_driver_still_comes_by_ld_library_path() {
    let (site, _, words) = site_with_program();
    let stub = site.part("stubs", "cuda", &[]);
    let list = site.runpath(&["n", "m", "x/lib", "stubs/lib"]);
    let app = site.ask("gpu", &[&list, &words[1], &stub]);
    site.part("driver", "cuda", &[]);
    let driver = [("LD_LIBRARY_PATH", &*site.at("driver/lib"))];
    let before = says_with(&app, &["cuda"], &driver);
    assert!(before.ends_with("cuda: cuda of driver\n"));
    let without = shown(&app, &["cuda"]);

    let bound = site.bind(&[]);

    assert!(reason(&bound, &stub).contains("libcuda.so*"));
    assert!(changed(&bound).contains(&app.as_str()), "{bound:#}");
    assert_eq!(says_with(&app, &["cuda"], &driver), before);
    assert_eq!(shown(&app, &["cuda"]), without);
}

/// What looks like a library and is none: never an error, never a change, and no end of the walk.
#[test]
fn what_is_no_whole_elf_file_does_no_harm() {
    let (site, app, words) = site_with_program();
    let whole = fs::read(&words[1]).unwrap();
    let mut odd = vec![
        site.scene.file("tree/script.so", "#!/bin/sh\nexit 1\n", 0o755),
        site.scene.file("tree/libtext.so.1", "INPUT(libx.so.1)\n", 0o644),
        site.scene.file("tree/libempty.so", "", 0o755),
        site.scene.file("tree/libmagic.so", b"\x7fELF", 0o755),
        site.scene.file("tree/libhead.so", &whole[..64], 0o755),
        site.scene.file("tree/libpage.so", &whole[..4096], 0o755),
        site.scene.file("tree/liblast.so", &whole[..whole.len() - 1], 0o755),
        site.build("libobject.so", &["part.c", "-c", "-DPART=o", "-DSAYS=\"o\""]),
    ];
    let debug = site.at("x/lib/libx.so.1.debug");
    let objcopy = ["--only-keep-debug", &app, &debug];
    assert_eq!(run(std::process::Command::new("objcopy").args(objcopy)).code(), 0);
    odd.push(debug);
    assert_eq!(run(std::process::Command::new("mkfifo").arg(site.at("libpipe.so"))).code(), 0);
    symlink(site.at("nowhere"), site.at("libdangling.so")).unwrap();
    symlink(site.tree(), site.at("loop")).unwrap();
    symlink("/dev/zero", site.at("libzero.so")).unwrap();
    let untouched = site.snapshot();

    let bound = site.bind(&[]);

    let changed = changed(&bound);
    assert!(changed.contains(&app.as_str()), "{bound:#}");
    let after = site.snapshot();
    let differs = after.differs_in(&untouched);
    for path in &odd {
        assert!(!differs.contains(&Path::new(path)), "{path} has changed");
        assert!(!changed.contains(&path.as_str()), "{path} is to change");
    }
    assert_eq!(start(&app, &[]).in_vain(), 0);
}

#[test]
fn a_named_file_that_is_no_elf_file_is_told() {
    let site = Site::new();
    let text = site.scene.file("tree/notes", "text", 0o755);
    let bound = site.bind_at(&text, &[]);
    assert!(reason(&bound, &text).contains("ELF"), "{bound:#}");
    assert_eq!(run(std::process::Command::new("mkfifo").arg(site.at("pipe"))).code(), 0);
    let bound = site.bind_at(&site.at("pipe"), &[]);
    assert!(!reason(&bound, &site.at("pipe")).is_empty());
}
