//! Damaged and hostile files: an error, or an edit that holds; never a panic, never a hang.

use std::fs;
use std::path::Path;
use std::time::Duration;

use loader::edit::{
    EditRequest, EditRoom, ElfIdentity, NeededEdit, Refused, SearchPathEdit, apply, edit, reverse,
};

use testkit::Random;
use testkit::arch::NARROW;

use crate::toolchain::tool;

/// Small files of both classes, with and without section headers.
fn seeds() -> Vec<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("a.c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"hi\"); }\n").unwrap();
    let build = |name: &str, flags: &[&str]| {
        let to = directory.path().join(name);
        let mut all = vec![source.to_str().unwrap(), "-s", "-o", to.to_str().unwrap()];
        all.extend(["-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=4096"]);
        all.extend(["-Wl,-rpath,/opt/some/long/path/to/the/libraries/of/a/package/lib"]);
        all.extend(flags);
        tool("gcc", &all);
        fs::read(&to).unwrap()
    };
    let library = ["-shared", "-fPIC", "-Wl,-soname,liba.so", "-Wl,--hash-style=both"];
    let mut seeds = vec![
        build("program", &[]),
        build("library", &library),
        // Without a program header to spare.
        build("lld", &["-fuse-ld=lld", "-shared", "-fPIC", "-Wl,--hash-style=both"]),
        build("mold", &["-fuse-ld=mold"]),
    ];
    if let Some(narrow) = NARROW {
        seeds.push(build("program32", &[narrow]));
        seeds.push(build("sysv", &[narrow, "-no-pie", "-Wl,--hash-style=sysv"]));
    }
    let bare = without_sections(seeds[1].clone());
    seeds.push(bare);
    let like = ElfIdentity::of(&seeds[0]).unwrap();
    seeds.push(loader::edit::stub(&like, b"libs.so", &[b"libc.so.6".to_vec()]).unwrap());
    seeds
}

/// `e_shoff`, `e_shnum` and `e_shstrndx` of a 64-bit file set to none.
fn without_sections(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    bytes
}

fn requests() -> Vec<EditRequest> {
    let short = b"/lib/libc.so.6".to_vec();
    let long = [b"/opt/".to_vec(), vec![b'x'; 150], b"/libc.so.6".to_vec()].concat();
    vec![
        EditRequest {
            needed: NeededEdit::Replace([(0, short)].into()),
            search: SearchPathEdit::Remove,
        },
        EditRequest {
            needed: NeededEdit::Replace([(0, long.clone())].into()),
            search: SearchPathEdit::Keep,
        },
        EditRequest {
            needed: NeededEdit::List {
                names: vec![b"/a/libstub.so".to_vec(), b"libm.so.6".to_vec()],
                providers: [(b"libc.so.6".to_vec(), long)].into(),
            },
            search: SearchPathEdit::Runpath(b"/short".to_vec()),
        },
    ]
}

/// One of so many.
fn below(random: &mut Random, end: usize) -> usize {
    random.below(end as u64) as usize
}

/// A byte that is likely to matter.
fn byte(random: &mut Random) -> u8 {
    [0, 1, 2, 4, 8, 0x10, 0x7f, 0x80, 0xff, random.bits() as u8][below(random, 10)]
}

/// The offsets of bytes that are not zero, where mutations matter most.
fn targets(seed: &[u8]) -> Vec<usize> {
    let code = |at: usize| (0x1000..seed.len().saturating_sub(0x900)).contains(&at);
    (0..seed.len()).filter(|at| !code(*at) && (seed[*at] != 0 || at % 16 == 3)).collect()
}

#[test]
fn a_hundred_thousand_mutations_give_an_error_or_an_edit_that_holds() {
    let (seeds, requests) = (seeds(), requests());
    let targets: Vec<_> = seeds.iter().map(|seed| targets(seed)).collect();
    let mut random = Random::seeded(7);
    let (mut edited, mut refused) = (0, 0);
    for round in 0..100_000 {
        let which = below(&mut random, seeds.len());
        let mut bytes = seeds[which].clone();
        for _ in 0..=below(&mut random, 6) {
            let at = targets[which][below(&mut random, targets[which].len())];
            bytes[at] = byte(&mut random);
        }
        if below(&mut random, 20) == 0 {
            bytes.truncate(below(&mut random, bytes.len()));
        }
        let request = &requests[below(&mut random, requests.len())];
        let room = EditRoom { grow: below(&mut random, 2) == 0 };
        match edit(&bytes, request, room) {
            Ok(edit) => {
                let after = apply(&bytes, &edit.patches).unwrap();
                assert!(apply(&after, &reverse(&edit.patches)).unwrap() == bytes, "round {round}");
                check_reads_back(&after, round);
                edited += 1;
            }
            Err(Refused::SelfCheck(what)) => panic!("round {round}: written wrong: {what}"),
            Err(_) => refused += 1,
        }
    }
    println!("{edited} edited, {refused} refused");
    assert!(edited > 1000 && refused > 1000);
}

/// What was written is a file that can be edited again.
fn check_reads_back(after: &[u8], round: usize) {
    let keep = edit(after, &EditRequest::default(), EditRoom::default());
    assert_eq!(keep.map(|edit| edit.patches.to_vec()), Ok(Vec::new()), "round {round}");
}

#[test]
fn every_truncation_gives_an_error_or_an_edit_that_holds() {
    for seed in seeds() {
        for length in (0..seed.len()).step_by(7) {
            for request in requests() {
                if let Ok(edit) = edit(&seed[..length], &request, EditRoom { grow: true }) {
                    apply(&seed[..length], &edit.patches).unwrap();
                }
            }
        }
    }
}

#[test]
fn many_names_of_one_long_text_are_refused_in_no_time() {
    // A dynamic section of 60,000 DT_NEEDED, all the same megabyte of text.
    let names = vec![b"x".to_vec(); 60_000];
    let like = ElfIdentity::of(&fs::read(Path::new("/bin/true")).unwrap()).unwrap();
    let text = vec![b'y'; 1 << 20];
    let mut file = loader::edit::stub(&like, &text, &names).unwrap();
    // The text is the last of the table; entries hold the tag and the offset.
    let soname = 60_000 * 2 + 1_u64;
    let entry = |offset: u64| [1_u64.to_le_bytes(), offset.to_le_bytes()].concat();
    let found = file.windows(16).position(|bytes| bytes == entry(1)).unwrap();
    for index in 0..60_000 {
        file[found + 16 * index..][..16].copy_from_slice(&entry(soname));
    }
    let before = processor_time();
    let result = edit(&file, &requests()[0], EditRoom::default());
    assert_eq!(result, Err(Refused::Damaged("names that are too long")));
    assert!(processor_time() - before < Duration::from_secs(2));
}

/// How long this thread has had a processor (proc_pid_schedstat(5)): however busy the machine is,
/// the same work takes about as much.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_once(' ').unwrap().0.parse().unwrap())
}
