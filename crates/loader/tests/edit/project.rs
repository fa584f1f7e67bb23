//! A program of two libraries, built by any linker; bound, read by other tools, stripped, run.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use loader::edit::{EditRequest, EditRoom, Refused, SearchPathEdit, Tier};
use tempfile::TempDir;
use testkit::arch::LIB;

use crate::toolchain::{checked_edit, install, is_loader, needed, replace, run, tool};

/// A program that needs liba, which needs libb, each in a directory of its own.
pub struct Project {
    directory: TempDir,
    flags: Vec<String>,
}

const LONG: &str =
    "opt/spack/linux-debian12-skylake_avx512/gcc-12.2.0/package-1.2.3-abcdefghijklmnop";

impl Project {
    /// `names` is how many functions liba has beside: that makes its string table large.
    pub fn build(flags: &[&str], rpath: bool, names: usize) -> Self {
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

    /// The program.
    pub fn program(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    fn prefix(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{LONG}-{name}/lib"))
    }

    /// The library of this name.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.prefix(name).join(format!("lib{name}.so"))
    }

    fn library(&self, name: &str, source: &str, needs: &[&str], rpath: bool) {
        fs::create_dir_all(self.prefix(name)).unwrap();
        let soname = format!("-Wl,-soname,lib{name}.so");
        self.gcc(source, &self.path_of(name), needs, rpath, &["-shared", "-fPIC", &soname]);
    }

    fn gcc(&self, source: &str, to: &Path, needs: &[&str], rpath: bool, more: &[&str]) {
        let text = to.with_extension("c");
        fs::write(&text, source).unwrap();
        let mut arguments: Vec<String> = vec![text.to_str().unwrap().into(), "-g".into()];
        arguments.extend(["-o".to_owned(), to.to_str().unwrap().to_owned()]);
        arguments.extend(more.iter().chain(&["-Wl,--disable-new-dtags"]).map(|s| (*s).to_owned()));
        let shared = more.contains(&"-shared");
        let of_programs = ["-no-pie", "-static-pie"];
        let flags = self.flags.iter();
        arguments
            .extend(flags.filter(|flag| !shared || !of_programs.contains(&flag.as_str())).cloned());
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
    pub fn bind(&self, path: &Path, detour: usize, room: EditRoom) -> Result<Tier, Refused> {
        self.edit(path, detour, SearchPathEdit::Remove, room)
    }

    /// Makes all names of `path` absolute, and gives it an RPATH that no slack holds.
    pub fn grow(&self, path: &Path) -> Result<Tier, Refused> {
        let long = format!("/{}", "nowhere/".repeat(1000));
        self.edit(path, 0, SearchPathEdit::Rpath(long.into_bytes()), EditRoom { grow: true })
    }

    fn edit(
        &self,
        path: &Path,
        detour: usize,
        search: SearchPathEdit,
        room: EditRoom,
    ) -> Result<Tier, Refused> {
        let bytes = fs::read(path).unwrap();
        let needed = replace(&by_patchelf(path), |name| self.absolute(name, detour));
        let request = EditRequest { needed, search };
        let (edited, after) = checked_edit(&bytes, &request, room)?;
        install(path, &after);
        Ok(edited.tier)
    }

    fn absolute(&self, name: &str, detour: usize) -> Option<String> {
        let name = name.rsplit('/').next().unwrap();
        let own = ["a", "b"].map(|own| self.path_of(own));
        let own = own.into_iter().find(|path| path.ends_with(name));
        let narrow = self.flags.iter().any(|flag| flag == "-m32");
        let system = Path::new(if narrow { "/lib32" } else { LIB });
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
    pub fn check_everything(&self, what: &str) {
        self.check_all_ways(what, |path| self.check_tools(path, what));
    }

    pub fn check_all_ways(&self, what: &str, read: impl Fn(&Path)) {
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
pub fn by_patchelf(path: &Path) -> Vec<String> {
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

/// Debug information goes into a file of its own, which the file names (.gnu_debuglink).
pub fn split_debug(path: &Path) {
    let debug = path.with_extension("debug");
    let (path, debug) = (path.to_str().unwrap(), debug.to_str().unwrap());
    tool("objcopy", &["--only-keep-debug", path, debug]);
    tool("strip", &["--strip-debug", path]);
    tool("objcopy", &[&format!("--add-gnu-debuglink={debug}"), path]);
}

fn copy(path: &Path) {
    tool("objcopy", &[path.to_str().unwrap()]);
}
