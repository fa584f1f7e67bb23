//! Each rule of musl's search, as an experiment with programs made by musl-gcc.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::real::Run;
use crate::real::build::{Workshop, patchelf, rpath, runpath};
use crate::real::say::{self, how, text};
use loader::simulation::FoundBy;
use loader::{Disk, Libc, Simulation};
use testkit::arch::LIB;

fn shop() -> Workshop {
    Workshop::of("musl-gcc")
}

fn true_simulation(run: &Run) -> Simulation {
    assert!(matches!(run.setting(&Disk::new()).libc, Libc::Musl(_)));
    say::true_simulation(run)
}

#[test]
fn lists_are_inherited_whether_rpath_or_runpath() {
    for kind in [rpath, runpath] {
        let shop = shop();
        let low = shop.library("low/liblow.so", &[], &[]);
        let middle = shop.library("middle/libmiddle.so", &[&low], &[&kind("/nowhere")]);
        let list = format!("{}:{}", text(&shop.path("middle")), text(&shop.path("low")));
        let program = shop.program("program", &[&middle], &[&kind(&list)]);
        let simulation = true_simulation(&Run::of(program));
        assert_eq!(how(&simulation, "liblow.so"), FoundBy::Rpath { of: 0 });
    }
}

#[test]
fn the_environment_comes_first_and_empty_elements_do_not_count() {
    let shop = shop();
    let library = shop.library("first/libany.so", &[], &[]);
    shop.library("second/libany.so", &[], &[]);
    let program = shop.program("program", &[&library], &[&rpath(text(&shop.path("first")))]);
    let run = Run::of(&program).with("LD_LIBRARY_PATH", shop.path("second"));
    assert_eq!(how(&true_simulation(&run), "libany.so"), FoundBy::LibraryPath);
    for list in [":", "::/nowhere:", "first:second", ";", "/nowhere/\n/else", "first//"] {
        Run::of(&program).within(shop.path("")).with("LD_LIBRARY_PATH", list).assert_true();
    }
}

#[test]
fn what_is_missing_does_not_end_the_search_for_the_rest() {
    let shop = shop();
    let absent = shop.library("lib/libabsent.so", &[], &[]);
    let other = shop.library("lib/libother.so", &[], &[]);
    let program = shop.program("program", &[&absent, &other], &[]);
    let simulation = true_simulation(&Run::of(program));
    assert_eq!(simulation.missing.len(), 2);
    assert_eq!(simulation.fatal.unwrap().after, simulation.probes.len());
}

#[test]
fn a_path_is_opened_for_every_object_that_names_it() {
    let shop = shop();
    let low = shop.library("lib/liblow.so", &[], &["no soname"]);
    let one = shop.library("lib/libone.so", &[&low], &["no soname"]);
    let two = shop.library("lib/libtwo.so", &[&low, &one], &["no soname"]);
    let program = shop.program("program", &[&two, &one, &low], &[]);
    let simulation = true_simulation(&Run::of(program));
    let opened = |path: &Path| simulation.probes.iter().filter(|probe| probe.path == path).count();
    assert_eq!((opened(&low), opened(&one)), (3, 2));
}

#[test]
fn a_library_is_known_by_its_file_name_and_never_by_its_soname() {
    let shop = shop();
    let file = shop.library("lib/libfile.so", &[], &["no soname", "-Wl,-soname,libname.so.1"]);
    for names in
        [["libname.so.1", text(&file)], ["libfile.so", text(&file)], [text(&file), "libfile.so"]]
    {
        let program = shop.program("program", &[], &[&rpath(text(&shop.path("lib")))]);
        for name in names.iter().rev() {
            patchelf(&program, &["--add-needed", name]);
        }
        true_simulation(&Run::of(program));
    }
}

#[test]
fn the_c_library_is_never_searched() {
    let shop = shop();
    let program = shop.program("program", &[], &[]);
    for name in
        ["libc.so.6", "libpthread.so.0", "libm.so.6", "libdl.so.2", "libxnet.so", "libcool.so"]
    {
        patchelf(&program, &["--add-needed", name]);
    }
    let simulation = true_simulation(&Run::of(&program));
    assert_eq!(simulation.missing.len(), 1, "{:?}", simulation.missing);
    for name in [
        format!("/lib/ld-musl-{ARCH}.so.1"),
        format!("/usr/lib/{ARCH}-linux-musl/libc.so"),
        format!("{LIB}/libc.so.6"),
    ] {
        let program = shop.program("again", &[], &[]);
        patchelf(&program, &["--add-needed", &name]);
        let simulation = true_simulation(&Run::of(&program));
        assert_eq!(simulation.objects.len(), 2, "{name}");
    }
}

#[test]
fn only_origin_is_replaced_and_another_token_voids_the_list() {
    let shop = shop();
    let low = shop.library("lib/liblow.so", &[], &[]);
    let library = shop.library("lib/libany.so", &[&low], &[&runpath("$ORIGIN")]);
    let lists = [
        "$ORIGIN/lib",
        "${ORIGIN}/lib:/nowhere",
        "$ORIGIN/$LIB:$ORIGIN/lib",
        "$ORIGINAL/x:$ORIGIN/lib",
        "/a$b",
        "lib",
    ];
    for list in lists {
        let program = shop.program("program", &[&library], &[&rpath(list)]);
        Run::of(&program).assert_true();
        Run::of("./program").within(shop.path("")).assert_true();
    }
    symlink("program", shop.path("lib/link")).unwrap();
    let program = shop.program("named", &[], &[]);
    patchelf(&program, &["--add-needed", "$ORIGIN/lib/libany.so"]);
    assert_eq!(true_simulation(&Run::of(program)).missing.len(), 1);
}

#[test]
fn a_loop_of_links_ends_the_search_for_good() {
    let shop = shop();
    let library = shop.library("lib/libany.so", &[], &[]);
    fs::create_dir(shop.path("loop")).unwrap();
    symlink("libany.so", shop.path("loop/libany.so")).unwrap();
    let program = shop.program("program", &[&library], &[&rpath(text(&shop.path("lib")))]);
    let run = Run::of(program).with("LD_LIBRARY_PATH", shop.path("loop"));
    assert_eq!(true_simulation(&run).missing.len(), 1);
}

#[test]
fn a_file_that_is_no_library_ends_the_search_for_its_name() {
    let shop = shop();
    let library = shop.library("lib/libany.so", &[], &[]);
    fs::create_dir_all(shop.path("directory/libany.so")).unwrap();
    for (name, content) in [("text", &b"no library "[..]), ("empty", b"")] {
        fs::create_dir(shop.path(name)).unwrap();
        fs::write(shop.path(name).join("libany.so"), content.repeat(20)).unwrap();
    }
    for name in ["text", "empty", "directory", "text/libany.so"] {
        let list = format!("{}:{}", text(&shop.path(name)), text(&shop.path("lib")));
        let program = shop.program("program", &[&library], &[&rpath(&list)]);
        true_simulation(&Run::of(program));
    }
}

#[test]
fn paths_longer_than_the_buffer_are_passed_over() {
    let shop = shop();
    let library = shop.library("lib/libany.so", &[], &[]);
    for length in [480, 500, 501, 502, 503, 600] {
        let list = format!("/{}:{}", "x/".repeat(length / 2), text(&shop.path("lib")));
        let program = shop.program("program", &[&library], &[&rpath(&list)]);
        true_simulation(&Run::of(program));
    }
}

#[test]
fn preloads_come_first_and_may_be_missing() {
    let shop = shop();
    let one = shop.library("lib/libone.so", &[], &[]);
    let two = shop.library("lib/libtwo.so", &[&one], &[]);
    let program = shop.program("program", &[&two], &[&rpath(text(&shop.path("lib")))]);
    for list in
        ["libone.so", "libabsent.so libone.so", text(&one), " :/absent: libc.so", "", "x\ty"]
    {
        let run = Run::of(&program).with("LD_PRELOAD", list);
        assert!(true_simulation(&run).fatal.is_none());
        let run = run.with("LD_LIBRARY_PATH", shop.path("lib"));
        assert!(true_simulation(&run).fatal.is_none());
    }
}
