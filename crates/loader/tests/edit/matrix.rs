//! A segment more in the files of every linker and every layout: runs, is read without a warning,
//! stripped, copied, split from its debug information and debugged as before.

use std::fs;

use loader::edit::{EditRequest, EditRoom, Refused, Tier, edit};

use crate::project::{Project, split_debug};
use crate::toolchain::{run, tool};

/// Longer than a page, so that no slack holds the names, and shorter than the longest path.
const DETOUR: usize = 1900;

const LINKERS: &[&str] = &["-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"];

const LAYOUTS: &[&[&str]] = &[
    &[],
    &["-no-pie"],
    &["-Wl,-z,pack-relative-relocs"],
    &["-Wl,-z,max-page-size=0x200000"],
    &["-Wl,-z,max-page-size=0x200000", "-no-pie"],
    &["-Wl,-z,execstack"],
    &["-Wl,--build-id=none"],
];

/// gold has no packed relocations, and those of lld 14 are not what glibc loads.
fn knows(linker: &str, layout: &[&str]) -> bool {
    let packed = layout.iter().any(|flag| flag.contains("pack-relative"));
    !packed || matches!(linker, "-fuse-ld=bfd" | "-fuse-ld=mold")
}

#[test]
fn every_linkers_file_in_every_layout_has_room_with_a_segment_more() {
    let mut combinations = 0;
    for linker in LINKERS {
        for layout in LAYOUTS.iter().filter(|layout| knows(linker, layout)) {
            let flags = [&[*linker], *layout].concat();
            let project = Project::build(&flags, true, 0);
            for path in [project.program(), project.path_of("a")] {
                let grown = project.grow(&path);
                assert_eq!(grown, Ok(Tier::Grown), "{flags:?} {path:?}");
            }
            project.check_everything(&format!("{flags:?}"));
            check_linking(&project, linker);
            check_debugger(&project, &flags);
            combinations += 1;
        }
    }
    assert_eq!(combinations, LINKERS.len() * LAYOUTS.len() - 2);
}

/// Another program is linked against the library, by the same linker.
fn check_linking(project: &Project, linker: &str) {
    let (source, library) = (project.program().with_extension("c"), project.path_of("a"));
    let again = project.program().with_extension("again");
    let paths = [&source, &library, &again].map(|path| path.to_str().unwrap());
    let rpath = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    tool("gcc", &[linker, paths[0], paths[1], &rpath, "-o", paths[2]]);
    assert_eq!(run(&again, &[], &[]).status.code(), Some(7), "{linker}");
}

/// gdb stops in the library and tells who called it: by the debug information in the files, and
/// by that which was split from them (.gnu_debuglink).
fn check_debugger(project: &Project, flags: &[&str]) {
    for split in [false, true] {
        if split {
            for path in [project.program(), project.path_of("a"), project.path_of("b")] {
                split_debug(&path);
            }
        }
        let program = project.program();
        let commands = ["set breakpoint pending on", "break b", "run", "backtrace"];
        let commands = commands.iter().flat_map(|command| ["-ex", command]);
        let mut arguments = vec!["-nx", "-batch"];
        arguments.extend(commands.chain([program.to_str().unwrap()]));
        let output = run("gdb".as_ref(), &arguments, &[("DEBUGINFOD_URLS", "")]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        for frame in ["#0  b () at ", "in a (x=0) at ", "in main () at "] {
            assert!(said.contains(frame), "{flags:?} split {split}: {said}");
        }
        let complaints = String::from_utf8_lossy(&output.stderr);
        // Times of a second: the compiler's source may be as new as what it made of it.
        let warns = |line: &&str| line.contains("warning") && !line.contains("more recent");
        let warning = complaints.lines().find(warns);
        assert_eq!(warning, None, "{flags:?} split {split}");
    }
}

#[test]
fn a_static_pie_has_nothing_to_bind() {
    for linker in LINKERS.iter().filter(|linker| !linker.ends_with("gold")) {
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("m.c"), directory.path().join("program"));
        fs::write(&source, "int main(void) { return 7; }").unwrap();
        let paths = [source.to_str().unwrap(), "-o", program.to_str().unwrap()];
        tool("gcc", &[&[*linker, "-static-pie"][..], &paths].concat());
        let bytes = fs::read(&program).unwrap();
        let refused = edit(&bytes, &EditRequest::default(), EditRoom { grow: true });
        assert_eq!(refused, Err(Refused::Static), "{linker}");
    }
}

#[test]
fn a_table_that_was_stretched_over_other_sections_moves_with_what_it_spans() {
    for layout in LAYOUTS {
        let project = Project::build(layout, false, 150);
        let library = project.path_of("a");
        project.bind(&project.program(), 0, EditRoom::default()).unwrap();
        let size = fs::metadata(&library).unwrap().len();
        assert_eq!(project.bind(&library, 250, EditRoom::default()), Ok(Tier::Slack));
        assert!(fs::metadata(&library).unwrap().len() > size, "a section header more");
        let grown = project.bind(&library, DETOUR, EditRoom { grow: true });
        assert_eq!(grown, Ok(Tier::Grown), "{layout:?}");
        project.check_everything(&format!("{layout:?}"));
    }
}

#[test]
fn a_grown_file_has_room_in_what_is_dead_and_can_grow_again() {
    for linker in LINKERS {
        let project = Project::build(&[linker], false, 0);
        let library = project.path_of("a");
        for (detour, tier) in
            [(DETOUR, Tier::Grown), (10, Tier::DeadBytes), (DETOUR + 40, Tier::Grown)]
        {
            let program = project.bind(&project.program(), 0, EditRoom { grow: true });
            assert!(program.is_ok(), "{linker}: {program:?}");
            let again = project.bind(&library, detour, EditRoom { grow: true });
            assert_eq!(again, Ok(tier), "{linker} {detour}");
        }
    }
}
