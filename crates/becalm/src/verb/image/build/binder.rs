//! What binds libraries in an image: the loader's own plan, as for `becalm elf bind`, of which only the
//! bytes are taken.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use image::squash::{
    BoundLibrary, LibraryBindings, ReplaceableLibrary, SearchCounts, UnhealedFile,
};
use image_format::tree::ContentPatch;
use loader::Disk;
use loader::bind::{self, BindChange, BindOptions, Binding, NameLeft, StartEnvironment};
use loader::edit::BytePatch;

/// How these files are bound, where these paths are packed. `ran` are files that the image's traced
/// command opened: its programs have this process's environment.
pub fn bind(files: &[PathBuf], packed: &[PathBuf], ran: &[PathBuf]) -> LibraryBindings {
    let options = BindOptions {
        for_copies: true,
        packed: packed.to_vec(),
        // Its libraries are loaded by programs that are not in it, too.
        others_load: true,
        environments: vec![environment(files, ran)],
        ..BindOptions::default()
    };
    match bind::plan(&Disk::new(), files, &options, &|_| {}) {
        Ok(binding) => bindings(binding),
        Err(error) => {
            let path = packed.first().cloned().unwrap_or_default();
            let as_it_was = vec![UnhealedFile { path, why: error.to_string() }];
            LibraryBindings { as_it_was, ..LibraryBindings::default() }
        }
    }
}

/// Where somebody builds an image, they mostly run it, too: what LD_LIBRARY_PATH leads to there stays.
/// What it leads to where the image is run is looked at there.
fn environment(files: &[PathBuf], ran: &[PathBuf]) -> StartEnvironment {
    let ran = ran.iter().filter_map(|path| path.canonicalize().ok());
    let variables: BTreeMap<_, _> = env::vars_os().collect();
    let programs = files.iter().cloned().chain(ran).collect();
    StartEnvironment { variables, programs, opens: Vec::new() }
}

fn bindings(binding: Binding) -> LibraryBindings {
    let counts = binding.predicted();
    let failed = |counts: &remedy::Counts| counts.failed_opens + counts.failed_stats;
    let all = |counts: &remedy::Counts| counts.opens + counts.stats;
    let search = SearchCounts {
        before: all(&counts.before),
        failed_before: failed(&counts.before),
        after: all(&counts.after),
        failed_after: failed(&counts.after),
    };
    let left = |file: bind::UnboundFile| UnhealedFile { path: file.path, why: file.reason };
    // What has nothing to search is no file that could not be bound.
    let has_list = |file: &bind::UnboundFile| is_searched(&file.path);
    let left_out = binding.left_out.into_iter().filter(has_list).map(left);
    let as_it_was = left_out.chain(asked_before(&binding.names_left)).collect();
    LibraryBindings { bound: binding.changes.into_iter().map(bound).collect(), as_it_was, search }
}

/// Files with names that stay, though the libraries are packed: each once.
fn asked_before(names: &[NameLeft]) -> Vec<UnhealedFile> {
    let mut files: Vec<UnhealedFile> = Vec::new();
    for left in names.iter().filter(|left| left.reason == bind::ASKED_BEFORE) {
        if files.last().is_none_or(|last| last.path != left.file) {
            let why = format!("{} stays a name: {}", left.name.display(), left.reason);
            files.push(UnhealedFile { path: left.file.clone(), why });
        }
    }
    files
}

/// A name that is bound, where LD_LIBRARY_PATH could have led to another library than that.
fn replaceable(
    change: &BindChange,
    (name, bound): &(OsString, OsString),
) -> Option<ReplaceableLibrary> {
    if name.as_bytes().contains(&b'/') {
        return None;
    }
    let moves = bound.as_bytes().strip_prefix(b"$ORIGIN/").map(OsStr::from_bytes);
    let file = match moves {
        Some(below) => change.path.parent()?.join(below),
        None => PathBuf::from(bound),
    };
    Some(ReplaceableLibrary { name: name.into(), file, moves: moves.is_some() })
}

/// Whether a file has a list of directories.
fn is_searched(path: &Path) -> bool {
    loader::ElfObject::read(path)
        .is_ok_and(|object| object.rpath.is_some() || object.runpath.is_some())
}

fn content_patch(patch: &BytePatch) -> ContentPatch {
    ContentPatch { offset: patch.offset, old: patch.old.clone(), new: patch.new.clone() }
}

fn bound(change: BindChange) -> BoundLibrary {
    let replaceable = match change.gives_way {
        true => change.needed.iter().filter_map(|names| replaceable(&change, names)).collect(),
        false => Vec::new(),
    };
    BoundLibrary {
        replaceable,
        path: change.path,
        names: change.needed.len() as u64,
        drops_list: change.search.is_some_and(|list| list.after().is_empty()),
        seen: (change.seen.inode, change.seen.size.0, change.seen.mtime_ns),
        patches: change.patches.iter().map(content_patch).collect(),
    }
}
