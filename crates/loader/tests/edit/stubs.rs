//! Stub libraries: no code, only needs, in an order.

use std::{fs, iter};

use loader::edit::{EditRequest, EditRoom, ElfIdentity, NeededEdit, SearchPathEdit, stub};
use testkit::arch::{LIB, NARROW};

use crate::toolchain::{checked_edit, install, needed, run, tool};

#[test]
fn a_program_that_needs_only_a_stub_finds_all_libraries_in_its_order() {
    let narrow = NARROW.map(|option| (vec![option], "/lib32"));
    for (flags, libc) in iter::once((vec![], LIB)).chain(narrow) {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fs::write(
            at("m.c"),
            "#include <math.h>\n#include <stdio.h>\nint main(int n, char **v) { \
                  (void)v; return printf(\"%g\\n\", cos(n - 1)); }",
        )
        .unwrap();
        let (source, program) = (at("m.c"), at("program"));
        tool(
            "gcc",
            &[
                &[
                    source.as_str(),
                    "-o",
                    &program,
                    "-lm",
                    "-Wl,-rpath,/opt/a/long/rpath/that/\
              makes/room/for/the/names/of/the/closure/and/more/of/it",
                ],
                flags.as_slice(),
            ]
            .concat(),
        );
        let bytes = fs::read(&program).unwrap();
        let order = ["libm.so.6", "libc.so.6"].map(|name| format!("{libc}/{name}"));
        let list: Vec<_> = order.iter().map(|path| path.clone().into_bytes()).collect();
        let made = stub(&ElfIdentity::of(&bytes).unwrap(), b"closure.so", &list).unwrap();
        install(at("closure.so").as_ref(), &made);
        let providers = ["libm.so.6", "libc.so.6"]
            .map(|name| (name.as_bytes().to_vec(), format!("{libc}/{name}").into_bytes()));
        let request = EditRequest {
            needed: NeededEdit::List {
                names: vec![at("closure.so").into_bytes()],
                providers: providers.into(),
            },
            search: SearchPathEdit::Remove,
        };
        let (_, after) = checked_edit(&bytes, &request, EditRoom::default()).unwrap();
        install(program.as_ref(), &after);
        for way in ["", "strip", "eu-strip"] {
            if !way.is_empty() {
                tool(way, &[&at("closure.so")]);
                tool(way, &[&program]);
            }
            let output = run(program.as_ref(), &[], &[("LD_BIND_NOW", "1")]);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n", "{output:?}");
            assert_eq!(needed(program.as_ref()), [at("closure.so")]);
            assert_eq!(needed(at("closure.so").as_ref()), order);
            let listing = tool("ldd", &[&program]);
            let places = order.iter().map(|path| listing.find(path.as_str()).unwrap());
            assert!(places.is_sorted(), "{listing}");
        }
        let all = tool("readelf", &["--all", "--wide", &at("closure.so")]);
        assert!(all.contains("Library soname: [closure.so]"), "{all}");
        tool("eu-readelf", &["--all", &at("closure.so")]);
    }
}

#[test]
fn a_stub_itself_can_be_edited() {
    let like = ElfIdentity::of(&fs::read("/bin/true").unwrap()).unwrap();
    let made = stub(&like, b"closure.so", &[b"libm.so.6".to_vec(), b"libc.so.6".to_vec()]).unwrap();
    let needed = NeededEdit::Replace([(0, b"libc.so".to_vec())].into());
    let loader = checked_edit(
        &made,
        &EditRequest { needed, search: SearchPathEdit::Keep },
        EditRoom::default(),
    );
    assert!(loader.is_err(), "musl's loader is not a name to give");
    let needed = NeededEdit::Replace([(0, b"m.so.6".to_vec())].into());
    let request = EditRequest { needed, search: SearchPathEdit::Keep };
    let (edited, _) = checked_edit(&made, &request, EditRoom::default()).unwrap();
    assert_eq!(edited.patches.len(), 1, "the end of a name that is there");
}

#[test]
fn a_long_list_of_needs_becomes_a_short_one_and_no_longer_than_before() {
    let like = ElfIdentity::of(&fs::read("/bin/true").unwrap()).unwrap();
    let many: Vec<_> = (0..60).map(|index| format!("lib{index}.so").into_bytes()).collect();
    let made = stub(&like, b"many.so", &many).unwrap();
    let list = |names: &[&[u8]]| EditRequest {
        needed: NeededEdit::List {
            names: names.iter().map(|name| name.to_vec()).collect(),
            providers: [].into(),
        },
        search: SearchPathEdit::Keep,
    };
    for names in [&[][..], &[&b"/a/closure.so"[..]], &[&b"lib1.so"[..], b"lib0.so"]] {
        let (_, after) = checked_edit(&made, &list(names), EditRoom::default()).unwrap();
        let path = tempfile::NamedTempFile::new().unwrap();
        fs::write(path.path(), &after).unwrap();
        let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
        assert_eq!(needed(path.path()), names);
    }
}
