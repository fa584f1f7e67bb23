//! A SIF of a whole root runs where it is mounted, and one of an environment over it has both.
//!
//! Needs root, for mounts.

#![allow(clippy::unwrap_used)] // A test program; clippy knows only its #[test] functions as such.

mod support;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use image::container::{self, ContainerContent, Sealed};
use image::squash::{ImageOptions, ImageProgress, PathsImage};
use image::{ImageError, Manifest};
use image_format::ext3::Ext3Overlay;
use image_format::sif::{Container, INSPECT_METADATA, Sif, SifObject, SifObjectKind};
use image_format::squash::{Compression, SquashImage};
use serde_json::{Value, json};
use support::{noise, run, seen};

/// Builds a container, and gives it its name.
fn build(
    content: ContainerContent<'_>,
    target: &Path,
    options: &ImageOptions<'_>,
    overlay: Option<&Ext3Overlay>,
) -> Result<(PathsImage, Sealed), ImageError> {
    let (image, built, sealed) = container::build(content, target, options, overlay)?;
    image.keep()?;
    Ok((built, sealed))
}

/// The same of a container with a layer more.
fn with_overlay(
    base: &Path,
    target: &Path,
    overlay: &Ext3Overlay,
    progress: &dyn Fn(ImageProgress),
) -> Result<Sealed, ImageError> {
    let (image, sealed) = container::with_overlay(base, target, overlay, progress)?;
    image.keep()?;
    Ok(sealed)
}

/// A root with a shell and what that needs, and nothing else.
fn shell_root(root: &Path) {
    let libraries = run("ldd", &["/bin/sh".as_ref()]);
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain(["/bin/sh"]) {
        let copy = root.join(&file[1..]);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
}

fn gzip() -> ImageOptions<'static> {
    ImageOptions { compression: Compression::Gzip, ..ImageOptions::default() }
}

fn of_root(root: &Path, container: Container, target: &Path) {
    build(ContainerContent::Root(root, container), target, &gzip(), None).unwrap();
}

fn objects(sif: &Path) -> Vec<SifObject> {
    Sif::read(&File::open(sif).unwrap()).unwrap().objects
}

fn image(sif: &Path, object: &SifObject) -> SquashImage {
    SquashImage::open_part(File::open(sif).unwrap(), object.offset, object.size).unwrap()
}

fn overlay(directories: &[&str]) -> Ext3Overlay {
    let directories = directories.iter().map(PathBuf::from).collect();
    Ext3Overlay { size: 64 << 20, owner: (0, 0), directories, created: 1_700_000_000, sparse: true }
}

/// Mounts all partitions of a SIF as a runtime does, and runs a command in it.
fn run_in(sif: &Path, command: &str) -> String {
    let objects = objects(sif).into_iter().filter(|object| object.kind == SifObjectKind::Partition);
    let mut script = "set -e; cd \"$2\"; layers=; mount -t tmpfs none .\n".to_owned();
    for object in objects {
        let (id, at, size) = (object.id, object.offset, object.size);
        let kind = object.partition.unwrap().filesystem.to_string();
        let mode = if kind == "squashfs" { "ro" } else { "rw" };
        let options = format!("{mode},loop,offset={at},sizelimit={size}");
        script += &format!("mkdir {id}; mount -t {kind} -o {options} \"$1\" {id}\n");
        script += match kind.as_str() {
            "squashfs" => "layers={id}${layers:+:$layers}\n",
            _ => "writable=,upperdir={id}/upper,workdir={id}/work\n",
        }
        .replace("{id}", &id.to_string())
        .as_str();
    }
    script += "mkdir all none; mount -t overlay -o lowerdir=$layers:none$writable none all\n";
    script += &format!("chroot all {command}");
    let place = tempfile::tempdir().unwrap();
    let words = ["-m", "sh", "-c", &script, "sh"].map(OsStr::new);
    run("unshare", &[&words[..], &[sif.as_ref(), place.path().as_ref()]].concat())
}

#[test]
fn a_root_is_run_as_it_was_told() {
    let directory = tempfile::tempdir().unwrap();
    let (root, sif) = (directory.path().join("root"), directory.path().join("x.sif"));
    shell_root(&root);
    let container = Container {
        runscript: Some("echo \"$COLOUR is what $1 likes\"".to_owned()),
        environment: Some("export COLOUR=blue".to_owned()),
        labels: [("version".to_owned(), "2".to_owned())].into(),
        deffile: Some("Bootstrap: scratch\n".to_owned()),
    };
    of_root(&root, container, &sif);
    assert_eq!(run_in(&sif, "/.singularity.d/actions/run she"), "blue is what she likes\n");
    assert_eq!(run_in(&sif, "/.exec sh -c 'echo $COLOUR'"), "blue\n");
    let kinds: Vec<_> = objects(&sif).iter().map(|object| object.kind).collect();
    let texts = [
        SifObjectKind::Deffile,
        SifObjectKind::Environment,
        SifObjectKind::Labels,
        SifObjectKind::Json,
    ];
    assert_eq!(kinds, [&texts[..], &[SifObjectKind::Partition]].concat());
    let primary = objects(&sif).pop().unwrap();
    // All that was in the root, and nothing of it changed.
    let packed = support::read(&image(&sif, &primary));
    for (path, line) in seen(&root).iter().filter(|(path, _)| path.parent().is_some()) {
        let is_grown = ["etc", "lib", "usr"].iter().any(|grown| path == Path::new(grown));
        assert!(is_grown || packed.get(path) == Some(line), "{}", path.display());
    }
    assert_eq!(&fs::read(&sif).unwrap()[..22], b"#!/usr/bin/env run-sin");
    assert_eq!(sif.metadata().unwrap().permissions().mode() & 0o111, 0o111);
}

#[test]
fn links_in_a_root_mean_places_in_the_root() {
    let directory = tempfile::tempdir().unwrap();
    let (root, sif) = (directory.path().join("root"), directory.path().join("x.sif"));
    shell_root(&root);
    symlink("/bin/sh", root.join("bin/absolute")).unwrap();
    symlink("/var/nothing", root.join("bin/dangling")).unwrap();
    let content = ContainerContent::Root(&root, Container::default());
    let (built, _) = build(content, &sif, &gzip(), None).unwrap();
    assert_eq!(built.outside, []);
}

#[test]
fn the_same_root_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    shell_root(&root);
    let images = [1, 16].map(|readers| {
        let sif = directory.path().join(format!("{readers}.sif"));
        let content = ContainerContent::Root(&root, Container::default());
        let layer = overlay(&["/data"]);
        build(content, &sif, &ImageOptions { readers, ..gzip() }, Some(&layer)).unwrap();
        fs::read(sif).unwrap()
    });
    assert!(images[0] == images[1]);
}

#[test]
fn what_a_root_was_told_before_stays_unless_it_is_said_anew() {
    let directory = tempfile::tempdir().unwrap();
    let (root, sif) = (directory.path().join("root"), directory.path().join("x.sif"));
    shell_root(&root);
    let told = root.join(".singularity.d");
    fs::create_dir_all(told.join("env")).unwrap();
    fs::write(told.join("runscript"), "#!/bin/sh\necho old\n").unwrap();
    fs::write(told.join("labels.json"), r#"{"a": "old", "b": "old"}"#).unwrap();
    let labels = [("b".to_owned(), "new".to_owned())].into();
    of_root(&root, Container { labels, ..Container::default() }, &sif);
    assert_eq!(run_in(&sif, "/singularity"), "old\n");
    let objects = objects(&sif);
    let inspect = objects.iter().find(|object| object.name == INSPECT_METADATA).unwrap();
    let text = inspect.start(&File::open(&sif).unwrap(), 1 << 20).unwrap();
    let said: Value = serde_json::from_slice(&text).unwrap();
    let said = &said["data"]["attributes"];
    assert_eq!(said["labels"], json!({"a": "old", "b": "new"}));
    assert_eq!(said["runscript"], "#!/bin/sh\necho old\n");
    of_root(&root, Container { runscript: Some("echo new".into()), ..Container::default() }, &sif);
    assert_eq!(run_in(&sif, "/singularity"), "new\n");
}

#[test]
fn an_environment_lies_over_the_root_at_its_own_place() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().canonicalize().unwrap();
    let (root, base, sif) = (at.join("root"), at.join("base.sif"), at.join("x.sif"));
    shell_root(&root);
    of_root(&root, Container::default(), &base);
    let before = fs::read(&base).unwrap();
    fs::create_dir_all(at.join("env/bin")).unwrap();
    fs::write(at.join("env/bin/tool"), "#!/bin/sh\necho $0\n").unwrap();
    fs::set_permissions(at.join("env/bin/tool"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("/bin/sh", at.join("env/bin/shell")).unwrap();
    symlink("/no/such/python", at.join("env/bin/python")).unwrap();

    let paths = [at.join("env")];
    let layer = overlay(&["/changes"]);
    let content = ContainerContent::Over(&base, &paths);
    let (built, sealed) = build(content, &sif, &gzip(), Some(&layer)).unwrap();
    assert_eq!(fs::read(&base).unwrap(), before);
    assert_eq!(sealed.bytes, sif.metadata().unwrap().len());
    let outside: Vec<_> = built.outside.iter().map(|one| one.what.to_str().unwrap()).collect();
    assert_eq!(outside, ["/no/such/python"], "the base has the shell");

    let tool = at.join("env/bin/tool");
    let command = format!("sh -c '{0}; [ -d /changes ]; echo >/changes/a'", tool.display());
    assert_eq!(run_in(&sif, &command), format!("{}\n", tool.display()));
    let objects = objects(&sif);
    let manifest = Manifest::of(&image(&sif, &objects[2])).unwrap().unwrap();
    assert_eq!(manifest.layout.base(), Path::new("/"));
    assert_eq!(manifest.layout.paths(), paths);
    // The base's own part is as it was: what comes behind its squashfs, too.
    let primary = Manifest::of(&image(&sif, &objects[1])).unwrap().unwrap();
    assert_eq!(primary.layout.base(), root);

    // One more layer that can be written to is one too many, and is said before packing.
    let content = ContainerContent::Over(&sif, &paths);
    let error = build(content, &at.join("y.sif"), &gzip(), Some(&layer)).unwrap_err();
    assert!(matches!(error, ImageError::Closed { .. }), "{error}");
}

#[test]
fn what_would_hide_something_of_the_base_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().canonicalize().unwrap();
    let (root, base, sif) = (at.join("root"), at.join("base.sif"), at.join("x.sif"));
    shell_root(&root);
    let first = at.components().nth(1).unwrap();
    symlink("bin", root.join(first)).unwrap();
    of_root(&root, Container::default(), &base);
    fs::create_dir(at.join("env")).unwrap();
    let paths = [at.join("env")];
    let error = build(ContainerContent::Over(&base, &paths), &sif, &gzip(), None).unwrap_err();
    assert!(matches!(error, ImageError::Unfit { .. }), "{error}");
    assert!(!sif.exists());
}

#[test]
fn directories_above_look_as_in_the_base() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().canonicalize().unwrap();
    let (root, base, sif) = (at.join("root"), at.join("base.sif"), at.join("x.sif"));
    shell_root(&root);
    let twin = root.join(at.strip_prefix("/").unwrap());
    fs::create_dir_all(&twin).unwrap();
    fs::set_permissions(&twin, PermissionsExt::from_mode(0o2750)).unwrap();
    of_root(&root, Container::default(), &base);
    fs::create_dir(at.join("env")).unwrap();
    let paths = [at.join("env")];
    build(ContainerContent::Over(&base, &paths), &sif, &gzip(), None).unwrap();
    let packed = support::read(&image(&sif, &objects(&sif)[2]));
    let line = &packed[at.strip_prefix("/").unwrap()];
    assert!(line.contains("mode 2750"), "{line}");
}

#[test]
fn what_is_no_root_or_no_base_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("env")).unwrap();
    fs::write(at("text"), "text").unwrap();
    let paths = [at("env")];
    let contents = || {
        [
            ContainerContent::Root(&paths[0], Container::default()),
            ContainerContent::Over(Path::new("/dev/null"), &paths),
            ContainerContent::Over(Path::new("/dev/zero"), &paths),
        ]
    };
    for content in contents() {
        build(content, &at("x.sif"), &gzip(), None).unwrap_err();
    }
    build(ContainerContent::Over(&at("text"), &paths), &at("x.sif"), &gzip(), None).unwrap_err();
    shell_root(&at("root"));
    of_root(&at("root"), Container::default(), &at("base.sif"));
    let error =
        build(ContainerContent::Over(&at("base.sif"), &paths), &at("base.sif"), &gzip(), None);
    assert!(matches!(error.unwrap_err(), ImageError::Unfit { .. }));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4, "env, text, root, base");
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let (root, disk) = (directory.path().join("root"), directory.path().join("disk"));
    let base = directory.path().join("base.sif");
    shell_root(&root);
    fs::write(root.join("noise"), noise(6 << 20)).unwrap();
    fs::create_dir(&disk).unwrap();
    of_root(&root, Container::default(), &base);
    let words = ["-t", "tmpfs", "-o", "size=6m", "none"].map(OsStr::new);
    run("mount", &[&words[..], &[disk.as_ref()]].concat());
    let target = disk.join("x.sif");
    let paths = [root.join("noise")];
    let errors = [
        build(ContainerContent::Root(&root, Container::default()), &target, &gzip(), None)
            .unwrap_err(),
        build(ContainerContent::Over(&base, &paths), &target, &gzip(), None).unwrap_err(),
        with_overlay(&base, &target, &overlay(&[]), &|_| {}).unwrap_err(),
    ];
    let left = fs::read_dir(&disk).unwrap().count();
    run("umount", &[disk.as_ref()]);
    for error in errors {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text += &format!(": {error}");
            source = error.source();
        }
        assert!(text.contains("No space left on device"), "{text}");
        assert!(text.contains("x.sif"), "{text}");
    }
    assert_eq!(left, 0);
}
