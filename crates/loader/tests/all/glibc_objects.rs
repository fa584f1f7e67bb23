//! What glibc's loader does with the files it finds, rule by rule: files are made so that the rule
//! decides, and the model must make the probes of the real loader.

use std::fs;
use std::os::unix::fs::symlink;

use crate::real::Run;
use crate::real::build::{Workshop, patchelf, rpath};
use crate::real::say::{directory_of, how, text, true_simulation};
use loader::simulation::{FoundBy, MissingReason};
use loader::{Disk, Simulation};
use testkit::arch::{LIB, LOADER, LOADER_NAME, NARROW};

#[test]
fn files_for_other_addresses_or_machines_are_skipped() {
    let shop = Workshop::new();
    let library = shop.library("right/libany.so", &[], &[]);
    if let Some(narrow) = NARROW {
        shop.library("narrow/libany.so", &[], &[narrow]);
    }
    let machine = shop.library("machine/libany.so", &[], &[]);
    let mut bytes = fs::read(&machine).unwrap();
    bytes[18] = 22; // S/390
    fs::write(&machine, bytes).unwrap();
    let all = ["narrow", "machine", "right"].map(|name| text(&shop.path(name)).to_owned());
    let program = shop.program("program", &[&library], &[&rpath(&all.join(":"))]);
    let simulation = true_simulation(&Run::of(program));
    assert_eq!(directory_of(&simulation, "libany.so"), shop.path("right"));
    let program = shop.program("lost", &[&library], &[&rpath(&all[..2].join(":"))]);
    let why = &true_simulation(&Run::of(program)).missing[0].why;
    // Of another machine the loader says nothing.
    assert_eq!(*why == MissingReason::OtherClass, NARROW.is_some(), "{why:?}");
}

#[test]
fn what_cannot_be_loaded_ends_the_run_though_another_follows() {
    let shop = Workshop::new();
    let library = shop.library("right/libany.so", &[], &[]);
    let spoil = |name: &str, bytes: &[u8]| {
        fs::create_dir(shop.path(name)).unwrap();
        fs::write(shop.path(name).join("libany.so"), bytes).unwrap();
    };
    let good = fs::read(&library).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    spoil("empty", b"");
    spoil("text", &b"# no library, but long enough for a header\n".repeat(4));
    spoil("short", &good[..60]);
    spoil("no-segments", &with(56, 0));
    spoil("big-endian", &with(5, 2));
    spoil("version", &with(6, 2));
    spoil("system", &with(7, 9));
    spoil("padding", &with(12, 1));
    spoil("object", &with(16, 1));
    spoil("entries", &with(54, 57));
    fs::create_dir_all(shop.path("directory/libany.so")).unwrap();
    let program = shop.program("pie/libany.so", &[], &[]);
    assert!(loader::ElfObject::read(&program).unwrap().flags_1 & loader::ElfObject::PIE != 0);
    shop.program("fixed/libany.so", &[], &["-no-pie"]);
    let names = [
        "empty",
        "text",
        "short",
        "no-segments",
        "big-endian",
        "version",
        "system",
        "padding",
        "object",
        "entries",
        "directory",
        "pie",
        "fixed",
    ];
    for name in names {
        let list = format!("{}:{}", text(&shop.path(name)), text(&shop.path("right")));
        let program = shop.program(&format!("for-{name}"), &[&library], &[&rpath(&list)]);
        let simulation = true_simulation(&Run::of(program));
        assert!(matches!(simulation.missing[0].why, MissingReason::Unfit(..)), "{name}");
        assert!(simulation.fatal.is_some());
    }
}

#[test]
fn one_file_under_two_names_is_loaded_once() {
    let shop = Workshop::new();
    let one = shop.library("lib/libone.so", &[], &["no soname"]);
    let two = shop.path("lib/libtwo.so");
    let three = shop.path("lib/libthree.so");
    symlink("libone.so", &two).unwrap();
    fs::hard_link(&one, &three).unwrap();
    let program = shop.program("program", &[], &[&rpath(text(&shop.path("lib")))]);
    for name in ["libthree.so", "libtwo.so", "libone.so"] {
        patchelf(&program, &["--add-needed", name]);
    }
    let simulation = true_simulation(&Run::of(program));
    assert_eq!(how(&simulation, "libone.so"), FoundBy::Rpath { of: 0 });
    assert_eq!(
        simulation.objects.iter().filter(|object| object.asked_as == "libone.so").count(),
        1
    );
    assert_eq!(simulation.objects[0].edges.iter().filter(|edge| edge.to == Some(1)).count(), 3);
}

#[test]
fn a_library_is_known_by_its_soname_whatever_its_file_is_called() {
    let shop = Workshop::new();
    let file = shop.library("lib/libfile.so", &[], &["no soname", "-Wl,-soname,libname.so.1"]);
    let program = shop.program("program", &[], &[]);
    for name in ["libname.so.1", text(&file)] {
        patchelf(&program, &["--add-needed", name]);
    }
    let simulation = true_simulation(&Run::of(program));
    assert_eq!((simulation.missing.len(), how(&simulation, "libfile.so")), (0, FoundBy::Path));
}

#[test]
fn filtees_are_loaded_before_the_object_and_auxiliary_ones_may_be_missing() {
    let shop = Workshop::new();
    let list = rpath(text(&shop.path("lib")));
    let options = |filter: &str| format!("-Wl,{filter}");
    let low = shop.library("lib/liblow.so", &[], &[]);
    shop.library("lib/libfiltee.so", &[&low], &[]);
    shop.library("lib/libthird.so", &[&low], &[]);
    let cases = [
        vec![options("-F,libfiltee.so")],
        vec![options("-f,libfiltee.so")],
        vec![options("-f,libabsent.so")],
        vec![options("-F,libabsent.so")],
        vec![options("-f,libfiltee.so"), options("-f,libthird.so"), options("-f,liblow.so")],
        vec![options("-f,libself.so")],
        vec!["-Wl,-f,$ORIGIN/libfiltee.so".to_owned()],
    ];
    for (number, case) in cases.iter().enumerate() {
        let mut all: Vec<&str> = case.iter().map(String::as_str).collect();
        all.push(&list);
        let name = format!("lib/libself{number}.so");
        let library = shop.library(&name, &[&low], &all);
        let last = shop.library(&format!("lib/liblast{number}.so"), &[&library], &[&list]);
        let needs = [[&*low, &library, &last], [&*last, &library, &low]];
        for needs in needs {
            let program = shop.program("program", &needs, &[&list]);
            assert_order(&true_simulation(&Run::of(program)));
        }
    }
}

/// The order of the objects is that in which the real loader looks up symbols.
fn assert_order(simulation: &Simulation) {
    if simulation.fatal.is_some() {
        return;
    }
    let output = std::process::Command::new(&simulation.objects[0].path)
        .env("LD_DEBUG", "scopes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let scope = said.lines().find(|line| line.contains(" scope 0: ")).unwrap();
    let scope: Vec<&str> = scope.split(" scope 0: ").nth(1).unwrap().split(' ').collect();
    let model: Vec<_> = simulation.objects.iter().map(|object| text(&object.path)).collect();
    assert_eq!(scope, model, "{said}");
}

#[test]
fn a_library_that_is_nowhere_ends_the_run() {
    let shop = Workshop::new();
    let absent = shop.library("lib/libabsent.so", &[], &[]);
    let other = shop.library("lib/libother.so", &[], &[]);
    let program = shop.program("program", &[&absent, &other], &[]);
    let simulation = true_simulation(&Run::of(program));
    assert_eq!(simulation.missing.len(), 2, "all that is missing is told");
    assert_eq!(simulation.fatal.unwrap().after, simulation.probes.len(), "and no probe is made up");
    assert!(simulation.counts.opens < simulation.when_whole.opens);
}

#[test]
fn preloads_come_first_and_may_be_missing() {
    let shop = Workshop::new();
    let one = shop.library("lib/libone.so", &[], &[]);
    let two = shop.library("lib/libtwo.so", &[&one], &[]);
    let program = shop.program("program", &[&two], &[&rpath(text(&shop.path("lib")))]);
    let path = text(&one).to_owned();
    let lists = [
        "libone.so".to_owned(),
        "libabsent.so libone.so".to_owned(),
        "libtwo.so:libone.so".to_owned(),
        format!(" :{path}: libabsent.so"),
        "/absent/libone.so".to_owned(),
        "$ORIGIN/lib/libone.so".to_owned(),
        "libc.so.6 libone.so".to_owned(),
        LOADER_NAME.to_owned(),
        "libone.so libone.so".to_owned(),
        text(&program).to_owned(),
        "lib/libone.so".to_owned(),
        String::new(),
        "x".repeat(300),
    ];
    for list in lists {
        let simulation = true_simulation(&Run::of(&program).with("LD_PRELOAD", &list));
        assert!(simulation.fatal.is_none(), "{list}");
    }
    let simulation = true_simulation(&Run::of(&program).with("LD_PRELOAD", "libone.so"));
    assert_eq!(simulation.objects[1].path, one);
}

#[test]
fn the_loader_is_known_by_the_name_that_the_program_calls_it() {
    let shop = Workshop::new();
    for name in [LOADER_NAME, LOADER, "linux-vdso.so.1"] {
        let program = shop.program("program", &[], &[]);
        patchelf(&program, &["--add-needed", name]);
        true_simulation(&Run::of(program));
    }
    // By another path it is loaded once more.
    let program = shop.program("twice", &[], &[]);
    patchelf(&program, &["--add-needed", &format!("{LIB}/{LOADER_NAME}")]);
    let simulation = Run::of(&program).predict(&Disk::new());
    let loaders =
        simulation.objects.iter().filter(|object| text(&object.path).contains("ld-linux"));
    assert_eq!(loaders.count(), 2);
}

#[test]
fn programs_at_fixed_addresses_are_predicted_too() {
    let shop = Workshop::new();
    let fixed = shop.program("fixed", &[], &["-no-pie"]);
    Run::of(&fixed).with("LD_LIBRARY_PATH", "/nowhere:/usr/lib").assert_true();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn programs_for_32_bits_are_predicted_too() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &["-m32"]);
    shop.library("wide/libany.so", &[], &[]);
    let list = format!("{}:{}", text(&shop.path("wide")), text(&shop.path("lib")));
    let narrow = shop.program("narrow", &[&library], &["-m32", &rpath(&list)]);
    Run::of(&narrow).assert_true();
    Run::of(&narrow).with("LD_LIBRARY_PATH", "$LIB:/x/$PLATFORM:").assert_true();
    Run::of(&narrow).with("LD_HWCAP_MASK", "0").assert_true();
}
