//! Files that are left alone, and why; and requests that make no sense.

use std::fs;
use std::path::PathBuf;

use loader::edit::{
    EditRequest, EditRoom, Hazard, NeededEdit, Refused, SearchPathEdit, Tier, edit,
};
use tempfile::TempDir;
use testkit::arch::{LIB, LOADER};

use crate::toolchain::{checked_edit, install, names, needed, run, tool};

/// A program built by gcc.
fn program(directory: &TempDir, flags: &[&str]) -> PathBuf {
    let source = directory.path().join("p.c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"hi\") < 0; }\n")
        .unwrap();
    let path = directory.path().join("program");
    let arguments = [&[source.to_str().unwrap(), "-o", path.to_str().unwrap()], flags].concat();
    tool("gcc", &arguments);
    path
}

fn absolute() -> EditRequest {
    names(NeededEdit::Replace([(0, format!("{LIB}/libc.so.6").into_bytes())].into()))
}

fn refusal(bytes: &[u8], request: &EditRequest) -> Refused {
    edit(bytes, request, EditRoom { grow: true }).unwrap_err()
}

#[test]
fn static_programs_and_object_files_are_refused() {
    for (flags, why) in [
        (&["-static"][..], Refused::Static),
        (&["-static-pie"][..], Refused::Static),
        (&["-c"][..], Refused::NotLoadable),
    ] {
        let directory = TempDir::new().unwrap();
        let bytes = fs::read(program(&directory, flags)).unwrap();
        assert_eq!(refusal(&bytes, &EditRequest::default()), why, "{flags:?}");
    }
}

#[test]
fn the_loader_keeps_its_name() {
    let directory = TempDir::new().unwrap();
    let loader = LOADER;
    let path = program(&directory, &["-Wl,--no-as-needed", loader]);
    let position = needed(&path).iter().position(|name| name.contains("ld-linux")).unwrap();
    let bytes = fs::read(path).unwrap();
    let rename = |to: &str| names(NeededEdit::Replace([(position, to.as_bytes().to_vec())].into()));
    assert_eq!(refusal(&bytes, &rename(loader)), Hazard::LoaderName.into());
    let rename = names(NeededEdit::Replace([(0, format!("/opt{LOADER}").into_bytes())].into()));
    assert_eq!(refusal(&bytes, &rename), Hazard::LoaderName.into());
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let directory = TempDir::new().unwrap();
    let bytes = fs::read(program(&directory, &[])).unwrap();
    let replace = |at, name: &[u8]| names(NeededEdit::Replace([(at, name.to_vec())].into()));
    assert_eq!(refusal(&bytes, &replace(1, b"/a")), Refused::NoSuchNeeded { position: 1 });
    assert_eq!(refusal(&bytes, &replace(0, b"")), Refused::BadName(String::new()));
    assert!(matches!(refusal(&bytes, &replace(0, b"a\0b")), Refused::BadName(_)));
}

#[test]
fn a_list_longer_than_the_spare_entries_is_refused() {
    let directory = TempDir::new().unwrap();
    let bytes = fs::read(program(&directory, &[])).unwrap();
    let list = |count: usize| {
        let names = (0..count).map(|index| format!("lib{index}.so").into_bytes()).collect();
        NeededEdit::List { names, providers: [].into() }
    };
    assert!(matches!(refusal(&bytes, &names(list(60))), Refused::NoSpareEntry { missing: 50.. }));
    checked_edit(&bytes, &names(list(3)), EditRoom::default()).unwrap();
}

#[test]
fn data_behind_the_file_stays_at_its_end() {
    let directory = TempDir::new().unwrap();
    // More dynamic symbols than fit: the new name needs a section header of its own.
    let many: String =
        (0..400).map(|n| format!("int a_function_{n}(void) {{ return 0; }}\n")).collect();
    fs::write(directory.path().join("many.c"), many).unwrap();
    let many = directory.path().join("many.c").to_str().unwrap().to_owned();
    // Read-only data in a segment of its own, as on x86-64: else what is left of the only page is chance.
    let path = program(&directory, &[&many, "-rdynamic", "-Wl,-z,separate-code"]);
    let mut bytes = fs::read(&path).unwrap();
    let long = [b"/opt/".to_vec(), vec![b'x'; 1200], b"/libc.so.6".to_vec()].concat();
    let request = names(NeededEdit::Replace([(0, long)].into()));
    let (edited, _) = checked_edit(&bytes, &request, EditRoom::default()).unwrap();
    assert!(edited.tier == Tier::Slack && edited.bytes_after > edited.bytes_before);
    bytes.extend_from_slice(b"payload");
    assert_eq!(refusal(&bytes, &request), Hazard::Overlay.into());
    // What needs no growth is done, and the payload stays where it was.
    let (_, after) = checked_edit(&bytes, &absolute(), EditRoom::default()).unwrap();
    assert!(after.len() == bytes.len() && after.ends_with(b"payload"));
    install(&path, &after);
    assert_eq!(run(&path, &[], &[]).stdout, b"hi\n");
}

#[test]
fn without_section_headers_the_slack_is_taken_without_one() {
    let directory = TempDir::new().unwrap();
    let path = program(&directory, &["-s", "-nostartfiles", "-Wl,-e,main"]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    // Of a program that exports nothing, DT_GNU_HASH does not tell the number of symbols.
    assert_eq!(refusal(&bytes, &absolute()), Hazard::UnknownSymbols.into());
    let path = program(&directory, &["-s", "-Wl,--hash-style=both"]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    let (edited, mut after) = checked_edit(&bytes, &absolute(), EditRoom::default()).unwrap();
    assert_eq!((edited.tier, after.len()), (Tier::Slack, bytes.len()));
    for name in [format!("/usr{LIB}/./libc.so.6"), format!("{LIB}/././libc.so.6")] {
        let again = names(NeededEdit::Replace([(0, name.as_bytes().to_vec())].into()));
        after = checked_edit(&after, &again, EditRoom::default()).unwrap().1;
        install(&path, &after);
        assert_eq!(run(&path, &[], &[]).stdout, b"hi\n");
    }
}

#[test]
fn an_edited_file_is_edited_again_in_the_same_room() {
    let directory = TempDir::new().unwrap();
    let path = program(&directory, &[]);
    let mut bytes = fs::read(&path).unwrap();
    for dots in [1, 3, 2, 5] {
        let name = format!("{LIB}/{}libc.so.6", "./".repeat(dots));
        let request = names(NeededEdit::Replace([(0, name.clone().into_bytes())].into()));
        let (edited, after) = checked_edit(&bytes, &request, EditRoom::default()).unwrap();
        assert_eq!(edited.bytes_before, edited.bytes_after);
        bytes = after;
        install(&path, &bytes);
        assert_eq!(needed(&path), [name]);
        assert_eq!(run(&path, &[], &[]).stdout, b"hi\n");
        tool("strip", &[path.to_str().unwrap()]);
        assert_eq!(run(&path, &[], &[]).stdout, b"hi\n");
    }
}

#[test]
fn search_lists_are_set_and_removed_and_nothing_else_changes() {
    let directory = TempDir::new().unwrap();
    let long = "-Wl,-rpath,/opt/a/directory/of/libraries:/opt/another/directory/of/libraries";
    let path = program(&directory, &[long, "-Wl,--enable-new-dtags"]);
    let original = fs::read(&path).unwrap();
    let dynamic = || tool("readelf", &["--dynamic", "--wide", path.to_str().unwrap()]);
    for (search, has, lacks) in [
        (SearchPathEdit::Remove, "(NEEDED)", "PATH"),
        (
            SearchPathEdit::Rpath(b"/opt/farm".to_vec()),
            "(RPATH)              Library rpath: [/opt/farm]",
            "RUNPATH",
        ),
        (
            SearchPathEdit::Runpath(b"/opt/farm".to_vec()),
            "(RUNPATH)            Library runpath: [/opt/farm]",
            "(RPATH)",
        ),
        (
            SearchPathEdit::Runpath(Vec::new()),
            "(RUNPATH)            Library runpath: []",
            "(RPATH)",
        ),
        (
            SearchPathEdit::Runpath(b"/opt/another/directory/of/libraries".to_vec()),
            "[/opt/another/directory/of/libraries]",
            "(RPATH)",
        ),
    ] {
        let request = EditRequest { needed: NeededEdit::Keep, search };
        let (edited, after) = checked_edit(&original, &request, EditRoom::default()).unwrap();
        assert_eq!(edited.tier, Tier::DeadBytes);
        install(&path, &after);
        let text = dynamic();
        assert!(text.contains(has) && !text.contains(lacks), "{text}");
        assert_eq!(run(&path, &[], &[]).stdout, b"hi\n");
    }
}

#[test]
fn marks_of_prelink_foreign_systems_and_mips_are_refused() {
    let directory = TempDir::new().unwrap();
    let bytes = fs::read(program(&directory, &[])).unwrap();
    let debug = [21_u64.to_le_bytes(), [0; 8]].concat();
    let at = bytes.windows(16).position(|entry| entry == debug).unwrap();
    let with_tag = |tag: u64| {
        let mut bytes = bytes.clone();
        bytes[at..at + 8].copy_from_slice(&tag.to_le_bytes());
        bytes
    };
    let prelinked = with_tag(0x6fff_fdf5);
    assert_eq!(refusal(&prelinked, &absolute()), Hazard::Prelinked.into());
    assert_eq!(
        refusal(&with_tag(0x6000_0010), &absolute()),
        Hazard::UnknownTag(0x6000_0010).into()
    );
    let mut mips = bytes.clone();
    mips[18] = 8;
    assert_eq!(refusal(&mips, &absolute()), Hazard::Mips.into());
}

#[test]
fn a_version_need_cannot_follow_two_names() {
    let directory = TempDir::new().unwrap();
    let path = program(&directory, &[]);
    let bytes = fs::read(&path).unwrap();
    // The same library twice, then each under another name.
    let twice = NeededEdit::List { names: vec![b"libc.so.6".to_vec(); 2], providers: [].into() };
    let (_, bytes) = checked_edit(&bytes, &names(twice), EditRoom::default()).unwrap();
    let apart =
        NeededEdit::Replace([(0, b"/a/libc.so.6".to_vec()), (1, b"/b/libc.so.6".to_vec())].into());
    assert_eq!(refusal(&bytes, &names(apart)), Hazard::AmbiguousVersion.into());
}
