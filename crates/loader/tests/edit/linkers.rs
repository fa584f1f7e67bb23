//! Programs of every linker: edited, run, read by other tools, stripped, and run again.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use loader::edit::{EditRequest, EditRoom, Refused, SearchPathEdit, Tier};
use tempfile::TempDir;

use crate::toolchain::{checked_edit, install, is_loader, needed, replace, run, tool};

/// A program that needs liba, which needs libb, each in a directory of its own.
struct Project {
    directory: TempDir,
    flags: Vec<String>,
}

const LONG: &str =
    "opt/spack/linux-debian12-skylake_avx512/gcc-12.2.0/package-1.2.3-abcdefghijklmnop";

impl Project {
    /// `names` is how many functions liba has beside: that makes its string table large.
    fn build(flags: &[&str], rpath: bool, names: usize) -> Self {
        let directory = TempDir::new().unwrap();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let project = Self { directory, flags };
        project.library("b", "int b(void) { return 2; }", &[], false);
        let a = "#include <math.h>\nint b(void); double a(double x) { return b() + cos(x); }\n";
        let more =
            |number| format!("int one_of_many_functions_{number}(void) {{ return {number}; }}\n");
        let a: String = iter::once(a.to_owned()).chain((0..names).map(more)).collect();
        project.library("a", &a, &["b", "m"], rpath);
        let main = "#include <stdio.h>\n#include <errno.h>\ndouble a(double);\nint main(void) \
                    { printf(\"%g %d\\n\", a(0), errno); return 7; }";
        project.gcc(main, &project.program(), &["a"], rpath, &[]);
        project
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    fn prefix(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{LONG}-{name}/lib"))
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.prefix(name).join(format!("lib{name}.so"))
    }

    fn library(&self, name: &str, source: &str, needs: &[&str], rpath: bool) {
        fs::create_dir_all(self.prefix(name)).unwrap();
        let soname = format!("-Wl,-soname,lib{name}.so");
        self.gcc(source, &self.path_of(name), needs, rpath, &["-shared", "-fPIC", &soname]);
    }

    fn gcc(&self, source: &str, to: &Path, needs: &[&str], rpath: bool, more: &[&str]) {
        let text = self.directory.path().join("source.c");
        fs::write(&text, source).unwrap();
        let mut arguments: Vec<String> = vec![text.to_str().unwrap().into(), "-g".into()];
        arguments.extend(["-o".to_owned(), to.to_str().unwrap().to_owned()]);
        arguments.extend(more.iter().chain(&["-Wl,--disable-new-dtags"]).map(|s| (*s).to_owned()));
        let shared = more.contains(&"-shared");
        arguments.extend(self.flags.iter().filter(|flag| !shared || *flag != "-no-pie").cloned());
        for name in ["a", "b"] {
            let directory = self.prefix(name);
            arguments.push(format!("-L{}", directory.display()));
            arguments.push(format!("-Wl,-rpath-link,{}", directory.display()));
            if rpath {
                arguments.push(format!("-Wl,-rpath,{}", directory.display()));
            }
        }
        arguments.extend(needs.iter().map(|name| format!("-l{name}")));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        tool("gcc", &arguments);
    }

    /// Makes all names of `path` absolute and drops its RPATH; how that went. A detour is how
    /// many `./` the names have, to make them long.
    fn bind(&self, path: &Path, detour: usize, room: EditRoom) -> Result<Tier, Refused> {
        let bytes = fs::read(path).unwrap();
        let needed = replace(&by_patchelf(path), |name| self.absolute(name, detour));
        let request = EditRequest { needed, search: SearchPathEdit::Remove };
        let (edited, after) = checked_edit(&bytes, &request, room)?;
        install(path, &after);
        Ok(edited.tier)
    }

    fn absolute(&self, name: &str, detour: usize) -> Option<String> {
        let name = name.rsplit('/').next().unwrap();
        let own = ["a", "b"].map(|own| self.path_of(own));
        let own = own.into_iter().find(|path| path.ends_with(name));
        let narrow = self.flags.iter().any(|flag| flag == "-m32");
        let system = Path::new(if narrow { "/lib32" } else { "/lib/x86_64-linux-gnu" });
        let directory = own.as_deref().and_then(Path::parent).unwrap_or(system);
        let detour = "./".repeat(detour);
        (!is_loader(name)).then(|| format!("{}/{detour}{name}", directory.display()))
    }

    /// The program runs, with nothing searched and no complaint of the loader.
    fn check_runs(&self, after: &str) {
        let output = run(&self.program(), &[], &[("LD_DEBUG", "files,versions,libs")]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), text.as_str()), (Some(7), "3 0\n"), "{after}: {said}");
        assert!(!said.contains("search path"), "{after}: {said}");
        let names = [by_patchelf(&self.program()), by_patchelf(&self.path_of("a"))].concat();
        for path in names.iter().filter(|name| name.contains(LONG)) {
            assert!(said.contains(&format!("file={path} [0];  generating")), "{after}: {said}");
        }
        assert!(!said.to_lowercase().contains("error"), "{after}: {said}");
    }

    /// What other tools read out of `path` is what was written.
    fn check_tools(&self, path: &Path, after: &str) {
        let path = path.to_str().unwrap();
        let names = needed(Path::new(path));
        assert!(!names.is_empty());
        let all = names.iter().all(|name| is_loader(name) || name.starts_with('/'));
        assert!(all, "{after}: {names:?}");
        assert_eq!(by_patchelf(path.as_ref()), names, "{after}");
        let listing = tool("ldd", &[path]);
        assert!(!listing.contains("not found"), "{after}: {listing}");
        tool("readelf", &["--wide", "--all", path]);
        let by_objdump = tool("objdump", &["-p", path]);
        let by_objdump = by_objdump.lines().filter_map(|line| line.trim().strip_prefix("NEEDED"));
        assert_eq!(by_objdump.map(str::trim).collect::<Vec<_>>(), names, "{after}");
        let by_elfutils = tool("eu-readelf", &["--dynamic", path]);
        assert!(
            names.iter().all(|name| by_elfutils.contains(&format!("[{name}]"))),
            "{by_elfutils}"
        );
    }

    /// Runs, and is read right, and both after each way to strip.
    fn check_everything(&self, what: &str) {
        self.check_all_ways(what, |path| self.check_tools(path, what));
    }

    fn check_all_ways(&self, what: &str, read: impl Fn(&Path)) {
        self.check_runs(what);
        let files = [self.program(), self.path_of("a")];
        let originals: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        for way in [keep, strip, strip_all_of_elfutils, split_debug, copy] {
            for (path, bytes) in files.iter().zip(&originals) {
                install(path, bytes);
                way(path);
                read(path);
            }
            self.check_runs(what);
        }
        for (path, bytes) in files.iter().zip(&originals) {
            install(path, bytes);
        }
    }
}

/// The names of DT_NEEDED, as the loader sees them: patchelf asks no section header either.
fn by_patchelf(path: &Path) -> Vec<String> {
    let text = tool("patchelf", &["--print-needed", path.to_str().unwrap()]);
    text.lines().map(str::to_owned).collect()
}

fn keep(_: &Path) {}

fn strip(path: &Path) {
    tool("strip", &[path.to_str().unwrap()]);
}

fn strip_all_of_elfutils(path: &Path) {
    tool("eu-strip", &["--strip-debug", path.to_str().unwrap()]);
    tool("eu-strip", &[path.to_str().unwrap()]);
}

fn split_debug(path: &Path) {
    let debug = path.with_extension("debug");
    let (path, debug) = (path.to_str().unwrap(), debug.to_str().unwrap());
    tool("objcopy", &["--only-keep-debug", path, debug]);
    tool("strip", &["--strip-debug", path]);
    tool("objcopy", &[&format!("--add-gnu-debuglink={debug}"), path]);
}

fn copy(path: &Path) {
    tool("objcopy", &[path.to_str().unwrap()]);
}

/// Builds by `flags`, binds, checks; the tiers of program and library.
fn experiment(
    flags: &[&str],
    (rpath, names): (bool, usize),
    room: EditRoom,
) -> Result<[Tier; 2], Refused> {
    let project = Project::build(flags, rpath, names);
    let program = project.bind(&project.program(), 0, room)?;
    let library = project.bind(&project.path_of("a"), 0, room)?;
    let what = format!("{flags:?} rpath {rpath} {names} {room:?} {program:?} {library:?}");
    println!("{what}");
    project.check_everything(&what);
    Ok([program, library])
}

const FLAGS: &[&[&str]] = &[
    &["-Wl,--hash-style=sysv"],
    &["-Wl,--hash-style=gnu"],
    &["-Wl,--hash-style=both"],
    &["-no-pie"],
    &["-Wl,-z,noseparate-code"],
    &["-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=0x200000"],
    &["-m32"],
    &["-m32", "-no-pie"],
    &["-m32", "-Wl,-z,noseparate-code", "-Wl,--hash-style=sysv"],
    &["-fuse-ld=gold"],
    &["-fuse-ld=lld"],
    &["-fuse-ld=lld", "-m32"],
    &["-fuse-ld=mold"],
    &["-Wl,-z,now", "-Wl,-z,pack-relative-relocs"],
];

#[test]
fn a_long_rpath_makes_room_for_absolute_names_whatever_the_linker() {
    for flags in FLAGS {
        assert_eq!(
            experiment(flags, (true, 0), EditRoom::default()),
            Ok([Tier::DeadBytes; 2]),
            "{flags:?}"
        );
    }
}

#[test]
fn without_rpath_the_slack_holds_absolute_names_and_survives_strip() {
    let mut done = 0;
    for flags in FLAGS {
        match experiment(flags, (false, 0), EditRoom::default()) {
            Ok(tiers) => done += usize::from(tiers.contains(&Tier::Slack)),
            Err(refused) => println!("{flags:?}: {refused}"),
        }
    }
    assert!(done >= FLAGS.len() - 4, "{done}");
}

#[test]
fn a_large_string_table_stays_and_its_new_names_survive_strip() {
    for flags in FLAGS.iter().filter(|flags| !flags[0].starts_with("-fuse-ld")) {
        let tiers = experiment(flags, (false, 150), EditRoom::default());
        assert_eq!(tiers, Ok([Tier::Slack; 2]), "{flags:?}");
    }
}

#[test]
fn names_under_a_section_header_of_their_own_survive_strip_and_make_room_again() {
    for flags in FLAGS.iter().filter(|flags| !flags[0].starts_with("-fuse-ld")) {
        let project = Project::build(flags, false, 150);
        let library = project.path_of("a");
        project.bind(&project.program(), 0, EditRoom::default()).unwrap();
        // More than the version tables yield; then less; then more.
        for (detour, tier, grows) in
            [(250, Tier::Slack, true), (10, Tier::DeadBytes, false), (255, Tier::Slack, false)]
        {
            let before = fs::metadata(&library).unwrap().len();
            assert_eq!(
                project.bind(&library, detour, EditRoom::default()),
                Ok(tier),
                "{flags:?} {detour}"
            );
            let growth = fs::metadata(&library).unwrap().len() - before;
            assert_eq!(growth > 0, grows, "one header, the first time: {growth}");
            project.check_all_ways(&format!("{flags:?} detour {detour}"), |path| {
                // Those that go by section headers would print an offset.
                let names = by_patchelf(path);
                assert!(names.iter().all(|name| is_loader(name) || name.starts_with('/')));
                assert!(!tool("ldd", &[path.to_str().unwrap()]).contains("not found"));
            });
        }
    }
}

/// Longer than a page, shorter than the system's limit of a path.
const DETOUR: usize = 1900;

#[test]
fn names_larger_than_any_slack_get_a_segment_whatever_the_linker() {
    for flags in FLAGS {
        let project = Project::build(flags, false, 0);
        let (program, library) = (project.program(), project.path_of("a"));
        let refused = project.bind(&program, DETOUR, EditRoom::default());
        assert!(matches!(refused, Err(Refused::NoRoom { .. })), "{flags:?}: {refused:?}");
        for path in [program, library] {
            let grown = project.bind(&path, DETOUR, EditRoom { grow: true });
            assert_eq!(grown, Ok(Tier::Grown), "{flags:?} {path:?}");
        }
        project.check_everything(&format!("{flags:?} grown"));
    }
}
