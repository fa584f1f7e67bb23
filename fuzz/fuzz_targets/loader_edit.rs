//! Edits any bytes as an ELF file: an error, or an edit that can be undone and that the next one
//! reads.
//!
//! The first byte chooses the request. Seeds: the smaller files of /usr/bin and /usr/lib.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loader::edit::{
    EditRequest, EditRoom, NeededEdit, Refused, SearchPathEdit, apply, edit, reverse,
};

fuzz_target!(|input: &[u8]| {
    let Some((choice, file)) = input.split_first() else { return };
    match edit(file, &request(*choice), EditRoom { grow: choice & 1 == 0 }) {
        Ok(edited) => {
            let after = apply(file, &edited.patches).expect("made for these bytes");
            let before = apply(&after, &reverse(&edited.patches)).expect("and back");
            assert!(before == file, "not undone");
            let keep = edit(&after, &EditRequest::default(), EditRoom::default());
            assert_eq!(keep.map(|edited| edited.patches), Ok(Vec::new()));
        }
        Err(Refused::SelfCheck(what)) => panic!("written wrong: {what}"),
        Err(_) => {}
    }
});

fn request(choice: u8) -> EditRequest {
    let long =
        [b"/opt/".to_vec(), vec![b'x'; usize::from(choice)], b"/libc.so.6".to_vec()].concat();
    let needed = match choice >> 1 & 3 {
        0 => NeededEdit::Keep,
        1 | 2 => NeededEdit::Replace([(usize::from(choice >> 7), long)].into()),
        _ => NeededEdit::List {
            names: vec![b"/a/libstub.so".to_vec(), b"libm.so.6".to_vec()],
            providers: [(b"libc.so.6".to_vec(), long)].into(),
        },
    };
    let search = match choice >> 3 & 3 {
        0 => SearchPathEdit::Keep,
        1 => SearchPathEdit::Remove,
        2 => SearchPathEdit::Rpath(b"/farm".to_vec()),
        _ => SearchPathEdit::Runpath(b"/farm".to_vec()),
    };
    EditRequest { needed, search }
}
