//! Whatever lies where libraries are looked for: an answer or an error, never a panic, a hang or
//! memory without end.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::real::Run;
use crate::real::build::{Workshop, patchelf, rpath, run};
use loader::simulation::{FoundBy, MissingReason};
use loader::{Disk, ElfError, ElfObject, Errno, LoaderSetting, SettingError, World, simulate};
use testkit::arch::LOADER;

#[test]
fn a_pipe_a_socket_or_a_device_does_not_hold_the_model_up() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    for name in ["pipe", "socket", "zero", "full"] {
        fs::create_dir(shop.path(name)).unwrap();
    }
    run(Command::new("mkfifo").arg(shop.path("pipe/libany.so")));
    let _socket = UnixListener::bind(shop.path("socket/libany.so")).unwrap();
    symlink("/dev/zero", shop.path("zero/libany.so")).unwrap();
    symlink("/dev/full", shop.path("full/libany.so")).unwrap();
    for name in ["pipe", "socket", "zero", "full"] {
        let list = format!("{0}/{name}:{0}/lib", shop.path("").display());
        let program = shop.program(&format!("for-{name}"), &[&library], &[&rpath(&list)]);
        let simulation = Run::of(&program).predict(&Disk::new());
        assert_eq!(simulation.missing.len(), 1, "{name}");
        // The real loader would wait for a writer of the pipe for ever.
        if name != "pipe" {
            Run::of(&program).assert_true();
        }
    }
    let disk = Disk::new();
    assert!(matches!(disk.bytes(&shop.path("pipe/libany.so")), Err(Errno(libc::EINVAL))));
    assert!(matches!(disk.bytes(Path::new("/dev/zero")), Err(Errno(libc::EINVAL))));
}

#[test]
fn a_real_path_is_what_the_kernel_says_where_directories_are_listed_too() {
    let shop = Workshop::new();
    fs::create_dir_all(shop.path("a/b/c")).unwrap();
    fs::write(shop.path("a/b/file"), "").unwrap();
    symlink("a/b", shop.path("short")).unwrap();
    symlink("../b/file", shop.path("a/b/again")).unwrap();
    symlink("..", shop.path("a/b/up")).unwrap();
    let names = [
        "a",
        "a/b",
        "a/b/",
        "a/b/file",
        "a/b/file/",
        "a/b/file/x",
        "a/b/c",
        "a//b",
        "a/b/again",
        "a/./b",
        "a/b/..",
        "a/b/../b/file",
        "a/b/up",
        "a/b/up/b/c",
        "a/b/c/.",
        "short",
        "short/file",
        "short/again",
        "short/c/../up",
        "a/none",
        "short/none",
        "",
    ];
    let all = names.map(|name| shop.path(name));
    for listed in [&[][..], &["a/b"], &["", "a", "a/b"], &["", "a", "a/b", "short", "short/up"]] {
        let disk = Disk::new();
        for directory in listed {
            assert!(disk.entries_of(&shop.path(directory)).is_some());
        }
        for path in &all {
            let real = fs::canonicalize(path).map_err(Errno::from);
            assert_eq!(disk.real_path(path), real, "{} {listed:?}", path.display());
            // Once more, from what is known.
            assert_eq!(disk.real_path(path), real, "{}", path.display());
        }
    }
}

#[test]
fn what_has_no_loader_says_so() {
    let shop = Workshop::new();
    let statically = shop.program("static", &[], &["-static"]);
    let pie = shop.program("static-pie", &[], &["-static-pie"]);
    let library = shop.library("libany.so", &[], &[]);
    let script = shop.path("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let disk = Disk::new();
    // What a disk knows it does not ask again, so that each question gets a new one.
    let fails = |path: &Path| LoaderSetting::for_program(&Disk::new(), path).unwrap_err();
    for path in [&statically, &pie] {
        assert!(matches!(fails(path), SettingError::Static(_)), "{}", path.display());
    }
    // A library names no loader; programs beside it do, the usual one.
    let usual = LoaderSetting::for_program(&disk, &library).unwrap();
    assert_eq!(usual.interpreter, Path::new(LOADER));
    assert!(matches!(fails(&script), SettingError::Elf(..)));
    assert!(matches!(fails(Path::new("/")), SettingError::Elf(..)));
    assert!(matches!(fails(Path::new("/absent")), SettingError::Open(..)));
    let program = shop.program("program", &[], &[]);
    patchelf(&program, &["--set-interpreter", "/absent/ld.so"]);
    let said = format!("the loader of {}: ", program.display());
    assert_eq!(fails(&program).to_string(), format!("{said}cannot open /absent/ld.so: ENOENT"));
    patchelf(&program, &["--set-interpreter", "/bin/true"]);
    let unknown = format!("{said}/bin/true is a loader that is not known");
    assert_eq!(fails(&program).to_string(), unknown);
    let setting = Run::of(shop.program("good", &[], &[])).setting(&disk);
    assert!(simulate(&disk, &script, &setting).is_err());
    assert!(simulate(&disk, Path::new("/absent"), &setting).is_err());
}

#[test]
fn audited_programs_are_refused_rather_than_told_wrong() {
    let shop = Workshop::new();
    let program = shop.program("program", &[], &[]);
    let disk = Disk::new();
    let setting = Run::of(&program).with("LD_AUDIT", "libaudit.so").setting(&disk);
    assert!(simulate(&disk, &program, &setting).is_err());
    let audited = shop.program("audited", &[], &["-Wl,--audit,libaudit.so"]);
    assert!(simulate(&disk, &audited, &Run::of(&audited).setting(&disk)).is_err());
}

#[test]
fn libraries_in_a_circle_and_a_library_that_needs_itself_are_loaded_once() {
    let shop = Workshop::new();
    let one = shop.library("lib/libone.so", &[], &[]);
    let two = shop.library("lib/libtwo.so", &[&one], &[]);
    patchelf(&one, &["--add-needed", "libtwo.so", "--add-needed", "libone.so"]);
    let program = shop.program("program", &[&two], &[&rpath(shop.path("lib").to_str().unwrap())]);
    Run::of(&program).assert_true();
    assert_eq!(Run::of(&program).predict(&Disk::new()).objects.len(), 5);
}

/// A world in which every library is found and needs two more: only a limit ends it.
struct Endless;

impl World for Endless {
    fn open(&self, path: &Path) -> Result<loader::OpenedFile, Errno> {
        let name = path.file_name().unwrap().to_str().unwrap();
        let number: u64 =
            name.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap_or(1);
        let mut object = ElfObject::read(Path::new("/bin/true")).unwrap();
        (object.kind, object.flags_1) = (3, 0);
        let next = (1..=2u64).map(|step| loader::object::Dependency {
            tag: loader::object::Tag::Needed,
            name: format!("lib{}.so", (number * 2 + step) % 5000).into(),
        });
        object.dependencies = next.collect();
        let id = loader::FileId { device: 1, inode: number };
        let identity = Some(object.identity());
        Ok(loader::OpenedFile {
            id,
            set_user_id: false,
            seen: None,
            identity,
            object: Ok(Arc::new(object)),
        })
    }
    fn is_directory(&self, _: &Path) -> Result<bool, Errno> {
        Ok(true)
    }
    fn real_path(&self, path: &Path) -> Result<PathBuf, Errno> {
        Ok(path.to_owned())
    }
    fn bytes(&self, _: &Path) -> Result<Arc<[u8]>, Errno> {
        Err(Errno(libc::ENOENT))
    }
}

#[test]
fn thousands_of_libraries_take_seconds_at_most() {
    let setting = Run::of("/bin/true").setting(&Disk::new());
    let start = processor_time();
    let simulation = simulate(&Endless, Path::new("/bin/true"), &setting).unwrap();
    assert!(simulation.objects.len() > 4000);
    let took = processor_time() - start;
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// A world in which nothing is found, but every directory exists.
struct Empty(ElfObject);

impl World for Empty {
    fn open(&self, path: &Path) -> Result<loader::OpenedFile, Errno> {
        if path != Path::new("/program") {
            return Err(Errno(libc::ENOENT));
        }
        let id = loader::FileId { device: 1, inode: 1 };
        let (identity, object) = (Some(self.0.identity()), Ok(Arc::new(self.0.clone())));
        Ok(loader::OpenedFile { id, set_user_id: false, seen: None, identity, object })
    }
    fn is_directory(&self, _: &Path) -> Result<bool, Errno> {
        Ok(true)
    }
    fn real_path(&self, path: &Path) -> Result<PathBuf, Errno> {
        Ok(path.to_owned())
    }
    fn bytes(&self, _: &Path) -> Result<Arc<[u8]>, Errno> {
        Err(Errno(libc::ENOENT))
    }
}

#[test]
fn ten_thousand_names_in_ten_thousand_directories_are_refused_before_memory_is_gone() {
    let mut object = ElfObject::read(Path::new("/bin/true")).unwrap();
    let directories: Vec<String> = (0..10_000).map(|number| format!("/f{number}")).collect();
    object.rpath = Some(directories.join(":").into());
    let one = object.dependencies[0].clone();
    let named =
        |number| loader::object::Dependency { name: format!("l{number}").into(), ..one.clone() };
    object.dependencies = (0..10_000).map(named).collect();
    let shop = Workshop::of("musl-gcc");
    let musl = shop.program("program", &[], &[]);
    for program in [Path::new("/bin/true"), &musl] {
        let setting = Run::of(program).setting(&Disk::new());
        let refused =
            simulate(&Empty(object.clone()), Path::new("/program"), &setting).unwrap_err();
        assert!(matches!(refused, loader::SimulateError::Excessive(_)));
    }
}

#[test]
fn a_real_library_cut_anywhere_or_changed_is_an_error_or_an_object() {
    let shop = Workshop::new();
    let library = shop.library("libany.so", &[], &[&rpath("/a:$ORIGIN"), "-lc"]);
    let whole = fs::read(&library).unwrap();
    for length in (0..whole.len()).step_by(7) {
        let _ = ElfObject::parse(&whole[..length]);
    }
    let mut seed = 88_172_645_463_325_252u64;
    let mut outcomes = [0; 2];
    for _ in 0..30_000 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            // The headers, and the dynamic section with its texts, far behind.
            let at = if seed.is_multiple_of(3) {
                seed as usize % 800
            } else {
                seed as usize % bytes.len()
            };
            bytes[at] = (seed >> 24) as u8;
        }
        outcomes[usize::from(ElfObject::parse(&bytes).is_ok())] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 1000), "one-sided: {outcomes:?}");
}

#[test]
fn a_file_that_is_cut_while_it_lies_there_is_truncated_not_fatal() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    let bytes = fs::read(&library).unwrap();
    fs::write(&library, &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(
        ElfObject::read(&library),
        Err(ElfError::Truncated | ElfError::Damaged(_)) | Ok(_)
    ));
    let program = shop.program("program", &[], &[]);
    patchelf(&program, &["--add-needed", library.to_str().unwrap()]);
    let simulation = Run::of(&program).predict(&Disk::new());
    assert!(
        simulation.missing.iter().all(|missing| matches!(missing.why, MissingReason::Unfit(..)))
    );
    assert!(simulation.objects.iter().all(|object| object.how != FoundBy::Default));
}

/// How long this thread has had a processor (proc_pid_schedstat(5)): however busy the machine is,
/// the same work takes about as much.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_once(' ').unwrap().0.parse().unwrap())
}
