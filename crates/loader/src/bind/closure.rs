//! The mode that edits the program only.
//!
//! The program comes to need one library without code, which needs all that the program loads
//! today, in the order of the link map. So every search of a later name ends before it begins:
//! the loader knows the name (`_dl_map_object`), and symbols are looked up in the order of before.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::Leave;
use super::collect::OWN_DIRECTORY;
use super::farm::short_digest;
use super::places::RELOCATABLE;
use super::resolve::{Found, Member, Run, Through, is_variant};
use super::wanted::{Caution, Known, Wanted};
use crate::edit::{ElfIdentity, Needed, Request, stub};

/// The edit of one program; nothing for libraries.
pub(super) fn request(
    known: &Known<'_>,
    number: usize,
    caution: Option<Caution>,
    wanted: &mut Wanted,
) -> Request {
    let file = &known.files[number];
    let Some(run) = known.programs.iter().find(|run| run.root == number) else {
        return Request::default();
    };
    if is_done(run) {
        return Request::default();
    }
    if let Some(reason) = why_not(known, run) {
        wanted.refused.push((number, reason));
        return Request::default();
    }
    let leave = Leave::with(&known.options.leave);
    let name = |member: &Member| -> Vec<u8> {
        let stays = member.found == Found::Loader
            || leave.pattern(&member.asked_as).is_some()
            || depends_on_processor(known, member);
        match known.pins.names.get(&member.id).filter(|_| !stays) {
            Some(path) => path.as_os_str().as_bytes().to_vec(),
            None => member.asked_as.as_bytes().to_vec(),
        }
    };
    let loaded = || run.members.iter().skip(1).filter(|member| member.found != Found::Kernel);
    let names: Vec<Vec<u8>> = loaded().map(name).collect();
    let providers = providers(loaded(), &names);
    let object = &file.object;
    let identity = ElfIdentity {
        wide: object.class == crate::object::Class::Elf64,
        big_endian: object.big_endian,
        os_abi: object.os_abi,
        abi_version: object.abi_version,
        machine: object.machine,
        flags: object.flags,
    };
    let digest = short_digest(names.iter().map(Vec::as_slice));
    let soname = format!("libbecalm-closure-{digest}.so");
    let path = known.root(number).join(OWN_DIRECTORY).join("closure").join(&soname);
    match stub(&identity, soname.as_bytes(), &names) {
        Ok(library) => wanted.stubs.insert(path.clone(), library),
        Err(refused) => {
            wanted.refused.push((number, refused.to_string()));
            return Request::default();
        }
    };
    let names = vec![path.into_os_string().into_vec()];
    let search = known.search(number, caution, &mut wanted.farms);
    Request { needed: Needed::List { names, providers }, search }
}

/// Whether another node may find another file by that name.
fn depends_on_processor(known: &Known<'_>, member: &Member) -> bool {
    let by_list = matches!(member.found, Found::ByList { through: Through::Processor, .. });
    let variants = || match (member.path.parent(), member.path.file_name()) {
        (Some(directory), Some(name)) => known.variants.has(directory, name),
        _ => false,
    };
    by_list || is_variant(&member.path) || variants()
}

/// Whether the program needs a closure library already.
fn is_done(run: &Run) -> bool {
    let directory = OsStr::new(OWN_DIRECTORY);
    run.members.get(1).is_some_and(|first| {
        first.found == Found::Directly
            && first.path.components().any(|part| part.as_os_str() == directory)
    })
}

fn why_not(known: &Known<'_>, run: &Run) -> Option<String> {
    if run.is_musl {
        return Some(
            "musl's loader knows no SONAME, so that a closure saves nothing; use the mode farm"
                .into(),
        );
    }
    if let Some(missing) = run.missing.first() {
        return Some(format!("{} is not found today", missing.to_string_lossy()));
    }
    let is_closed = |member: &&Member| known.pins.closed.is_closed(member.id, run.members[0].id);
    if let Some(member) = run.members.iter().skip(1).find(is_closed) {
        return Some(format!("not everyone may read {}", member.path.display()));
    }
    let moves = |through| matches!(through, Through::Origin | Through::Linked);
    let origin =
        |member: &Member| matches!(member.found, Found::ByList { through, .. } if moves(through));
    (!known.options.absolute && run.members.iter().any(origin)).then(|| RELOCATABLE.into())
}

/// What each name that versions are asked of becomes.
fn providers<'a>(
    loaded: impl Iterator<Item = &'a Member>,
    names: &[Vec<u8>],
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let by_name: HashMap<&[u8], &Vec<u8>> = loaded
        .zip(names)
        .filter(|(member, _)| member.found != Found::Loader)
        .map(|(member, name)| (member.asked_as.as_bytes(), name))
        .collect();
    by_name.into_iter().map(|(old, new)| (old.to_vec(), new.clone())).collect()
}
