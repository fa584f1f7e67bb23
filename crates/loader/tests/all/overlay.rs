//! A plan simulated before it is applied says what the real loader does once it is.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::real::Run;
use crate::real::build::{Workshop, patchelf, rpath, runpath};
use loader::simulation::FoundBy;
use loader::{Disk, ElfObject, Errno, FileId, PlannedWorld, World, simulate};

#[test]
fn a_planned_farm_of_links_is_simulated_as_it_will_be() {
    let shop = Workshop::new();
    let low = shop.library("b/lib/liblow.so", &[], &[]);
    let high =
        shop.library("a/lib/libhigh.so", &[&low], &[&runpath("$ORIGIN/../../b/lib:$ORIGIN")]);
    let list = rpath(shop.path("new/farm").to_str().unwrap());
    let program = shop.program("program", &[&high], &[&list]);
    let run = Run::of(&program);
    let disk = Disk::new();
    assert!(run.predict(&disk).fatal.is_some(), "there is no farm yet");
    let mut plan = PlannedWorld::new(&disk);
    plan.directory(&shop.path("new/farm"));
    plan.link(&shop.path("new/farm/libhigh.so"), &high);
    plan.link(&shop.path("new/farm/liblow.so"), Path::new("../../b/lib/liblow.so"));
    let planned = simulate(&plan, &program, &run.setting(&disk)).unwrap();
    fs::create_dir_all(shop.path("new/farm")).unwrap();
    symlink(&high, shop.path("new/farm/libhigh.so")).unwrap();
    symlink("../../b/lib/liblow.so", shop.path("new/farm/liblow.so")).unwrap();
    run.assert_true();
    let applied = run.predict(&Disk::new());
    assert_eq!(planned.probes, applied.probes);
    assert_eq!(planned.objects.len(), 5);
    assert!(planned.objects.iter().any(|object| object.id == id(&low)));
}

fn id(path: &Path) -> FileId {
    let metadata = fs::metadata(path).unwrap();
    FileId { device: metadata.dev(), inode: metadata.ino() }
}

#[test]
fn a_planned_edit_holds_under_every_path_of_the_file() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    symlink("lib", shop.path("link")).unwrap();
    let program =
        shop.program("program", &[&library], &[&rpath(shop.path("link").to_str().unwrap())]);
    let copy = shop.path("copy.so");
    fs::copy(&library, &copy).unwrap();
    patchelf(&copy, &["--add-needed", "libm.so.6"]);
    let disk = Disk::new();
    let mut plan = PlannedWorld::new(&disk);
    plan.replace(id(&library), ElfObject::read(&copy).unwrap());
    let run = Run::of(&program);
    let planned = simulate(&plan, &program, &run.setting(&disk)).unwrap();
    fs::rename(&copy, &library).unwrap();
    run.assert_true();
    assert_eq!(planned.probes, run.predict(&Disk::new()).probes);
    assert!(planned.objects.iter().any(|object| object.asked_as == "libm.so.6"));
}

#[test]
fn a_planned_file_is_found_through_existing_links_and_steps_back() {
    let shop = Workshop::new();
    let library = shop.library("lib/libany.so", &[], &[]);
    fs::create_dir(shop.path("real")).unwrap();
    symlink("real", shop.path("link")).unwrap();
    let program = shop.program("program", &[&library], &[&rpath("$ORIGIN/link/deep/../deep")]);
    let disk = Disk::new();
    let mut plan = PlannedWorld::new(&disk);
    plan.directory(&shop.path("link/deep"));
    plan.file(&shop.path("link/deep/libany.so"), ElfObject::read(&library).unwrap());
    let setting = Run::of(&program).setting(&disk);
    let planned = simulate(&plan, &program, &setting).unwrap();
    assert_eq!(planned.objects[1].how, FoundBy::Rpath { of: 0 });
    assert_eq!(plan.is_directory(&shop.path("real/deep/..")), Ok(true));
    assert_eq!(plan.real_path(&shop.path("link/deep")), Ok(shop.path("real/deep")));
    assert_eq!(plan.open(&shop.path("link/deep/absent")).unwrap_err(), Errno(2));
    assert_eq!(plan.open(&shop.path("link/deep/libany.so/x")).unwrap_err(), Errno(20));
    assert_eq!(disk.open(&shop.path("real/deep/libany.so")).unwrap_err(), Errno(2));
}

#[test]
fn a_planned_loop_of_links_ends_as_the_kernel_ends_it() {
    let disk = Disk::new();
    let mut plan = PlannedWorld::new(&disk);
    plan.link(Path::new("/tmp/one"), Path::new("two"));
    plan.link(Path::new("/tmp/two"), Path::new("one"));
    assert_eq!(plan.open(Path::new("/tmp/one")).unwrap_err(), Errno(40));
    assert_eq!(plan.is_directory(Path::new("/tmp/one/x")), Err(Errno(40)));
}
