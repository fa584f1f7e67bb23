//! Every executable and library of this Debian as input.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use loader::edit::{EditRequest, EditRoom, NeededEdit, Refused, SearchPathEdit, Tier, edit};
use testkit::arch::{LIB, LOADER};

use crate::toolchain::{
    checked_edit, install, is_loader, names, needed, replace, run, run_for, tool,
};

/// The ELF files of `directory`, each once, with their bytes read when asked for.
fn elf_files(directory: &str) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|path| {
        let Ok(data) = fs::metadata(path) else { return false };
        data.is_file() && seen.insert((data.dev(), data.ino())) && starts_as_elf(path)
    });
    files
}

fn starts_as_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF"
}

/// A path as the system has it.
fn system_path(name: &str) -> Option<String> {
    (!is_loader(name)).then(|| format!("/usr{LIB}/{name}"))
}

/// A path as long as Spack's: 100 characters before the name.
fn spack_path(name: &str) -> Option<String> {
    let hash = name.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(131) + u64::from(byte));
    let prefix = format!(
        "/opt/spack/opt/spack/linux-debian12-skylake_avx512/gcc-12.2.0/some-package-1.2.3-{hash:032x}"
    );
    (!is_loader(name)).then(|| format!("{prefix:.<95}/lib/{name}"))
}

fn outcome(result: &Result<Tier, Refused>) -> String {
    match result {
        Ok(tier) => format!("{tier:?}"),
        Err(Refused::NoRoom { .. }) => "NoRoom".to_owned(),
        Err(refused) => format!("{refused}"),
    }
}

/// Counts by outcome, for one way to name libraries.
fn sweep(
    files: &[(PathBuf, Vec<String>)],
    name: fn(&str) -> Option<String>,
    room: EditRoom,
) -> BTreeMap<String, usize> {
    let (mut counts, mut covered) = (BTreeMap::new(), 0);
    for (path, needed) in files {
        let bytes = fs::read(path).unwrap();
        let needed = replace(needed, name);
        let result = checked_edit(&bytes, &names(needed), room).map(|(edited, after)| {
            if edited.tier != Tier::Grown {
                let growth = after.len() as i64 - bytes.len() as i64;
                assert!(growth < 128, "{path:?} grows by {growth}");
                covered += usize::from(growth > 0);
            }
            edited.tier
        });
        assert!(!matches!(result, Err(Refused::SelfCheck(_))), "{path:?}: {result:?}");
        *counts.entry(outcome(&result)).or_insert(0) += 1;
    }
    counts.insert("of Slack under a header of its own".to_owned(), covered);
    counts
}

#[test]
fn every_object_of_the_distribution_is_edited_and_undone_or_refused() {
    let mut files = elf_files(&format!("/usr{LIB}"));
    files.extend(elf_files("/usr/bin"));
    let files: Vec<_> = files.into_iter().map(|path| (path.clone(), needed(&path))).collect();
    for (what, name) in [("system", system_path as fn(&str) -> _), ("spack", spack_path)] {
        for grow in [false, true] {
            let counts = sweep(&files, name, EditRoom { grow });
            println!("{what} paths, grow {grow}: {} files, {counts:?}", files.len());
            let done = |tier: Tier| counts.get(&format!("{tier:?}")).copied().unwrap_or(0);
            let all = done(Tier::DeadBytes) + done(Tier::Slack);
            assert!(all * 100 > files.len() * 85, "{all} of {}", files.len());
        }
    }
}

/// Where the loader finds what a program needs.
fn found_by_the_loader(path: &Path) -> HashMap<String, String> {
    let output = Command::new("ldd").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.trim().split_once(" => ")?;
            Some((name.to_owned(), rest.split_once(" (")?.0.to_owned()))
        })
        .collect()
}

/// Programs whose `--version` does something else than say a version.
const OTHERWISE: &[&str] = &["yes", "mt", "newgrp", "sg", "su", "login", "sulogin"];

#[test]
fn programs_of_the_distribution_run_as_before_with_absolute_names() {
    let directory = tempfile::tempdir().unwrap();
    let mut tiers: BTreeMap<String, usize> = BTreeMap::new();
    let mut ran = 0;
    let all = elf_files("/usr/bin");
    let step = (all.len() / 400).max(1);
    for path in all.into_iter().step_by(step) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if OTHERWISE.contains(&name.as_str()) {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let found = found_by_the_loader(&path);
        let names_before = needed(&path);
        let needed =
            replace(&names_before, |name| found.get(name).filter(|_| !is_loader(name)).cloned());
        let request = names(needed);
        // The untouched copy beside: programs tell their own name and place.
        let copy = directory.path().join(&name);
        install(&copy, &bytes);
        let before = run_for("1", &copy, &["--version"], &[("LC_ALL", "C")]);
        // `timeout` dies as what it kills: it goes on for ever, or is a window's.
        if before.status.signal() == Some(9) {
            continue;
        }
        let Ok((edited, after)) = checked_edit(&bytes, &request, EditRoom { grow: true }) else {
            continue;
        };
        install(&copy, &after);
        let afterwards = run(&copy, &["--version"], &[("LC_ALL", "C")]);
        assert_eq!(before.status, afterwards.status, "{path:?} {:?}", edited.tier);
        if !before.stdout.is_empty() && is_steady(&before.stdout) {
            assert_eq!(lines(&before.stdout), lines(&afterwards.stdout), "{path:?}");
        }
        *tiers.entry(format!("{:?}", edited.tier)).or_default() += 1;
        ran += 1;
    }
    println!("{ran} programs ran as before: {tiers:?}");
    assert!(ran > 100);
}

/// Sorted: programs of a pipeline (groff) say theirs in any order.
fn lines(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Without addresses, process ids or times, as far as can be told.
fn is_steady(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    !text.contains("0x") && !text.contains("pid")
}

#[test]
fn the_distributions_loader_and_static_programs_are_left_alone() {
    let request = EditRequest { needed: NeededEdit::Keep, ..EditRequest::default() };
    let loader = fs::read(LOADER).unwrap();
    assert_eq!(edit(&loader, &request, EditRoom::default()), Err(Refused::Loader));
    let script = fs::read("/usr/bin/ldd").unwrap();
    assert_eq!(edit(&script, &request, EditRoom::default()), Err(Refused::NotElf));
}

/// Files that patchelf has changed already, as those who make wheels do.
#[test]
fn every_library_of_numpy_and_scipy_has_room_with_a_segment_more_and_works() {
    let venv = testkit::installed::venv();
    let packages = fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path();
    let copy = tempfile::tempdir().unwrap();
    for name in ["numpy", "numpy.libs", "scipy", "scipy.libs"] {
        let from = packages.join("site-packages").join(name);
        tool("cp", &["-r", from.to_str().unwrap(), copy.path().to_str().unwrap()]);
    }
    let found = tool("find", &[copy.path().to_str().unwrap(), "-name", "*.so*"]);
    for path in found.lines().map(Path::new) {
        let object = loader::ElfObject::read(path).unwrap();
        let mut list = object.rpath.or(object.runpath).unwrap_or_default().into_vec();
        list.extend(format!(":/{}", "nowhere/".repeat(1000)).bytes());
        let request = EditRequest { needed: NeededEdit::Keep, search: SearchPathEdit::Rpath(list) };
        let bytes = fs::read(path).unwrap();
        let (edited, after) = checked_edit(&bytes, &request, EditRoom { grow: true }).unwrap();
        assert_eq!(edited.tier, Tier::Grown, "{path:?}");
        install(path, &after);
    }
    let program = "import numpy, scipy.linalg, scipy.special, scipy.optimize
a = numpy.random.rand(99, 99)
print(numpy.__file__, numpy.allclose(scipy.linalg.inv(a) @ a, numpy.eye(99)), scipy.special.gamma(5))";
    let paths = [("PYTHONPATH", copy.path().to_str().unwrap())];
    let output = run_for("60", &venv.join("bin/python3"), &["-c", program], &paths);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.starts_with(copy.path().to_str().unwrap()) && said.ends_with("True 24.0\n"),
        "{output:?}"
    );
}
