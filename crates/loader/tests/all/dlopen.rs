//! What running programs open, against strace: each lookup is one that the model makes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::real::build::{Workshop, rpath, run, runpath};
use crate::real::say::text;
use crate::real::{Seen, parse, starts_constructors};
use loader::simulation::ProbeCall;
use loader::{Disk, Dlopen, Errno, LoaderSetting, RecordedProbe, inferred_calls, simulate_run};

/// What strace sees of a run: the lookups of its start, and of its loader later.
fn traced(program: &Path, arguments: &[&str]) -> (Vec<RecordedProbe>, Vec<RecordedProbe>) {
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("strace");
    let mut command = Command::new("strace");
    command.args(["-s", "4096", "-E", "LD_DEBUG=files", "-o"]).arg(&log);
    command.args([
        "-e",
        "trace=openat,newfstatat,?access,faccessat,?readlink,readlinkat,write,writev",
    ]);
    command.arg(program);
    command.args(arguments).env_clear().env("HOME", scratch.path()).current_dir("/");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.unwrap().success(), "{program:?} {arguments:?}");
    let log = fs::read(&log).unwrap();
    let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
    let start = lines.iter().position(|line| starts_constructors(line, false)).unwrap();
    let seen = |lines: &[&[u8]]| -> Vec<Seen> {
        lines.iter().filter_map(|line| parse(&String::from_utf8_lossy(line))).collect()
    };
    let (start, later) = (seen(&lines[..start]), seen(&lines[start..]));
    (start.iter().map(recorded).collect(), loaders(&later).map(recorded).collect())
}

/// The loader's own lookups: libraries, its cache, and the directory of a library that is not there.
fn loaders(seen: &[Seen]) -> impl Iterator<Item = &Seen> {
    let is_library = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name == b"ld.so.cache" || name.windows(3).any(|part| part == b".so")
    };
    seen.iter().enumerate().filter_map(move |(at, call)| {
        let before = at.checked_sub(1).and_then(|at| seen.get(at));
        let directory_of =
            before.filter(|before| before.error.is_some() && before.call == "openat");
        let is_own = match &*call.call {
            "openat" => is_library(&call.path),
            "newfstatat" => directory_of.is_some_and(|it| it.path.parent() == Some(&call.path)),
            _ => call.path == Path::new("/proc/self/exe"),
        };
        is_own.then_some(call)
    })
}

fn recorded(seen: &Seen) -> RecordedProbe {
    let call = match &*seen.call {
        "openat" => ProbeCall::Open,
        "newfstatat" => ProbeCall::Stat,
        "access" | "faccessat" => ProbeCall::Access,
        _ => ProbeCall::Readlink,
    };
    let error = seen.error.as_deref().map(|name| {
        Errno((1..200).find(|number| recording::errno_name(*number) == name).unwrap().into())
    });
    // Whole, and without what says nothing: so becalm records it.
    let path = Path::new("/").join(&seen.path).components().collect();
    RecordedProbe { call, path, error }
}

/// The calls that explain a run, every lookup of it.
fn calls(program: &Path, arguments: &[&str]) -> Vec<Dlopen> {
    let (disk, real) = (Disk::new(), fs::canonicalize(program).unwrap());
    let mut setting = LoaderSetting::for_program(&disk, &real).unwrap();
    setting.working_directory = "/".into();
    let (start, later) = traced(program, arguments);
    let calls = inferred_calls(&disk, &real, &setting, (&start, &later)).unwrap();
    let again = simulate_run(&disk, &real, &setting, &calls).unwrap();
    assert_eq!(again.probes.len(), start.len() + later.len());
    calls
}

/// A program that opens each of its arguments as a library, and says nothing if it cannot.
fn opener(shop: &Workshop, options: &[&str]) -> PathBuf {
    let (program, source) = (shop.path("opener"), shop.path("opener.c"));
    let code = "#include <dlfcn.h>\n\
                int main(int n, char **a) { for (int i = 1; i < n; i++) dlopen(a[i], RTLD_NOW); }\n";
    fs::write(&source, code).unwrap();
    run(Command::new("gcc").arg(&source).arg("-o").arg(&program).args(options));
    program
}

#[test]
fn numpy_and_scipy_are_predicted_probe_for_probe_as_python_opens_them() {
    let python = testkit::installed::venv().join("bin/python");
    let calls = calls(&python, &["-c", "import numpy, scipy.linalg, scipy.special, ctypes"]);
    let opened = |name: &str| {
        let is_it = |call: &&Dlopen| call.name.to_string_lossy().contains(name);
        calls.iter().filter(is_it).count()
    };
    assert_eq!(opened("_multiarray_umath"), 1);
    assert!(opened(".cpython-") >= 20, "{}", calls.len());
    assert_eq!(opened("libscipy_openblas"), 0, "needed, not opened");
}

#[test]
fn a_name_is_looked_for_by_the_lists_of_who_opens_it_and_a_plugin_inherits_the_rpath() {
    let shop = Workshop::new();
    let base = shop.library("deep/libbase.so", &[], &[]);
    let plugin = shop.library("plugins/libplugin.so", &[&base], &[]);
    let own = shop.library("own/libown.so", &[&base], &[&runpath("$ORIGIN/../deep")]);
    let lists = ["none", "plugins", "deep"].map(|name| text(&shop.path(name)).to_owned());
    let program = opener(&shop, &[&rpath(&lists.join(":"))]);
    let own = text(&own).to_owned();
    let names = ["libplugin.so", "libnowhere.so", &own, "libplugin.so", text(&plugin)];
    let calls = calls(&program, &names);
    let opened = calls.iter().map(|call| Path::new(&call.name).file_name().unwrap());
    // What is loaded is opened without a lookup, by its name and by its path.
    let expected = ["libplugin.so", "libnowhere.so", "libown.so"].map(OsStr::new);
    assert_eq!(opened.collect::<Vec<_>>(), expected);
}

#[test]
fn what_a_plugin_that_cannot_be_loaded_brought_in_is_gone_when_the_next_one_asks() {
    let shop = Workshop::new();
    let base = shop.library("lib/libbase.so", &[], &[]);
    let gone = shop.library("gone/libgone.so", &[], &[]);
    let list = runpath(text(&shop.path("lib")));
    let broken = shop.library("plugins/libbroken.so", &[&base, &gone], &[&list]);
    let whole = shop.library("plugins/libwhole.so", &[&base], &[&list]);
    fs::remove_file(gone).unwrap();
    let program = opener(&shop, &[]);
    assert_eq!(calls(&program, &[text(&broken), text(&whole)]).len(), 2);
}

#[test]
fn components_of_open_mpi_are_predicted_probe_for_probe() {
    let opens = calls(Path::new("/usr/bin/ompi_info"), &["--all"]);
    let is_component = |call: &&Dlopen| call.name.to_string_lossy().contains("/mca_");
    assert!(opens.iter().filter(is_component).count() >= 50, "{}", opens.len());
}

#[test]
fn a_path_from_the_working_directory_is_told_from_the_same_path_in_full() {
    let shop = Workshop::new();
    let base = shop.library("lib/libbase.so", &[], &[]);
    let plugin = shop.library("lib/libplugin.so", &[&base], &[&runpath("$ORIGIN")]);
    let program = opener(&shop, &[&runpath(text(&shop.path("lib")))]);
    let relative = format!(".{}", text(&plugin));
    let calls = calls(&program, &[&relative]);
    assert_eq!(calls[0].name, *relative, "another directory than the program's list has");
}

#[test]
fn what_nothing_explains_is_said() {
    let shop = Workshop::new();
    let program = opener(&shop, &[]);
    let (disk, library) = (Disk::new(), shop.library("libany.so", &[], &[]));
    let (start, mut later) = traced(&program, &[text(&library)]);
    later[0].path = shop.path("other/libany.so");
    let setting = LoaderSetting::for_program(&disk, &program).unwrap();
    let error = inferred_calls(&disk, &program, &setting, (&start, &later)).unwrap_err();
    assert!(error.to_string().contains("other/libany.so is not known"), "{error}");
    let error = inferred_calls(&disk, &program, &setting, (&start[1..], &[])).unwrap_err();
    assert!(error.to_string().contains("is not known"), "{error}");
}
