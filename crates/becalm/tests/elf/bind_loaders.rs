//! `becalm elf bind` for other loaders than glibc's for 64 bits, and for files that are built in
//! other ways.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::arch::{LIB, LOADER};
use testkit::bound::{Site, changed, loads, reason, says, shown, start};
use testkit::{copy_program, run, write_program};

/// The files that a program of musl's loads, by its loader's own word, without links.
fn loads_by_musl(app: &str) -> Vec<PathBuf> {
    let ran =
        run(Command::new(format!("/lib/ld-musl-{ARCH}.so.1")).args(["--list", app]).env_clear());
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let path = |line: &str| {
        let (_, path) = line.split_once(" => ")?;
        Some(fs::canonicalize(path.split_once(" (0x").unwrap().0).unwrap())
    };
    ran.out().lines().filter_map(path).collect()
}

#[test]
fn a_store_of_musl_s_gets_a_farm() {
    let site = Site::new();
    let app = site.store_by("musl-gcc", 40, &[]);
    let (before, said, loaded) = (start(&app, &[]), says(&app, &[]), loads_by_musl(&app));
    assert!(before.failed_opens > 100, "{before:?}");

    let bound = site.bind(&[]);

    assert!(bound["links"].as_u64().unwrap() >= 40, "{bound:#}");
    let after = start(&app, &[]);
    assert_eq!((says(&app, &[]), loads_by_musl(&app)), (said, loaded));
    assert!(after.failed_opens <= 1, "{after:?}");
    assert_eq!(bound["predicted"]["before"], before.to_json());
    assert_eq!(bound["predicted"]["after"], after.to_json());
    let untouched = site.snapshot();
    assert_eq!(changed(&site.bind(&[])), Vec::<&str>::new());
    site.snapshot().assert_is(&untouched);
}

#[test]
fn a_store_of_musl_s_runs_with_absolute_names_too() {
    let site = Site::new();
    let app = site.store_by("musl-gcc", 24, &[]);
    let (said, loaded) = (says(&app, &[]), loads_by_musl(&app));
    let bound = site.bind(&["--mode=needed"]);
    assert!(bound["applied"].is_string(), "{bound:#}");
    assert_eq!((says(&app, &[]), loads_by_musl(&app)), (said, loaded));
    assert_eq!(start(&app, &[]).failed_opens, 0);
}

#[test]
fn a_store_of_musl_s_has_no_use_for_a_closure() {
    let site = Site::new();
    let app = site.store_by("musl-gcc", 12, &[]);
    let bound = site.bind(&["--mode=closure"]);
    assert_eq!(changed(&bound), Vec::<&str>::new());
    assert!(reason(&bound, &app).contains("farm"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_store_is_bound() {
    for options in [&[][..], &["--mode=farm"], &["--mode=closure"]] {
        let site = Site::new();
        let app = site.store_by("gcc -m32", 20, &[]);
        let before = shown(&app, &[]);
        let bound = site.bind(options);
        assert!(bound["applied"].is_string(), "{bound:#}");
        assert_eq!(shown(&app, &[]), before, "{options:?}");
        let most = if options == ["--mode=farm"] { 40 } else { 0 };
        let after = start(&app, &[]);
        assert!(after.in_vain() <= most, "{options:?}: {after:?}");
        assert_eq!(bound["predicted"]["after"], after.to_json(), "{options:?}");
    }
}

/// As `objcopy --strip-section-headers` leaves it (binutils 2.41 and later).
#[test]
fn files_without_section_headers_are_bound_or_left_out_but_never_broken() {
    let site = Site::new();
    let app = site.store(20, &[]);
    for file in site.elf_files() {
        let mut bytes = fs::read(&file).unwrap();
        bytes[40..48].fill(0); // e_shoff
        bytes[60..64].fill(0); // e_shnum, e_shstrndx
        fs::write(&file, bytes).unwrap();
    }
    let before = shown(&app, &[]);
    let untouched = site.snapshot();
    let bound = site.bind(&[]);
    assert_eq!(shown(&app, &[]), before);
    let left = bound["left_out"].as_array().unwrap();
    assert!(
        start(&app, &[]).in_vain() == 0 || !left.is_empty(),
        "neither bound nor said why: {bound:#}"
    );
    if bound["applied"].is_string() {
        site.undo();
    }
    site.snapshot().assert_is(&untouched);
}

/// DT_HASH instead of DT_GNU_HASH, other page sizes, packed relocations, prelinked addresses:
/// what linkers lay out differently.
#[test]
fn what_other_linkers_and_options_lay_out_is_bound() {
    let layouts = [
        "-Wl,--hash-style=sysv",
        "-Wl,--hash-style=both",
        "-Wl,-z,noseparate-code",
        "-Wl,-z,separate-code",
        "-Wl,-z,max-page-size=65536",
        "-Wl,-z,now,-z,relro",
        "-Wl,-z,pack-relative-relocs",
        "-fuse-ld=gold",
        "-fuse-ld=lld",
    ];
    for layout in layouts {
        let site = Site::new();
        let x = site.part("x", "x", &[layout]);
        let y = site.part("y", "y", &[layout, &site.rpath(&["n", "m", "x/lib"]), &x]);
        let list = site.rpath(&["n", "m", "x/lib", "y/lib"]);
        let app = site.ask("app", &[layout, &list, &y, "-DREFERS=y"]);
        let before = shown(&app, &["x", "y"]);
        let bound = site.bind(&[]);
        assert_eq!(shown(&app, &["x", "y"]), before, "{layout}");
        assert_eq!(start(&app, &[]).in_vain(), 0, "{layout}: {bound:#}");
    }
}

#[test]
fn a_program_that_is_no_pie_is_bound() {
    let site = Site::new();
    let x = site.part("x", "x", &[]);
    let list = site.rpath(&["n", "m", "x/lib"]);
    let app = site.ask("app", &["-no-pie", "-fno-pie", &list, &x, "-DREFERS=x"]);
    let before = shown(&app, &["x"]);
    site.bind(&[]);
    assert_eq!((shown(&app, &["x"]), start(&app, &[]).in_vain()), (before, 0));
    assert_eq!(loads(&app, &[]).len(), 3);
}

/// Twenty libraries in one directory with a long name: one short list, and far longer names than
/// any rest of a page holds.
fn is_bound_with_a_segment_more(build: impl Fn(&Site, &str, &[String]) -> String) {
    let site = Site::new();
    let prefix = "p".repeat(200);
    let names: Vec<String> = (0..20).map(|number| format!("x{number}")).collect();
    let libraries: Vec<String> = names.iter().map(|name| site.part(&prefix, name, &[])).collect();
    let app = build(&site, &format!("{prefix}/lib"), &libraries);
    let asks: Vec<&str> = names.iter().map(String::as_str).collect();
    let (before, untouched) = (shown(&app, &asks), site.snapshot());

    let bound = site.bind(&[]);
    assert!(reason(&bound, &app).contains("no room"), "{bound:#}");
    assert_eq!(shown(&app, &asks), before);

    let bound = site.bind(&["--grow"]);
    let change = bound["changes"].as_array().unwrap().iter().find(|change| change["path"] == app);
    assert_eq!(change.unwrap()["room"], "grown");
    let grown = fs::read(&app).unwrap();
    for strips in [false, true] {
        if strips {
            // strip makes a file beside it, which is not becalm's to take back.
            let directory = fs::File::open(Path::new(&app).parent().unwrap()).unwrap();
            let modified = directory.metadata().unwrap().modified().unwrap();
            assert_eq!(run(Command::new("strip").arg(&app)).code(), 0);
            directory.set_modified(modified).unwrap();
        }
        assert_eq!(shown(&app, &asks), before);
        assert_eq!(start(&app, &[]).in_vain(), 0);
    }
    write_program(Path::new(&app), &grown);
    site.undo();
    site.snapshot().assert_is(&untouched);
}

#[test]
fn a_file_without_room_grows_only_if_asked_whatever_the_linker() {
    for linker in ["bfd", "gold", "lld", "mold"] {
        is_bound_with_a_segment_more(|site, directory, libraries| {
            let (linker, list) = (format!("-fuse-ld={linker}"), site.rpath(&[directory]));
            let mut words = vec![linker.as_str(), &list];
            words.extend(libraries.iter().map(String::as_str));
            site.ask("app", &words)
        });
    }
}

#[test]
fn a_program_in_rust_has_room_too() {
    is_bound_with_a_segment_more(|site, directory, libraries| {
        let (source, app) = (site.at("app.rs"), site.at("app"));
        let calls = (0..libraries.len()).map(|number| format!("x{number}"));
        let names: Vec<String> = calls.collect();
        let declared: String =
            names.iter().map(|name| format!("fn {name}() -> *const c_char;")).collect();
        let matched: String =
            names.iter().map(|name| format!("{name:?} => Some({name}()),")).collect();
        let text = format!(
            "use std::ffi::{{CStr, c_char}};
             unsafe extern \"C\" {{ {declared} }}
             fn main() {{
                 for name in std::env::args().skip(1) {{
                     let said = unsafe {{ match name.as_str() {{ {matched} _ => None }} }};
                     let said = said.map(|said| unsafe {{ CStr::from_ptr(said) }});
                     println!(\"{{name}}: {{said:?}}\");
                 }}
             }}"
        );
        fs::write(&source, text).unwrap();
        let mut rustc = Command::new("rustc");
        // As users have it: with glibc's own C library, and the linker that the toolchain brings.
        rustc.env_remove("RUSTFLAGS").args(["--edition=2024", &source, "-o", &app]);
        rustc.arg(format!("-Clink-arg={}", site.rpath(&[directory])));
        rustc.args(libraries.iter().map(|library| format!("-Clink-arg={library}")));
        let done = run(&mut rustc);
        assert_eq!(done.code(), 0, "{}", done.err());
        app
    });
}

/// Nix, Guix and compatibility layers bring a C library of their own.
#[test]
fn a_program_with_a_loader_and_libc_of_its_own_keeps_them() {
    for mode in ["needed", "farm", "closure"] {
        let site = Site::new();
        let own = site.at("glibc/lib");
        fs::create_dir_all(&own).unwrap();
        let loader = format!("{own}/ld.so.1");
        copy_program(LOADER, &loader);
        fs::copy(format!("{LIB}/libc.so.6"), format!("{own}/libc.so.6")).unwrap();
        let x = site.part("x", "x", &[]);
        let list = site.rpath(&["n", "m", "x/lib", "glibc/lib"]);
        let linker = format!("-Wl,--dynamic-linker,{loader}");
        let app = site.ask("app", &[&linker, &list, &x]);
        let before = shown(&app, &["x"]);
        assert!(before.loads.contains(&format!("{own}/libc.so.6").into()), "{before:?}");
        let bound = site.bind(&["--mode", mode]);
        assert!(changed(&bound).contains(&app.as_str()), "{mode}: {bound:#}");
        assert!(!changed(&bound).contains(&loader.as_str()));
        assert_eq!(shown(&app, &["x"]), before, "{mode}");
        let most = if mode == "farm" { 37 } else { 0 };
        assert!(start(&app, &[]).in_vain() <= most, "{mode}");
    }
}
