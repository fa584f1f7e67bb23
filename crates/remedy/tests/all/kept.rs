//! What a file has is kept, when it is patched and when that is undone; or the plan is refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use crate::scene::*;
use remedy::{Error, Plan, Step};
use rustix::fs::IFlags;

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn refused(scene: &EditedFiles, steps: Vec<Step>, reason: &str) {
    let before = (scene.picture(), scene.entries());
    let error = scene.apply(steps).unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
    assert_eq!((scene.picture(), scene.entries()), before);
}

/// What `describe` says of a file is the same before, when it is patched, and when it is undone.
#[track_caller]
fn kept(scene: &EditedFiles, file: &Path, describe: impl Fn() -> String) {
    let before = describe();
    let applied = scene.apply(vec![patch(file, "old", "new")]).unwrap();
    assert_eq!(bytes(file), b"new");
    assert_eq!(describe(), before);
    scene.undo(&applied.id).unwrap();
    assert_eq!(bytes(file), b"old");
    assert_eq!(describe(), before);
}

fn stat(file: &Path) -> String {
    let found = fs::metadata(file).unwrap();
    let times = (found.atime(), found.atime_nsec(), found.mtime(), found.mtime_nsec());
    format!("{:o} {} {} {times:?}", found.mode(), found.uid(), found.gid())
}

#[test]
fn permissions_and_times_are_kept_to_the_nanosecond() {
    let scene = EditedFiles::new();
    for mode in [0o400, 0o644, 0o755, 0o000, 0o1711] {
        let file = scene.file(format!("{mode:o}"), "old");
        run(&["touch", "-m", "-d", "2001-02-03 04:05:06.123456789", word(&file)]);
        run(&["touch", "-a", "-d", "1999-12-31 23:59:59.987654321", word(&file)]);
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let before = stat(&file);
        let applied = scene.apply(vec![patch(&file, "old", "new")]).unwrap();
        assert_eq!(stat(&file), before);
        scene.undo(&applied.id).unwrap();
        assert_eq!(stat(&file), before);
    }
}

/// Three blocks in 200 MB: at the start, in the midst, and nothing behind.
fn sparse(scene: &EditedFiles, name: &str) -> std::path::PathBuf {
    let file = scene.file(name, "old");
    let open = fs::File::options().write(true).open(&file).unwrap();
    open.write_all_at(&[7; 5000], 40 << 20).unwrap();
    open.set_len(200 << 20).unwrap();
    open.sync_all().unwrap();
    file
}

fn blocks(file: &Path) -> u64 {
    fs::metadata(file).unwrap().blocks()
}

#[test]
fn holes_stay_holes_and_access_times_stay() {
    let scene = EditedFiles::new();
    let file = sparse(&scene, "file");
    let removed = sparse(&scene, "removed");
    for file in [&file, &removed] {
        run(&["touch", "-a", "-d", "1999-12-31 23:59:59.987654321", word(file)]);
    }
    let before = (stat(&file), blocks(&file), remedy::Digest::of(&bytes_quietly(&file)));
    let removed_before = (stat(&removed), blocks(&removed));
    assert!(before.1 < 100, "{} blocks", before.1);
    let Step::Patch { path, also, seen, edits } = patch(&file, "old", "new") else { panic!() };
    let mut edits = edits.to_vec();
    // Into a hole, across its end, and behind the end of the file.
    for (offset, old, new) in [
        (20 << 20, vec![0; 9], b"in a hole".to_vec()),
        ((40 << 20) - 4, [vec![0; 4], vec![7; 4]].concat(), b"the edge".to_vec()),
        (200 << 20, vec![], b"and more".to_vec()),
    ] {
        edits.push(remedy::Edit { offset, old, new });
    }
    let steps = vec![
        Step::Patch { path, also, seen, edits: edits.into() },
        Step::Remove { path: removed.clone() },
    ];
    let applied = scene.apply(steps).unwrap();
    assert_eq!(stat(&file), before.0);
    assert!(blocks(&file) <= before.1 + 3 * 16, "{} blocks", blocks(&file));
    let content = bytes_quietly(&file);
    assert_eq!(&content[20 << 20..(20 << 20) + 9], b"in a hole");
    assert_eq!(&content[(40 << 20) - 4..(40 << 20) + 5], b"the edge\x07");
    assert_eq!(&content[200 << 20..], b"and more");
    scene.undo(&applied.id).unwrap();
    let after = (stat(&file), blocks(&file), remedy::Digest::of(&bytes_quietly(&file)));
    assert_eq!(after, before);
    assert_eq!((stat(&removed), blocks(&removed)), removed_before);
}

/// Directories of long ago, in each of which there is a file.
fn old_directories(scene: &EditedFiles, names: &[&str]) -> Vec<std::path::PathBuf> {
    let directory = |name: &&str| {
        let directory = scene.file(format!("{name}/file"), "old").parent().unwrap().to_owned();
        run(&["touch", "-m", "-d", "2001-02-03 04:05:06.123456789", word(&directory)]);
        run(&["touch", "-a", "-d", "1999-12-31 23:59:59.987654321", word(&directory)]);
        directory
    };
    names.iter().map(directory).collect()
}

#[test]
fn a_directory_in_which_bytes_are_patched_keeps_its_times() {
    let scene = EditedFiles::new();
    let directory = &old_directories(&scene, &["patched"])[0];
    let before = stat(directory);
    let applied = scene.apply(vec![patch(&directory.join("file"), "old", "new")]).unwrap();
    assert_eq!(stat(directory), before);
    scene.undo(&applied.id).unwrap();
    assert_eq!(stat(directory), before);
}

#[test]
fn a_directory_in_which_files_come_and_go_has_its_times_again_unless_others_changed_it_since() {
    let scene = EditedFiles::new();
    let directories = old_directories(&scene, &["added", "removed", "replaced", "others"]);
    let stats = || directories.iter().map(|directory| stat(directory)).collect::<Vec<_>>();
    let before = stats();
    let [added, removed, replaced, others] = &directories[..] else { panic!() };
    let new = |path| Step::Create { path, mode: 0o644, content: b"new".to_vec() };
    let steps = vec![
        Step::Directory { path: added.join("sub"), mode: 0o755 },
        new(added.join("sub/note")),
        Step::Remove { path: removed.join("file") },
        Step::Replace { path: replaced.join("file"), mode: 0o644, content: vec![] },
        new(others.join("note")),
    ];
    let large = remedy::Options { large: recording::ByteUnits(1), ..scene.options() };
    let applied = remedy::apply(&plan(steps), &large).unwrap();
    for directory in [added, removed, replaced, others] {
        assert!(!before.contains(&stat(directory)), "its time is that of the change");
    }
    let more = remedy::extend(&applied.id, &plan(vec![new(added.join("more"))]), &large).unwrap();
    fs::write(others.join("theirs"), "").unwrap();
    let theirs = fs::metadata(others).unwrap().modified().unwrap();
    scene.undo(&more.id).unwrap();
    assert_eq!(stats()[..3], before[..3]);
    assert!(fs::metadata(others).unwrap().modified().unwrap() >= theirs);
}

#[test]
fn an_application_that_fails_leaves_the_times_of_directories() {
    let scene = EditedFiles::new();
    let directory = &old_directories(&scene, &["kept"])[0];
    let before = stat(directory);
    let Step::Patch { path, also, seen, edits } = patch(&directory.join("file"), "old", "new")
    else {
        panic!()
    };
    let seen = remedy::Seen { digest: Some(remedy::Digest::of(b"other")), ..seen };
    let failure = scene.apply(vec![Step::Patch { path, also, seen, edits }]).unwrap_err();
    assert!(failure.to_string().contains("another content"), "{failure}");
    assert_eq!(stat(directory), before);
}

/// What a file holds; looking at it is no access.
fn bytes_quietly(file: &Path) -> Vec<u8> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let mut bytes = Vec::new();
    let open = fs::File::options().read(true).custom_flags(libc::O_NOATIME).open(file);
    open.unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn another_owner_is_kept_by_root() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    chown(&file, Some(NOBODY), Some(7)).unwrap();
    let before = stat(&file);
    let applied = scene.apply(vec![patch(&file, "old", "new")]).unwrap();
    assert_eq!(stat(&file), before);
    scene.undo(&applied.id).unwrap();
    assert_eq!(stat(&file), before);
}

#[test]
fn an_acl_is_kept_and_one_that_the_directory_gives_to_new_files_is_not_taken_on() {
    let scene = EditedFiles::new();
    let (with, without) = (scene.file("with", "old"), scene.file("without", "old"));
    run(&["setfacl", "-m", "u:65534:rw,g:7:r,m:r", word(&with)]);
    run(&["setfacl", "-d", "-m", "u:12345:rwx", word(&scene.at(""))]);
    let acl = |file: &Path| run(&["getfacl", "-cnp", word(file)]);
    assert!(acl(&with).contains("user:65534:rw-"));
    kept(&scene, &with, || acl(&with));
    kept(&scene, &without, || acl(&without));
}

#[test]
fn extended_attributes_are_kept_on_a_file_that_nobody_may_write() {
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    run(&["setfattr", "-n", "user.origin", "-v", "0x00ff0a", word(&file)]);
    let long = format!("0x{}", "ab".repeat(2000));
    run(&["setfattr", "-n", "user.long", "-v", &long, word(&file)]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let xattrs =
        || run(&["getfattr", "-d", "-m", "-", "--absolute-names", "-e", "hex", word(&file)]);
    assert!(xattrs().contains("user.origin=0x00ff0a"));
    let before = xattrs();
    let applied = scene.apply(vec![patch(&file, "old", "new")]).unwrap();
    assert_eq!(xattrs(), before);
    scene.undo(&applied.id).unwrap();
    assert_eq!(xattrs(), before);
}

#[test]
fn hard_links_stay_one_file_and_unknown_ones_are_refused() {
    let scene = EditedFiles::new();
    let first = scene.file("first", "old");
    let others = ["second", "third"].map(|name| scene.at(name));
    for other in &others {
        fs::hard_link(&first, other).unwrap();
    }
    let [second, third] = others.each_ref().map(|path| path.as_path());
    refused(&scene, vec![patch(&first, "old", "new")], "has 2 other names (hard links)");
    refused(&scene, vec![patch_all(&[&first, second], "old", "new")], "has 1 other names");
    let stranger = scene.file("stranger", "old");
    let wrong = patch_all(&[&first, second, &stranger], "old", "new");
    refused(&scene, vec![wrong], "is not a name of the same file");
    let both = vec![patch(&first, "old", "new"), patch(second, "old", "new")];
    refused(&scene, both, "hard links");
    refused(&scene, vec![Step::Remove { path: first.clone() }], "hard links");
    let replace = |path: &Path| Step::Replace { path: path.into(), mode: 0o644, content: vec![] };
    refused(&scene, vec![replace(&first)], "hard links");
    refused(&scene, vec![replace(&scene.at(""))], "no file takes its place");

    let applied = scene.apply(vec![patch_all(&[second, &first, third], "old", "new")]).unwrap();
    let inodes = || [&*first, second, third].map(|path| fs::metadata(path).unwrap().ino());
    assert_eq!(inodes(), [inodes()[0]; 3]);
    assert_eq!((bytes(&first), bytes(third)), (b"new".to_vec(), b"new".to_vec()));
    scene.undo(&applied.id).unwrap();
    assert_eq!(inodes(), [inodes()[0]; 3]);
    assert_eq!((bytes(&first), bytes(third)), (b"old".to_vec(), b"old".to_vec()));
}

#[test]
fn of_a_symbolic_link_the_file_behind_is_patched_and_the_link_stays() {
    let scene = EditedFiles::new();
    let file = scene.file("real/file", "old");
    symlink("real", scene.at("directory")).unwrap();
    symlink("directory/file", scene.at("link")).unwrap();
    let applied = scene.apply(vec![patch(&scene.at("link"), "old", "new")]).unwrap();
    assert_eq!(fs::read_link(scene.at("link")).unwrap(), Path::new("directory/file"));
    assert_eq!(bytes(&file), b"new");
    scene.undo(&applied.id).unwrap();
    assert_eq!(bytes(&file), b"old");
    let twice = vec![patch(&scene.at("link"), "old", "new"), patch(&file, "old", "new")];
    refused(&scene, twice, "is in the plan twice");
}

#[test]
fn privileged_files_are_refused() {
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    for mode in [0o4755, 0o2755] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        refused(&scene, vec![patch(&file, "old", "new")], "is set-user-id or set-group-id");
    }
    let create = Step::Create { path: scene.at("new"), mode: 0o4755, content: vec![] };
    refused(&scene, vec![create], "creates nothing with the mode 4755");
    if is_root() {
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        // cap_net_raw+ep, as setcap writes it (linux/capability.h, version 2).
        let capability = "0x0100000200200000000000000000000000000000";
        run(&["setfattr", "-n", "security.capability", "-v", capability, word(&file)]);
        refused(&scene, vec![patch(&file, "old", "new")], "has file capabilities");
    }
}

#[test]
fn a_signed_file_is_refused() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    let signed = ["setfattr", "-n", "security.ima", "-v", "0x0404", word(&file)];
    // A kernel with IMA checks what it is given; one without keeps any value.
    run(&signed);
    refused(&scene, vec![patch(&file, "old", "new")], "is signed or measured by IMA");
}

/// Those that chattr(1) sets and any user may set.
#[test]
fn inode_flags_are_kept_and_those_that_the_directory_gives_are_not_taken_on() {
    let scene = EditedFiles::new();
    let flags = |file: &Path| {
        let open = fs::File::open(file).unwrap();
        rustix::fs::ioctl_getflags(open).map(|flags| flags & IFlags::from_bits_retain(0xd8))
    };
    for word_of in ["+A", "+d", "+S", "+Ad"] {
        let file = scene.file(format!("file{word_of}"), "old");
        // A filesystem without any.
        if !Command::new("chattr").args([word_of, word(&file)]).output().unwrap().status.success() {
            continue;
        }
        assert!(!flags(&file).unwrap().is_empty());
        kept(&scene, &file, || format!("{:?}", flags(&file)));
    }
    let plain = scene.file("directory/plain", "old");
    let directory = scene.at("directory");
    if Command::new("chattr").args(["+d", word(&directory)]).output().unwrap().status.success() {
        kept(&scene, &plain, || format!("{:?}", flags(&plain)));
    }
}

#[test]
fn immutable_and_append_only_files_and_directories_are_refused() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    for (path, flag, reason) in [
        (&file, "i", "is immutable"),
        (&file, "a", "is append-only"),
        (&scene.at(""), "i", "is immutable"),
    ] {
        run(&["chattr", &format!("+{flag}"), word(path)]);
        let tried = std::panic::catch_unwind(|| {
            refused(&scene, vec![patch(&file, "old", "new")], reason);
        });
        run(&["chattr", &format!("-{flag}"), word(path)]);
        tried.unwrap();
    }
}

#[test]
fn names_of_any_bytes_are_patched_linked_and_undone_by_a_plan_in_json() {
    let scene = EditedFiles::new();
    let names: [&[u8]; 4] =
        [b"new\nline", b"\xff\xfe\x80", "\u{202e}\u{9b}".as_bytes(), b"it's \"so\"\\"];
    let mut steps = Vec::new();
    for name in names {
        let file = scene.file(OsStr::from_bytes(name), "old");
        let path = scene.at(OsStr::from_bytes(&[name, b".link"].concat()));
        steps.push(patch(&file, "old", "new"));
        steps.push(Step::Link { path, target: OsStr::from_bytes(name).into() });
    }
    let before = scene.picture();
    let plan = plan(steps);
    let json = scene.root().join("plan");
    plan.write(&mut fs::File::create(&json).unwrap()).unwrap();
    let read = Plan::read(&json).unwrap();
    assert_eq!(read, plan);
    let applied = remedy::apply(&read, &scene.options()).unwrap();
    for name in names {
        assert_eq!(bytes(scene.at(OsStr::from_bytes(&[name, b".link"].concat()))), b"new");
    }
    scene.undo(&applied.id).unwrap();
    scene.is_as(&before);
}

#[test]
fn what_an_ordinary_user_cannot_keep_is_refused_before_anything_is_written() {
    if !is_root() {
        return;
    }
    let scene = EditedFiles::new();
    for directory in [scene.root(), scene.at("")] {
        chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let (own, foreign) = (scene.file("own", "old"), scene.file("foreign", "old"));
    let group = scene.file("group", "old");
    let shut = scene.file("shut/file", "old");
    for file in [&own, &shut, &group] {
        chown(file, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    chown(&group, Some(NOBODY), Some(7)).unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o666)).unwrap();
    let program = scene.root().join("apply");
    // Not by this process: what one of its threads has open to write, another's child has, too.
    run(&["cp", word(apply_program()), word(&program)]);
    let apply = |file: &Path| {
        let json = scene.root().join("plan");
        plan(vec![patch(file, "old", "new")]).write(&mut fs::File::create(&json).unwrap()).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", word(&program)]);
        let output = command.arg(&json).env("XDG_STATE_HOME", scene.state_home()).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(apply(&foreign).contains("belongs to user 0"), "{}", apply(&foreign));
    assert!(apply(&group).contains("is of group 7, which you are not in"));
    assert!(
        apply(&shut).contains("write into the directory: Permission denied"),
        "{}",
        apply(&shut)
    );
    // Where it may be written into, and not be read, nobody can tell when a change is on the disk.
    let blind = scene.file("blind/file", "old");
    for path in [&blind, &scene.at("blind")] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::set_permissions(scene.at("blind"), fs::Permissions::from_mode(0o300)).unwrap();
    assert!(
        apply(&blind).contains("blind: read the directory, to wait until"),
        "{}",
        apply(&blind)
    );
    fs::set_permissions(scene.at("blind"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(bytes(&blind), b"old");
    // What the user has applied is his, and not root's to obey.
    assert_eq!(fs::read_dir(scene.state().join("journals")).unwrap().count(), 0);
    assert!(matches!(remedy::list(&scene.state()), Err(Error::Foreign { .. })));
    assert_eq!(apply(&own), "");
    assert_eq!(bytes(&own), b"new");
    // In a directory like /tmp, everyone may replace what is their own.
    let sticky = scene.file("sticky/file", "old");
    chown(&sticky, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(scene.at("sticky"), fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(apply(&sticky), "");
    assert_eq!(bytes(&sticky), b"new");
}

#[test]
fn a_plan_that_no_longer_fits_is_refused() {
    let scene = EditedFiles::new();
    let file = scene.file("file", "old");
    let step = patch(&file, "old", "new");
    let_time_tick();
    fs::write(&file, "odd").unwrap();
    refused(&scene, vec![step], "has changed since the plan was made");
    refused(&scene, vec![patch(&file, "old", "new")], "does not have the bytes");
    let Step::Patch { path, also, mut seen, edits } = patch(&file, "odd", "new") else { panic!() };
    seen.digest = Some(remedy::Digest::of(b"old"));
    refused(&scene, vec![Step::Patch { path, also, seen, edits }], "has another content");
    let twice = patch(&file, "odd", "new");
    refused(&scene, vec![twice.clone(), twice], "is in the plan twice");
    let there = Step::Link { path: file.clone(), target: "x".into() };
    refused(&scene, vec![there], "is there already");
    let nowhere = Step::Link { path: scene.at("no/link"), target: "x".into() };
    refused(&scene, vec![nowhere], "its directory is not there");
    let relative = Step::Link { path: "link".into(), target: "x".into() };
    refused(&scene, vec![relative], "is not an absolute path");
    refused(&scene, vec![Step::Remove { path: scene.at("") }], "is not empty");
    symlink("/proc/self/maps", scene.at("maps")).unwrap();
    assert!(matches!(
        scene.apply(vec![Step::Remove { path: "/proc/self/maps".into() }]),
        Err(Error::Refused { .. } | Error::Call { .. })
    ));
}
