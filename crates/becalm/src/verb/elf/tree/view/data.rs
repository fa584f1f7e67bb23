//! The whole as JSON: docs/schema/becalm.elf.tree.md.

use loader::simulation::{Edge, FoundBy, LoadedObject, Missing, SearchProbe, Simulation};
use recording::shown_name;
use remedy::Counts;
use schemars::JsonSchema;
use serde::Serialize;

use super::{LibraryTree, answer, call, found_by, tag};

/// What `becalm elf tree --json` answers.
#[derive(Serialize, JsonSchema)]
pub struct ElfTree {
    /// `becalm.elf.tree/1`.
    schema: &'static str,
    /// The file, as given.
    file: String,
    /// Whether all that is needed was found; if not, the exit status is 1.
    complete: bool,
    /// Whether the file is for another processor than this machine's: the loader is then taken to find
    /// none of the features that only some of those processors have.
    another_processor: bool,
    /// What the loader asks for to find libraries; where it does not find one and gives up, up to
    /// that.
    searches: Counts,
    /// What is loaded, in the order of the link map, the file itself first; where something is
    /// missing, what `ldd` would say.
    objects: Vec<TreeObject>,
    /// Names that cannot be loaded.
    not_found: Vec<MissingName>,
    /// Where something is missing: after how many probes the start ends: with the last of `probes`.
    ends_after_probe: Option<usize>,
    /// With `--probes`: every path that the loader asks the kernel for, in order, up to the end of a
    /// start that fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    probes: Option<Vec<AskedPath>>,
}

/// What is loaded.
#[derive(Serialize, JsonSchema)]
struct TreeObject {
    /// The path by which it is opened.
    path: String,
    /// The name that was searched.
    asked_as: String,
    /// Its DT_SONAME.
    soname: Option<String>,
    /// `program`, `interpreter`, `kernel` (the vdso), `path` (a name with a slash), `rpath`,
    /// `runpath`, `LD_LIBRARY_PATH`, `ld.so.cache`, `default path`.
    found_by: &'static str,
    /// With `rpath`: whose DT_RPATH led to it, as an index into `objects`.
    rpath_of: Option<usize>,
    /// The object that it was loaded for, as an index into `objects`.
    first_needed_by: Option<usize>,
    /// What it needs.
    needs: Vec<NeededName>,
}

/// What an object needs.
#[derive(Serialize, JsonSchema)]
struct NeededName {
    /// The name.
    name: String,
    /// `NEEDED`, `FILTER`, `AUXILIARY`.
    tag: &'static str,
    /// What serves it, as an index into `objects`; null if nothing does.
    object: Option<usize>,
}

/// A name that cannot be loaded.
#[derive(Serialize, JsonSchema)]
struct MissingName {
    /// The name.
    name: String,
    /// By which tag it is needed.
    tag: &'static str,
    /// Who needs it, as an index into `objects`.
    needed_by: usize,
    /// Why, in words.
    why: String,
}

/// A path that the loader asks the kernel for.
#[derive(Serialize, JsonSchema)]
struct AskedPath {
    /// `open`, `stat`, `access`, `readlink`.
    call: &'static str,
    /// As passed to the kernel.
    path: String,
    /// `found`; an error such as `ENOENT`; or why the loader does not take the file.
    answer: String,
    /// The name that is searched; empty if none is.
    r#for: String,
    /// Whose need is searched, as an index into `objects`.
    needed_by: usize,
}

impl LibraryTree<'_> {
    /// The whole as data, with the probes if they are wanted.
    pub fn data(&self, probes: bool) -> ElfTree {
        let Simulation { objects, missing, probes: asked, counts, fatal, .. } = self.simulation;
        ElfTree {
            schema: "becalm.elf.tree/1",
            file: shown_name(self.file),
            complete: self.is_complete(),
            another_processor: self.is_of_another_processor(),
            searches: *counts,
            objects: objects.iter().map(TreeObject::of).collect(),
            not_found: missing.iter().map(MissingName::of).collect(),
            ends_after_probe: fatal.as_ref().map(|fatal| fatal.after),
            probes: probes.then(|| asked.iter().map(AskedPath::of).collect()),
        }
    }
}

impl TreeObject {
    fn of(loaded: &LoadedObject) -> TreeObject {
        TreeObject {
            path: shown_name(&loaded.path),
            asked_as: shown_name(&loaded.asked_as),
            soname: loaded.object.soname.as_deref().map(shown_name),
            found_by: found_by(&loaded.how),
            rpath_of: match loaded.how {
                FoundBy::Rpath { of } => Some(of),
                _ => None,
            },
            first_needed_by: loaded.loader,
            needs: loaded.edges.iter().map(NeededName::of).collect(),
        }
    }
}

impl NeededName {
    fn of(edge: &Edge) -> NeededName {
        NeededName { name: shown_name(&edge.name), tag: tag(edge.kind), object: edge.to }
    }
}

impl MissingName {
    fn of(missing: &Missing) -> MissingName {
        MissingName {
            name: shown_name(&missing.name),
            tag: tag(missing.kind),
            needed_by: missing.needed_by,
            why: missing.why.to_string(),
        }
    }
}

impl AskedPath {
    fn of(probe: &SearchProbe) -> AskedPath {
        AskedPath {
            call: call(probe.call),
            path: shown_name(&probe.path),
            answer: answer(&probe.answer),
            r#for: shown_name(&*probe.name),
            needed_by: probe.for_object,
        }
    }
}
