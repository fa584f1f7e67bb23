//! The test of truth: the model's probes are those of the real loader, for every program of the
//! distribution that can be started harmlessly.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::real::{Run, difference};
use loader::{Disk, ElfObject};

/// Programs that do something even when asked for their version, and why. The name, or how it
/// starts if it ends in a star.
const DENIED: &[(&str, &str)] = &[
    ("agetty", "takes a terminal"),
    ("getty", "takes a terminal"),
    ("sulogin", "takes a terminal"),
    ("init", "starts the system"),
    ("telinit", "changes the run level"),
    ("halt", "stops the machine"),
    ("poweroff", "stops the machine"),
    ("reboot", "stops the machine"),
    ("shutdown", "stops the machine"),
    ("runlevel", "talks to init"),
    ("jconsole", "waits for a display"),
    ("kexec", "starts another kernel"),
    ("fsfreeze", "freezes a filesystem"),
    ("killall5", "kills everything"),
    ("pivot_root", "moves the root"),
    ("switch_root", "deletes the root"),
    ("slattach", "takes a terminal"),
    ("wall", "writes on all terminals"),
    ("ldconfig", "rewrites the cache that others read meanwhile"),
    ("llvm-PerfectShuffle", "computes for minutes"),
    ("mkfs*", "makes filesystems"),
    ("mkswap", "makes swap space"),
    ("swap*", "changes swap space"),
    ("systemd*", "talks to the system's manager"),
    ("udev*", "talks to the system's manager"),
];

fn is_denied(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap_or_default();
    DENIED.iter().any(|(denied, _)| match denied.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *denied,
    })
}

/// Every dynamically linked program, once.
fn programs() -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let mut programs = Vec::new();
    for directory in ["/usr/bin", "/usr/sbin"] {
        let mut entries: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if !metadata.is_file() || metadata.mode() & 0o111 == 0 || is_denied(&path) {
                continue;
            }
            let Ok(object) = ElfObject::read(&path) else { continue };
            let dynamic = object.is_dynamic && object.interpreter.is_some();
            if dynamic && seen.insert((metadata.dev(), metadata.ino())) {
                programs.push(path);
            }
        }
    }
    programs
}

#[test]
fn every_program_of_the_distribution_is_predicted_probe_for_probe() {
    let (programs, disk) = (programs(), Disk::new());
    let (next, compared, probes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = Run { arguments: vec!["--version"], ..Run::of(program) };
                    let observed = run.observed();
                    let mut found = difference(&run.predicted(&disk), &observed);
                    // The machine may have changed: a package was installed meanwhile.
                    if found.is_some() {
                        found = difference(&run.predicted(&Disk::new()), &run.observed());
                    }
                    if let Some(found) = found {
                        wrong.lock().unwrap().push(format!("{}: {found}", program.display()));
                    }
                    compared.fetch_add(1, Ordering::Relaxed);
                    probes.fetch_add(observed.len(), Ordering::Relaxed);
                }
            });
        }
    });
    let (compared, wrong) = (compared.into_inner(), wrong.into_inner().unwrap());
    println!("{compared} programs, {} probes, {} wrong", probes.into_inner(), wrong.len());
    assert!(
        wrong.is_empty(),
        "{} wrong, among them\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
    // The Arm machine of setup/arm has fewer programs.
    let least = if cfg!(target_arch = "aarch64") { 200 } else { 300 };
    assert!(compared >= least, "only {compared} programs to compare");
}
