//! Programs of every linker: edited, run, read by other tools, stripped, and run again.

use std::fs;

use loader::edit::{EditRoom, Refused, Tier};

use crate::project::{Project, by_patchelf};
use crate::toolchain::{is_loader, tool};

/// Builds by `flags`, binds, checks; the tiers of program and library.
fn experiment(
    flags: &[&str],
    (rpath, names): (bool, usize),
    room: EditRoom,
) -> Result<[Tier; 2], Refused> {
    let project = Project::build(flags, rpath, names);
    let program = project.bind(&project.program(), 0, room)?;
    let library = project.bind(&project.path_of("a"), 0, room)?;
    let what = format!("{flags:?} rpath {rpath} {names} {room:?} {program:?} {library:?}");
    println!("{what}");
    project.check_everything(&what);
    Ok([program, library])
}

const FLAGS: &[&[&str]] = &[
    &["-Wl,--hash-style=sysv"],
    &["-Wl,--hash-style=gnu"],
    &["-Wl,--hash-style=both"],
    &["-no-pie"],
    &["-Wl,-z,noseparate-code"],
    &["-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=0x200000"],
    #[cfg(target_arch = "x86_64")]
    &["-m32"],
    #[cfg(target_arch = "x86_64")]
    &["-m32", "-no-pie"],
    #[cfg(target_arch = "x86_64")]
    &["-m32", "-Wl,-z,noseparate-code", "-Wl,--hash-style=sysv"],
    &["-fuse-ld=gold"],
    &["-fuse-ld=lld"],
    #[cfg(target_arch = "x86_64")]
    &["-fuse-ld=lld", "-m32"],
    &["-fuse-ld=mold"],
    &["-Wl,-z,now", "-Wl,-z,pack-relative-relocs"],
];

#[test]
fn a_long_rpath_makes_room_for_absolute_names_whatever_the_linker() {
    for flags in FLAGS {
        assert_eq!(
            experiment(flags, (true, 0), EditRoom::default()),
            Ok([Tier::DeadBytes; 2]),
            "{flags:?}"
        );
    }
}

#[test]
fn without_rpath_the_slack_holds_absolute_names_and_survives_strip() {
    let mut done = 0;
    for flags in FLAGS {
        match experiment(flags, (false, 0), EditRoom::default()) {
            Ok(tiers) => done += usize::from(tiers.contains(&Tier::Slack)),
            Err(refused) => println!("{flags:?}: {refused}"),
        }
    }
    assert!(done >= FLAGS.len() - 4, "{done}");
}

#[test]
fn a_large_string_table_stays_and_its_new_names_survive_strip() {
    for flags in FLAGS.iter().filter(|flags| !flags[0].starts_with("-fuse-ld")) {
        let tiers = experiment(flags, (false, 150), EditRoom::default());
        assert_eq!(tiers, Ok([Tier::Slack; 2]), "{flags:?}");
    }
}

#[test]
fn names_under_a_section_header_of_their_own_survive_strip_and_make_room_again() {
    for flags in FLAGS.iter().filter(|flags| !flags[0].starts_with("-fuse-ld")) {
        let project = Project::build(flags, false, 150);
        let library = project.path_of("a");
        project.bind(&project.program(), 0, EditRoom::default()).unwrap();
        // More than the version tables yield; then less; then more.
        for (detour, tier, grows) in
            [(250, Tier::Slack, true), (10, Tier::DeadBytes, false), (255, Tier::Slack, false)]
        {
            let before = fs::metadata(&library).unwrap().len();
            assert_eq!(
                project.bind(&library, detour, EditRoom::default()),
                Ok(tier),
                "{flags:?} {detour}"
            );
            let growth = fs::metadata(&library).unwrap().len() - before;
            assert_eq!(growth > 0, grows, "one header, the first time: {growth}");
            project.check_all_ways(&format!("{flags:?} detour {detour}"), |path| {
                // Those that go by section headers would print an offset.
                let names = by_patchelf(path);
                assert!(names.iter().all(|name| is_loader(name) || name.starts_with('/')));
                assert!(!tool("ldd", &[path.to_str().unwrap()]).contains("not found"));
            });
        }
    }
}

/// Longer than a page, shorter than the system's limit of a path.
const DETOUR: usize = 1900;

#[test]
fn names_larger_than_any_slack_get_a_segment_whatever_the_linker() {
    for flags in FLAGS {
        let project = Project::build(flags, false, 0);
        let (program, library) = (project.program(), project.path_of("a"));
        let refused = project.bind(&program, DETOUR, EditRoom::default());
        assert!(matches!(refused, Err(Refused::NoRoom { .. })), "{flags:?}: {refused:?}");
        for path in [program, library] {
            let grown = project.bind(&path, DETOUR, EditRoom { grow: true });
            assert_eq!(grown, Ok(Tier::Grown), "{flags:?} {path:?}");
        }
        project.check_everything(&format!("{flags:?} grown"));
    }
}
