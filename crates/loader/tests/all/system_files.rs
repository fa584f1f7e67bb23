//! ld.so.cache, ld.so.preload and gained rights: what only root can set up. The real loader runs
//! in a mount namespace of its own, over a copy of /etc.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::real::build::{Workshop, rpath, run, runpath};
use crate::real::{Run, difference};
use loader::simulation::FoundBy;
use loader::{Disk, Errno, OpenedFile, Simulation, World, simulate};
use testkit::arch::{LIB, NARROW};

/// The real filesystem, but for /etc.
struct OtherEtc {
    disk: Disk,
    etc: PathBuf,
}

impl OtherEtc {
    fn real(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/etc") {
            Ok(below) => self.etc.join(below),
            Err(_) => path.to_owned(),
        }
    }
}

impl World for OtherEtc {
    fn open(&self, path: &Path) -> Result<OpenedFile, Errno> {
        self.disk.open(&self.real(path))
    }
    fn is_directory(&self, path: &Path) -> Result<bool, Errno> {
        self.disk.is_directory(&self.real(path))
    }
    fn real_path(&self, path: &Path) -> Result<PathBuf, Errno> {
        self.disk.real_path(&self.real(path))
    }
    fn bytes(&self, path: &Path) -> Result<Arc<[u8]>, Errno> {
        self.disk.bytes(&self.real(path))
    }
}

/// The model is true with this directory as /etc.
pub fn true_simulation(program: &Run, etc: &Path) -> Simulation {
    let world = OtherEtc { disk: Disk::new(), etc: etc.to_owned() };
    let setting = program.setting(&world.disk);
    let simulation = simulate(&world, &program.program, &setting).unwrap();
    let observed = program.clone().over_etc(etc).observed();
    let predicted = crate::real::words(&simulation, &setting);
    if let Some(difference) = difference(&predicted, &observed) {
        panic!("{}: {difference}", program.program.display());
    }
    simulation
}

/// A directory for /etc, with a cache of the libraries in `directories`.
pub fn etc(shop: &Workshop, directories: &[PathBuf], options: &[&str]) -> PathBuf {
    let etc = shop.path("etc");
    fs::create_dir_all(&etc).unwrap();
    let list: Vec<&str> = directories.iter().map(|directory| directory.to_str().unwrap()).collect();
    fs::write(etc.join("ld.so.conf"), list.join("\n")).unwrap();
    run(Command::new("/sbin/ldconfig")
        .args(["-X", "-f"])
        .arg(etc.join("ld.so.conf"))
        .arg("-C")
        .arg(etc.join("ld.so.cache"))
        .args(options));
    etc
}

#[test]
fn the_cache_names_the_best_library_for_the_cpu() {
    let shop = Workshop::new();
    let lib = shop.path("lib");
    let library = shop.library("lib/libany.so.1", &[], &[]);
    let program = shop.program("program", &[&library], &[]);
    let levels = [
        "",
        "glibc-hwcaps/x86-64-v2",
        "glibc-hwcaps/x86-64-v3",
        "glibc-hwcaps/x86-64-v4",
        "atomics",
    ];
    for level in levels {
        shop.library(&format!("lib/{level}/libany.so.1"), &[], &[]);
        shop.library("lib/libany.so.1.9", &[], &["no soname", "-Wl,-soname,libany.so.10"]);
        for format in ["new", "compat"] {
            let etc = etc(&shop, std::slice::from_ref(&lib), &["-c", format]);
            let simulation = true_simulation(&Run::of(&program), &etc);
            let any = simulation.objects.iter().find(|object| object.asked_as == "libany.so.1");
            assert_eq!(any.unwrap().how, FoundBy::Cache);
            for feature in ["-AVX512F", "-AVX2", "-SSE4_2"] {
                let tunable = format!("glibc.cpu.hwcaps={feature}");
                true_simulation(&Run::of(&program).with("GLIBC_TUNABLES", tunable), &etc);
            }
        }
    }
}

#[test]
fn names_with_numbers_are_found_in_a_large_cache() {
    let shop = Workshop::new();
    let names = [
        "liba.so.1",
        "liba.so.2",
        "liba.so.10",
        "liba.so.010",
        "liba1.so",
        "liba10.so",
        "liba2.so",
    ];
    let libraries: Vec<_> =
        names.iter().map(|name| shop.library(&format!("lib/{name}"), &[], &[])).collect();
    let needs: Vec<&Path> = libraries.iter().map(PathBuf::as_path).collect();
    let program = shop.program("program", &needs, &[]);
    let directories = [shop.path("lib"), format!("/usr{LIB}").into(), "/lib32".into()];
    let simulation = true_simulation(&Run::of(program), &etc(&shop, &directories, &[]));
    assert!(simulation.missing.is_empty());
}

/// By whether this machine's plain `char` is signed the cache is sorted, and searched.
#[test]
fn names_beyond_ascii_are_found_where_this_machine_s_ldconfig_puts_them() {
    let shop = Workshop::new();
    let names = [
        "libq.so",
        "libq.so\u{e9}",
        "lib\u{e9}.so",
        "lib\u{e9}a.so",
        "lib\u{ff}.so",
        "liba.so",
        "libz.so",
    ];
    let libraries = names.map(|name| shop.library(&format!("lib/{name}"), &[], &[]));
    let needs: Vec<&Path> = libraries.iter().map(PathBuf::as_path).collect();
    let program = shop.program("program", &needs, &[]);
    for more in [vec![], vec![format!("/usr{LIB}").into()]] {
        let directories = [vec![shop.path("lib")], more].concat();
        let simulation = true_simulation(&Run::of(&program), &etc(&shop, &directories, &[]));
        let of_cache = simulation.objects.iter().filter(|object| object.how == FoundBy::Cache);
        let of_cache: Vec<_> = of_cache.map(|object| object.asked_as.as_os_str()).collect();
        assert!(names.iter().all(|name| of_cache.contains(&name.as_ref())), "{of_cache:?}");
    }
}

#[test]
fn what_the_cache_names_may_be_gone_or_wrong_and_the_cache_may_be_missing_or_damaged() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so.1", &[], &[]);
    let program = shop.program("program", &[&library], &[]);
    let etc = etc(&shop, &[shop.path("lib")], &[]);
    let cache = fs::read(etc.join("ld.so.cache")).unwrap();
    fs::remove_file(&library).unwrap();
    true_simulation(&Run::of(&program), &etc);
    shop.library("lib/libany.so.1", &[], &[NARROW.unwrap_or("-s")]);
    true_simulation(&Run::of(&program), &etc);
    fs::write(&library, "no library").unwrap();
    true_simulation(&Run::of(&program), &etc);
    shop.library("lib/libany.so.1", &[], &[]);
    let mut other_order = cache.clone();
    other_order[28] = 3;
    let mut many = cache.clone();
    many[23] = 0x7f;
    for damaged in
        [&b""[..], b"glibc-ld.so.cache1.1", &cache[..40], &cache[..60], &other_order, &many]
    {
        fs::write(etc.join("ld.so.cache"), damaged).unwrap();
        true_simulation(&Run::of(&program), &etc);
    }
    fs::remove_file(etc.join("ld.so.cache")).unwrap();
    true_simulation(&Run::of(&program), &etc);
}

#[test]
fn nodefaultlib_takes_what_the_cache_has_outside_the_system_directories() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so.1", &[], &["-nostdlib"]);
    let program = shop.program("program", &[&library], &["-Wl,-z,nodefaultlib", &rpath(LIB)]);
    let simulation = true_simulation(&Run::of(program), &etc(&shop, &[shop.path("lib")], &[]));
    assert_eq!(simulation.objects[1].how, FoundBy::Cache);
}

#[test]
fn the_preload_file_is_read_after_the_environment() {
    let shop = Workshop::new();
    let one = shop.library("lib/libone.so", &[], &[]);
    let two = shop.library("lib/libtwo.so", &[], &[]);
    let program = shop.program("program", &[], &[]);
    let etc = etc(&shop, &[shop.path("lib")], &[]);
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let contents = [
        format!("{one}\n"),
        format!("{one} {two}"),
        format!("# {one}\n{two} # {one}\n\n"),
        String::new(),
        format!("\t{one}:{two}\n/absent\nlibone.so\n"),
        "#".to_owned(),
        one.to_owned(),
    ];
    for content in contents {
        fs::write(etc.join("ld.so.preload"), &content).unwrap();
        true_simulation(&Run::of(&program), &etc);
        true_simulation(&Run::of(&program).with("LD_PRELOAD", two), &etc);
    }
    fs::remove_file(etc.join("ld.so.preload")).unwrap();
    fs::create_dir(etc.join("ld.so.preload")).unwrap();
    true_simulation(&Run::of(&program), &etc);
}

#[test]
fn gained_rights_make_the_loader_distrust_what_the_caller_controls() {
    let shop = Workshop::new();
    fs::set_permissions(shop.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let library = shop.library("lib/libany.so", &[], &[]);
    let lists = ["$ORIGIN/lib", "/nowhere", "$ORIGIN/../../lib:/x", "$LIB:/usr/$LIB", "/a/$ORIGIN"];
    for list in lists {
        for kind in [rpath, runpath] {
            let program = shop.program("program", &[&library], &[&kind(list)]);
            chown(&program, None, Some(42)).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o2755)).unwrap();
            let run = Run::of(&program).with("LD_LIBRARY_PATH", shop.path("lib"));
            assert!(run.setting(&Disk::new()).secure);
            run.assert_true();
            run.clone().with("LD_PRELOAD", format!("libm.so.6 {LIB}/libz.so.1")).assert_true();
            run.with("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2").assert_true();
        }
    }
    let program = shop.program("named", &[], &[]);
    crate::real::build::patchelf(&program, &["--add-needed", "$ORIGIN/lib/libany.so"]);
    chown(&program, None, Some(42)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o2755)).unwrap();
    Run::of(&program).assert_true();
}
