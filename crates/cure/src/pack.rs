//! A start with many libraries of a store whose files never change in place: its loader's work is put
//! into one file (`becalm elf pack`).
//!
//! Nothing is changed in the store, where no file may be bound: its manager checks each by its hash.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use explain::{SourcePath, Storm};
use loader::bind::{PackageStore, store_of};
use recording::{Event, Exec, Kind, Name, PathId, Phase};
use term::number::counted;

use crate::cure::{Cure, CureActor, CureChange};
use crate::plan::{PlanInput, calm_file_name};
use crate::prediction::CureEffect;

/// With fewer libraries, what `becalm run` itself asks is felt.
const MANY: u64 = 50;
/// Operations of `becalm run --pack` on the node itself: namespaces, other ranks.
const RUN: u64 = 40;
/// The pack, the program's copy, and one library of the store's mount.
const LOOKED_AT: u64 = 3;

/// The cure, where it is sure to be one.
pub(crate) fn cure(input: &PlanInput) -> Option<Cure> {
    let PlanInput { recording, machine, .. } = input;
    let command = recording.processes.first()?;
    let exec = command.execs.first().filter(|exec| exec.path == exec.image)?;
    let program = path_of(recording.path(exec.image));
    let store = immutable_store(program)?;
    let until = command.execs.get(1).map(|next| next.at);
    let is_loaders = |event: &Event| {
        let is_first = event.process == command.id && until.is_none_or(|until| event.start < until);
        is_first && event.in_loader && event.phase == Phase::Loading && event.path.is_some()
    };
    let events = || recording.events.iter().enumerate().filter(|(_, event)| is_loaders(event));
    let opened =
        events().filter(|(_, event)| event.kind() == Kind::Open && !event.outcome.failed());
    let opened = opened.filter_map(|(_, event)| event.path).collect::<BTreeSet<_>>();
    let is_of_store = |id: &&PathId| path_of(recording.path(**id)).starts_with(&store.root);
    let libraries = opened.iter().filter(is_of_store).count() as u64;
    if libraries < MANY || is_loaded_otherwise(exec) || (machine.why_no_pack)(program).is_some() {
        return None;
    }
    let mut effect = CureEffect::of(events().map(|(number, _)| number));
    (effect.added, effect.looked_at) = (RUN, LOOKED_AT);
    let predicted = input.predictor.predict(&effect);
    let root = term::quoted(&store.root);
    let pack = calm_file_name(&input.findings.program).replace(".calm", ".pack");
    predicted.is_worth_it().then(|| Cure {
        storm: Storm::Loader,
        text: format!(
            "Put its start into one file: {} of {}, mapped and relocated; where anything is another, \
             it starts as always",
            counted(libraries, "library", "libraries"),
            term::plain(&store.root.to_string_lossy())
        ),
        command: Some(format!(
            "becalm elf pack --immutable {root} {} -o {pack} && becalm run --pack {pack} -- {}",
            term::quoted(program),
            input.line
        )),
        actor: CureActor::You,
        owner: None,
        change: CureChange::StartFromPack {
            program: SourcePath { id: Some(exec.image), name: Name::of(program) },
            libraries,
        },
        risk: Some(
            "what is written below the store in place is missed; read docs/elf-pack.md before".into(),
        ),
        predicted,
        effect,
    })
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// The store of a file, if no file of it ever changes in place.
fn immutable_store(path: &Path) -> Option<PackageStore> {
    store_of(path).filter(|store| store.manager.is_immutable())
}

/// Whether its loader obeys a variable: its pack would not be used.
fn is_loaded_otherwise(exec: &Exec) -> bool {
    let obeyed = ["LD_", "MALLOC_", "GLIBC_TUNABLES"];
    exec.env.iter().any(|(name, _)| obeyed.iter().any(|start| name.starts_with(start)))
}
