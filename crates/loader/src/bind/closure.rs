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
use super::farm::{Farms, short_digest};
use super::inherited::opens_through_another;
use super::places::RELOCATABLE;
use super::resolve::{LoaderRun, LoaderRunObject, ResolvedBy};
use super::steered::is_steered;
use super::through::{Through, is_variant};
use super::wanted::{BindEdits, BindFacts, Caution};
use super::working::{WORKING_DIRECTORY, is_asked_first};
use crate::edit::{EditRequest, ElfIdentity, NeededEdit, stub};

/// The edit of one program; nothing for libraries.
pub(super) fn request(
    known: &BindFacts<'_>,
    number: usize,
    caution: Option<Caution>,
    wanted: &mut BindEdits,
) -> EditRequest {
    let file = &known.files[number];
    let mut starts = known.programs.iter().filter(|run| run.root == number);
    let Some(run) = starts.find(|run| run.environment.is_none()) else {
        return EditRequest::default();
    };
    if is_done(run) {
        return EditRequest::default();
    }
    if let Some(reason) = why_not(known, run, &mut wanted.farms) {
        wanted.refused.push((number, reason));
        return EditRequest::default();
    }
    let leave = Leave::with(&known.options.leave);
    let name = |member: &LoaderRunObject| -> Vec<u8> {
        let stays = member.found == ResolvedBy::Loader
            || leave.pattern(&member.asked_as).is_some()
            || depends_on_processor(known, member)
            || !is_path(&member.asked_as) && !is_called(member);
        match known.pins.names.get(&member.id).filter(|_| !stays) {
            Some(path) => path.as_os_str().as_bytes().to_vec(),
            None => member.asked_as.as_bytes().to_vec(),
        }
    };
    let loaded = || run.members.iter().skip(1).filter(|member| member.found != ResolvedBy::Kernel);
    let names: Vec<Vec<u8>> = loaded().map(name).collect();
    let providers = providers(loaded(), &names);
    let object = &file.object;
    let identity = ElfIdentity {
        wide: object.class == crate::object::ElfClass::Elf64,
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
            return EditRequest::default();
        }
    };
    let names = vec![path.into_os_string().into_vec()];
    let search = known.search(number, caution, &mut wanted.farms);
    EditRequest { needed: NeededEdit::List { names, providers }, search }
}

fn is_path(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}

/// Whether a library that a path names is still found by the name that it was asked for by.
fn is_called(member: &LoaderRunObject) -> bool {
    member.object.soname.as_deref() == Some(&member.asked_as)
}

/// Whether another node may find another file by that name.
fn depends_on_processor(known: &BindFacts<'_>, member: &LoaderRunObject) -> bool {
    let by_list = matches!(member.found, ResolvedBy::ByList { through: Through::Processor, .. });
    let variants = || match (member.path.parent(), member.path.file_name()) {
        (Some(directory), Some(name)) => known.variants.has(directory, name),
        _ => false,
    };
    by_list || is_variant(&member.path) || variants()
}

/// Whether the program needs a closure library already.
fn is_done(run: &LoaderRun) -> bool {
    let directory = OsStr::new(OWN_DIRECTORY);
    run.members.get(1).is_some_and(|first| {
        first.found == ResolvedBy::Directly
            && first.path.components().any(|part| part.as_os_str() == directory)
    })
}

fn why_not(known: &BindFacts<'_>, run: &LoaderRun, farms: &mut Farms) -> Option<String> {
    if run.is_musl {
        return Some(
            "musl's loader knows no SONAME, so that a closure saves nothing; use the mode farm"
                .into(),
        );
    }
    let mut starts = known.programs.iter().filter(|other| other.root == run.root);
    if starts.any(|other| is_steered(run, other)) {
        return Some(
            "the environment of this start decides what it loads (LD_LIBRARY_PATH, LD_PRELOAD)"
                .into(),
        );
    }
    if let Some(missing) = run.missing.first() {
        return Some(format!("{} is not found today", missing.to_string_lossy()));
    }
    if run.members.iter().any(|member| is_asked_first(run, member)) {
        return Some(WORKING_DIRECTORY.into());
    }
    let is_closed =
        |member: &&LoaderRunObject| known.pins.closed.is_closed(member.id, run.members[0].id);
    if let Some(member) = run.members.iter().skip(1).find(is_closed) {
        return Some(format!("not everyone may read {}", member.path.display()));
    }
    let moves = |through| matches!(through, Through::Origin | Through::Linked);
    let origin = |member: &LoaderRunObject| matches!(member.found, ResolvedBy::ByList { through, .. } if moves(through));
    if !known.options.absolute && run.members.iter().any(origin) {
        return Some(RELOCATABLE.into());
    }
    let (opens, list) = opens_through_another(known, run, farms)?;
    let (opens, list) = (opens.display(), list.display());
    Some(format!(
        "{opens} may open libraries by name, which it finds through the DT_RPATH of {list}; use the mode needed"
    ))
}

/// What each name that versions are asked of becomes.
fn providers<'a>(
    loaded: impl Iterator<Item = &'a LoaderRunObject>,
    names: &[Vec<u8>],
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let by_name: HashMap<&[u8], &Vec<u8>> = loaded
        .zip(names)
        .filter(|(member, _)| member.found != ResolvedBy::Loader)
        .map(|(member, name)| (member.asked_as.as_bytes(), name))
        .collect();
    by_name.into_iter().map(|(old, new)| (old.to_vec(), new.clone())).collect()
}
