//! Where glibc's loader looks, rule by rule: files are made so that the rule decides, and the
//! model must make the probes of the real loader.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::real::Run;
use crate::real::build::{Workshop, patchelf, rpath, runpath};
use crate::real::say::{directory_of, how, text, true_simulation};
use loader::Disk;
use loader::simulation::{FoundBy, MissingReason};

#[test]
fn rpath_is_inherited_from_who_loaded_the_requester() {
    let shop = Workshop::new();
    let low = shop.library("low/liblow.so", &[], &[]);
    let middle = shop.library("middle/libmiddle.so", &[&low], &[]);
    let list = format!("{}:{}", text(&shop.path("middle")), text(&shop.path("low")));
    let program = shop.program("program", &[&middle], &[&rpath(&list)]);
    let simulation = true_simulation(&Run::of(program));
    assert_eq!(how(&simulation, "liblow.so"), FoundBy::Rpath { of: 0 });
}

#[test]
fn runpath_is_not_inherited() {
    let shop = Workshop::new();
    let low = shop.library("low/liblow.so", &[], &[]);
    let middle = shop.library("middle/libmiddle.so", &[&low], &[]);
    let list = format!("{}:{}", text(&shop.path("middle")), text(&shop.path("low")));
    let program = shop.program("program", &[&middle], &[&runpath(&list)]);
    let simulation = true_simulation(&Run::of(program));
    assert_eq!(simulation.missing[0].why, MissingReason::NotFound(loader::Errno(2)));
    assert!(simulation.fatal.is_some());
}

#[test]
fn an_object_with_a_runpath_asks_no_rpath_of_others() {
    let shop = Workshop::new();
    let low = shop.library("low/liblow.so", &[], &[]);
    let middle = shop.library("middle/libmiddle.so", &[&low], &[&runpath("/nowhere")]);
    let list = format!("{}:{}", text(&shop.path("middle")), text(&shop.path("low")));
    let program = shop.program("program", &[&middle], &[&rpath(&list)]);
    assert_eq!(true_simulation(&Run::of(program)).missing.len(), 1);
}

#[test]
fn the_rpath_of_an_ancestor_that_has_a_runpath_too_is_ignored() {
    let shop = Workshop::new();
    let low = shop.library("low/liblow.so", &[], &[]);
    let middle = shop.library("middle/libmiddle.so", &[&low], &[]);
    let both = shop.library("both/libboth.so", &[&middle], &[&rpath(text(&shop.path("low")))]);
    add_runpath(&both, text(&shop.path("middle")));
    let list = format!("{}:{}", text(&shop.path("both")), text(&shop.path("middle")));
    let program = shop.program("program", &[&both], &[&rpath(&list)]);
    assert_eq!(true_simulation(&Run::of(program)).missing.len(), 1);
}

/// Gives a file with an RPATH a RUNPATH, too: the tag of a spare entry and the same text.
fn add_runpath(file: &Path, list: &str) {
    let mut bytes = fs::read(file).unwrap();
    let tag = |tag: u64| tag.to_le_bytes().to_vec();
    let find = |bytes: &[u8], tag: &[u8]| {
        bytes.windows(16).step_by(1).position(|entry| &entry[..8] == tag && entry[10..16] == [0; 6])
    };
    let rpath = find(&bytes, &tag(15)).unwrap();
    let mut entry = tag(29);
    entry.extend_from_slice(&bytes[rpath + 8..rpath + 16]);
    let spare = (rpath..).step_by(16).find(|at| bytes[*at..*at + 32] == [0; 32]).unwrap();
    bytes[spare..spare + 16].copy_from_slice(&entry);
    fs::write(file, bytes).unwrap();
    let object = loader::ElfObject::read(file).unwrap();
    assert!(object.rpath.is_some() && object.runpath.is_some(), "{list}");
}

#[test]
fn library_path_comes_after_rpath_and_before_runpath() {
    let shop = Workshop::new();
    let library = shop.library("first/libany.so", &[], &[]);
    shop.library("second/libany.so", &[], &[]);
    let list = shop.path("first");
    let old = shop.program("old", &[&library], &[&rpath(text(&list))]);
    let new = shop.program("new", &[&library], &[&runpath(text(&list))]);
    let environment = shop.path("second");
    let simulation = true_simulation(&Run::of(old).with("LD_LIBRARY_PATH", &environment));
    assert_eq!(how(&simulation, "libany.so"), FoundBy::Rpath { of: 0 });
    let simulation = true_simulation(&Run::of(new).with("LD_LIBRARY_PATH", &environment));
    assert_eq!(how(&simulation, "libany.so"), FoundBy::LibraryPath);
}

#[test]
fn empty_and_relative_elements_are_tried_for_every_library() {
    let shop = Workshop::new();
    let one = shop.library("lib/libone.so", &[], &[]);
    let two = shop.library("lib/libtwo.so", &[], &[]);
    let program = shop.program("program", &[&one, &two], &[&rpath("lib")]);
    let run = Run::of(&program).within(shop.path(""));
    assert_eq!(directory_of(&true_simulation(&run), "libone.so"), Path::new("lib"));
    for list in ["/nowhere:", ":/nowhere", "/nowhere::/else", ";lib;", ".", "lib//:lib", "::"] {
        let run = Run::of(&program).within(shop.path("")).with("LD_LIBRARY_PATH", list);
        run.assert_true();
    }
    let plain = shop.program("plain", &[&one], &[]);
    let run = Run::of(plain).within(shop.path("lib")).with("LD_LIBRARY_PATH", "/nowhere:");
    assert_eq!(how(&true_simulation(&run), "libone.so"), FoundBy::LibraryPath);
}

#[test]
fn slashes_are_trimmed_and_doubles_in_a_list_removed() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    let lib = shop.path("lib");
    let list = format!("/nowhere/:/nowhere:/nowhere//:{0}///:{0}", text(&lib));
    let program = shop.program("program", &[&library], &[&rpath(&list)]);
    Run::of(&program).assert_true();
    Run::of(program).with("LD_LIBRARY_PATH", "/nowhere;/nowhere/").assert_true();
}

#[test]
fn a_list_none_of_whose_directories_exists_is_dropped() {
    let shop = Workshop::new();
    let one = shop.library("lib/libone.so", &[], &[]);
    let two = shop.library("lib/libtwo.so", &[], &[]);
    let options = [rpath("/nowhere:/else/where")];
    let program = shop.program("program", &[&one, &two], &[&options[0]]);
    Run::of(program).with("LD_LIBRARY_PATH", shop.path("lib")).assert_true();
}

#[test]
fn a_search_directory_may_be_a_file_the_root_or_a_link() {
    let shop = Workshop::new();
    let one = shop.library("lib/libone.so", &[], &[]);
    fs::write(shop.path("file"), "").unwrap();
    symlink("lib", shop.path("link")).unwrap();
    symlink("nothing", shop.path("dangling")).unwrap();
    let list = ["file", "file/below", "dangling", "link"].map(|name| shop.path(name));
    let list = list.map(|path| text(&path).to_owned()).join(":");
    let program = shop.program("program", &[&one], &[&rpath(&format!("/:{list}"))]);
    let simulation = true_simulation(&Run::of(program));
    assert_eq!(directory_of(&simulation, "libone.so"), shop.path("link"));
}

#[test]
fn a_loop_of_links_ends_the_list_in_which_it_is_met() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    fs::create_dir(shop.path("loop")).unwrap();
    symlink("libany.so", shop.path("loop/libany.so")).unwrap();
    let list = format!("{}:{}", text(&shop.path("loop")), text(&shop.path("lib")));
    let program = shop.program("program", &[&library], &[&rpath(&list)]);
    assert_eq!(true_simulation(&Run::of(&program)).missing.len(), 1);
    let run = Run::of(program).with("LD_LIBRARY_PATH", shop.path("lib"));
    assert_eq!(how(&true_simulation(&run), "libany.so"), FoundBy::LibraryPath);
}

#[test]
fn tokens_are_replaced_in_lists_and_in_names() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    let lists = [
        "$ORIGIN/lib",
        "${ORIGIN}/lib",
        "$ORIGIN/$LIB:$ORIGIN/lib",
        "$ORIGIN/$PLATFORM:$ORIGIN/lib",
        "/x/${LIB}/y:$ORIGIN/lib",
        "$ORIGINAL/lib:$ORIGIN/lib",
        "${ORIGIN/lib:$ORIGIN/lib",
        "$ORIGIN/$UNKNOWN:$ORIGIN/lib",
        "$ORIGIN/../$ORIGIN:$ORIGIN/./lib/",
        "$:$$ORIGIN:$ORIGIN/lib",
    ];
    for (number, list) in lists.iter().enumerate() {
        for kind in [rpath, runpath] {
            let program = shop.program(&format!("program{number}"), &[&library], &[&kind(list)]);
            Run::of(program).assert_true();
        }
        let program = shop.program(&format!("plain{number}"), &[&library], &[]);
        Run::of(program).with("LD_LIBRARY_PATH", list).assert_true();
    }
    for name in [
        "$ORIGIN/lib/libany.so",
        "${ORIGIN}/lib/libany.so",
        "$ORIGIN/$LIB/libany.so",
        "lib$PLATFORM.so",
    ] {
        let program = shop.program("named", &[], &[]);
        patchelf(&program, &["--add-needed", name]);
        Run::of(program).assert_true();
    }
}

#[test]
fn the_origin_of_a_library_is_where_it_was_opened_and_of_the_program_its_real_path() {
    let shop = Workshop::new();
    let low = shop.library("real/below/liblow.so", &[], &[]);
    let library = shop.library("real/libany.so", &[&low], &[&runpath("$ORIGIN/below")]);
    let program = shop.program("real/program", &[&library], &[&rpath("$ORIGIN/../view")]);
    for directory in ["view", "elsewhere"] {
        fs::create_dir(shop.path(directory)).unwrap();
    }
    symlink(library, shop.path("view/libany.so")).unwrap();
    symlink(shop.path("real/below"), shop.path("view/below")).unwrap();
    symlink(&program, shop.path("elsewhere/program")).unwrap();
    let simulation = true_simulation(&Run::of(shop.path("elsewhere/program")));
    assert_eq!(directory_of(&simulation, "liblow.so"), shop.path("real/../view/below"));
    let relative = Run::of("elsewhere/program").within(shop.path(""));
    relative.assert_true();
}

#[test]
fn a_name_with_a_slash_is_opened_and_not_searched() {
    let shop = Workshop::new();
    let low = shop.library("lib/liblow.so", &[], &["no soname"]);
    let library = shop.library("lib/libany.so", &[&low], &["no soname", &runpath("$ORIGIN")]);
    let program = shop.program("program", &[&library], &[]);
    assert_eq!(how(&true_simulation(&Run::of(program)), "libany.so"), FoundBy::Path);
    let program = shop.program("relative", &[], &[]);
    patchelf(&program, &["--add-needed", "lib/libany.so"]);
    true_simulation(&Run::of(&program).within(shop.path("")));
    assert_eq!(true_simulation(&Run::of(&program)).missing.len(), 1);
}

#[test]
fn subdirectories_for_the_cpu_come_first() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    let program = shop.program("program", &[&library], &[&rpath(text(&shop.path("lib")))]);
    let run = Run::of(program);
    let loader::Libc::Glibc(profile) = run.setting(&Disk::new()).libc else { panic!("no glibc") };
    let (_, named) = profile.subdirectories.split_last().unwrap();
    for subdirectory in named.iter().rev() {
        let directory = format!("lib/{}", subdirectory.to_str().unwrap());
        shop.library(&format!("{directory}libany.so"), &[], &[]);
        let simulation = true_simulation(&run);
        assert_eq!(
            directory_of(&simulation, "libany.so"),
            shop.path(directory.trim_end_matches('/'))
        );
    }
}

#[test]
fn features_that_are_taken_away_take_their_subdirectories_with_them() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    let program = shop.program("program", &[&library], &[&rpath(text(&shop.path("lib")))]);
    let tunables = [
        "glibc.cpu.hwcaps=-AVX512F",
        "glibc.cpu.hwcaps=-AVX512BW,-BMI2",
        "glibc.cpu.hwcaps=-SSE4_2",
        "glibc.cpu.hwcaps=-AVX2,AVX512F",
        "glibc.cpu.hwcaps=-F16C",
        "glibc.cpu.hwcap_mask=0",
        "glibc.cpu.hwcap_mask=0x2:glibc.cpu.hwcaps=-LZCNT",
        "glibc.malloc.check=1",
    ];
    for tunable in tunables {
        Run::of(&program).with("GLIBC_TUNABLES", tunable).assert_true();
    }
    for mask in ["0", "0x2", "07", "x"] {
        Run::of(&program).with("LD_HWCAP_MASK", mask).assert_true();
    }
}

#[test]
fn nodefaultlib_leaves_out_system_directories_and_what_the_cache_says_of_them() {
    let shop = Workshop::new();
    let program = shop.program("program", &[], &["-Wl,-z,nodefaultlib"]);
    assert_eq!(true_simulation(&Run::of(program)).missing.len(), 1);
    let absent = shop.library("lib/libabsent.so", &[], &[]);
    let program = shop.program("lost", &[&absent], &["-Wl,-z,nodefaultlib"]);
    true_simulation(&Run::of(program));
}

#[test]
fn odd_names_are_taken_as_they_are() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    let odd = Path::new(OsStr::from_bytes(b"a \xff\"b\\c\n\t'"));
    fs::rename(shop.path("lib"), shop.path("").join(odd)).unwrap();
    let program = shop.program("program", &[], &[]);
    patchelf(&program, &["--add-needed", "libany.so"]);
    let run = Run::of(&program).with("LD_LIBRARY_PATH", shop.path("").join(odd));
    assert_eq!(true_simulation(&run).missing.len(), 0);
    drop(library);
    for name in ["x".repeat(255), "x".repeat(256), "y".repeat(3000)] {
        let program = shop.program("long", &[], &[]);
        patchelf(&program, &["--add-needed", &name]);
        Run::of(&program).with("LD_LIBRARY_PATH", shop.path("")).assert_true();
    }
    let long = format!("/{}:/{}", "d".repeat(256), "e/".repeat(1900));
    Run::of(&program).with("LD_LIBRARY_PATH", long).assert_true();
}
