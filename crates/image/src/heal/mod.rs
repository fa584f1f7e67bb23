//! What is healed while it is packed, never in the source.
//!
//! Libraries that are searched over long lists of directories are bound to what is found there today.
//!
//! Bytecode that is missing or does not fit its source is compiled into the image. Else every start from it compiles these modules again,
//! for ever: nothing can be written there.
//!
//! What is compiled carries time and size of its source in the image, as Python itself writes it: so
//! whoever edits the source, in a layer over the image or where it is unpacked, is not given old code.
//! (The unchecked bytecode of PEP 552 would save nothing: Python asks for the source all the same.)
//!
//! | file | what it holds |
//! |---|---|
//! | `modules` | which files can be imported, by which Python |
//! | `bytecode` | whether there is bytecode that fits |
//! | `libraries` | libraries bound in the image
//! | `search_path` | a PYTHONPATH of many entries, joined |
//! | `python` | the environment's own Python, which compiles |

mod bytecode;
mod libraries;
mod modules;
mod own_place;
mod python;
mod search_path;

use std::env;
use std::path::PathBuf;

use image_format::tree::{FileTree, PathTarget};
use schemars::JsonSchema;
use serde::Serialize;

use crate::squash::{ImageOptions, ImageProgress};
use bytecode::{BytecodeKeeper, UnfitModule};
pub(crate) use libraries::BoundFacts;
pub use libraries::{
    BoundLibrary, BoundSource, HealedLibrary, LibraryBinder, LibraryBindings, ReplaceableLibrary,
    SearchCounts,
};
use modules::ModulePlaces;
use python::{Compiler, Source, is_trusted};
pub(crate) use search_path::JOINED;
pub use search_path::{EntryApart, JoinedPath};

/// What was healed while it was packed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Healed {
    /// Modules whose bytecode in the image was compiled while it was packed, in the tree's order.
    pub bytecode: Vec<HealedModule>,
    /// Programs and libraries that are bound in the image to what their lists of directories
    /// (RPATH) find today, by path.
    pub libraries: Vec<HealedLibrary>,
    /// What the loader looks up at the starts of the programs with such libraries, and of such
    /// libraries alone: before, and in the image.
    pub library_search: SearchCounts,
    /// What PYTHONPATH was, and what it is in the image; null where it was not joined.
    pub python_path: Option<JoinedPath>,
    /// What could not be healed, and is as it was.
    pub as_it_was: Vec<UnhealedFile>,
}

/// A module whose bytecode was compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HealedModule {
    /// Its source.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub path: PathBuf,
    /// What was wrong.
    pub was: BytecodeFault,
    /// For which Python it was compiled, as its bytecode files are called: `cpython-311`.
    pub python: String,
}

/// What was wrong with bytecode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BytecodeFault {
    /// There was none.
    Missing,
    /// It did not fit its source, by time or size, or was another Python's.
    Stale,
}

/// Something that could not be healed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnhealedFile {
    /// A source, or the interpreter that was to compile.
    #[serde(with = "image_format::path_json")]
    #[schemars(with = "image_format::path_json::PathText")]
    pub path: PathBuf,
    /// Why: what Python says.
    pub why: String,
}

/// A healed tree: what comes first in it, and what was done.
pub(crate) struct Healing {
    /// Files whose content comes first, in this order, with the bytecode that the trace could not
    /// open yet.
    pub first: Vec<PathBuf>,
    /// None where nothing was to be healed.
    pub healed: Option<Healed>,
    /// What is to be known of bound libraries.
    pub bound: BoundFacts,
}

impl Healing {
    /// A tree as it is.
    pub fn none(options: &ImageOptions<'_>) -> Healing {
        Healing { first: options.first.to_vec(), healed: None, bound: BoundFacts::default() }
    }
}

/// Heals a tree, unless it is to be packed as it is. Its sources are asked nothing that packing
/// them does not ask, and not written to.
pub(crate) fn heal(tree: &mut FileTree, options: &ImageOptions<'_>) -> Healing {
    let mut healing = Healing::none(options);
    if !options.heals {
        return healing;
    }
    let mut healed = Healed::default();
    let search = env::var_os("PYTHONPATH").unwrap_or_default();
    let searched: Vec<PathBuf> = env::split_paths(&search).filter(|it| it.is_absolute()).collect();
    let places = ModulePlaces::of(tree, options.first, &searched);
    let (mut tags, mut keeper) = (Vec::new(), BytecodeKeeper::new(options.readers));
    if !places.is_empty() {
        heal_bytecode(tree, &places, options, &mut healed, &mut tags, &mut keeper);
    }
    if let Some(binder) = options.binder {
        (options.progress)(ImageProgress::Binding);
        healing.bound = libraries::bind(tree, binder, options.readers, &mut healed);
    }
    healing.first = with_bytecode(options.first, &tags);
    // Links to the bytecode that is there by now.
    healed.python_path =
        search_path::join(tree, env::split_paths(&search).collect(), options.readers, &mut keeper);
    if let Some(said) = healed.python_path.as_ref().and_then(JoinedPath::said) {
        healing.first.insert(0, said);
    }
    healing.healed = Some(healed);
    healing
}

fn heal_bytecode(
    tree: &mut FileTree,
    places: &ModulePlaces,
    options: &ImageOptions<'_>,
    healed: &mut Healed,
    tags: &mut Vec<String>,
    keeper: &mut BytecodeKeeper,
) {
    for (compiler, searches) in compilers(places, healed) {
        let python = compiler.about.clone();
        let modules = places.modules(tree, &python, searches);
        let unfit = keeper.unfit(tree, &modules, &python);
        if unfit.is_empty() {
            continue;
        }
        let sources: Vec<Source> = unfit.iter().map(|module| module.source(tree)).collect();
        let of = sources.len() as u64;
        let told = |done| (options.progress)(ImageProgress::Compiling { done: done as u64, of });
        told(0);
        let (compiled, stopped) = compiler.compile(&sources, &told);
        if let Some(why) = stopped {
            healed.as_it_was.push(UnhealedFile { path: python.file.clone(), why });
        }
        let mut compiled = compiled.into_iter();
        for module in unfit {
            let Some(compiled) = compiled.next() else {
                keeper.keep(tree, module.id, module.text);
                continue;
            };
            let is_mended = |pyc: &[u8]| module.is_mended_by(pyc, tree, &python);
            let compiled = compiled.map(|pyc| is_mended(&pyc).then_some(pyc));
            let UnfitModule { id, was, text } = module;
            let path = tree.source(id);
            match compiled {
                Ok(Some(pyc)) => {
                    bytecode::put(tree, id, &python.tag, pyc.into());
                    healed.bytecode.push(HealedModule { path, was, python: python.tag.clone() });
                }
                Ok(None) => {
                    let why = "its Python answered with something else than bytecode".to_owned();
                    healed.as_it_was.push(UnhealedFile { path, why });
                }
                Err(why) => healed.as_it_was.push(UnhealedFile { path, why }),
            }
            keeper.keep(tree, id, text);
        }
        tags.push(python.tag);
    }
}

/// The Pythons that are meant, one of each kind of bytecode, and whether each searches the
/// directories that the trace's did.
fn compilers(places: &ModulePlaces, healed: &mut Healed) -> Vec<(Compiler, bool)> {
    let mut compilers: Vec<(Compiler, bool)> = Vec::new();
    for (number, file) in places.interpreters.iter().enumerate() {
        let searches = number < places.ran || places.ran == 0;
        if number >= places.ran && !is_trusted(file) {
            let why = "another user's program is not run unasked; build the image with a command \
                       that runs it"
                .to_owned();
            healed.as_it_was.push(UnhealedFile { path: file.clone(), why });
            continue;
        }
        match Compiler::start(file) {
            Ok(new) => add(&mut compilers, new, searches),
            Err(why) => healed.as_it_was.push(UnhealedFile { path: file.clone(), why }),
        }
    }
    // Packages without the Python that they are for: Spack's prefixes, PYTHONPATH.
    for version in places.versions() {
        let is_there = |it: &(Compiler, bool)| it.0.about.version == version || version == "3";
        if compilers.iter().any(is_there) {
            continue;
        }
        let argv = vec![format!("python{version}").into()];
        let found = launch::Command::of(argv).file().ok();
        let new = found.and_then(|file| Compiler::start(&file).ok());
        match new.filter(|new| version == "3" || new.about.version == version) {
            Some(new) => add(&mut compilers, new, places.ran == 0),
            None => {
                let path = PathBuf::from(format!("python{version}"));
                let why = "no such Python (3.7 or later) is packed, traced or in PATH".to_owned();
                healed.as_it_was.push(UnhealedFile { path, why });
            }
        }
    }
    compilers
}

fn add(compilers: &mut Vec<(Compiler, bool)>, new: Compiler, searches: bool) {
    match compilers.iter_mut().find(|(it, _)| it.about.tag == new.about.tag) {
        Some((same, before)) => {
            *before |= searches;
            same.about.library.extend(new.about.library.iter().cloned());
        }
        None => compilers.push((new, searches)),
    }
}

/// The order of a trace, with the bytecode of each source before it: what compiled in the trace
/// opens it in the image.
fn with_bytecode(first: &[PathBuf], tags: &[String]) -> Vec<PathBuf> {
    let mut with = Vec::with_capacity(first.len());
    for path in first {
        if path.extension().is_some_and(|end| end == "py")
            && let (Some(above), Some(stem)) = (path.parent(), path.file_stem())
        {
            for tag in tags {
                let mut name = stem.to_owned();
                name.push(format!(".{tag}.pyc"));
                with.push(above.join("__pycache__").join(name));
            }
        }
        with.push(path.clone());
    }
    with
}

/// The file that a node means: itself, or where it leads in the tree.
fn file_of(tree: &FileTree, id: image_format::tree::FileNodeId) -> Option<u32> {
    match tree.find(&tree.place(id)) {
        PathTarget::Inside(id) => Some(tree.nodes[id as usize].first_name.unwrap_or(id)),
        _ => None,
    }
}
