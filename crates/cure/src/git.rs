//! What git can be told to ask less, with what that was measured to take away.
//!
//! Counted with git 2.39 and `strace -c` on `git status` of 6,000 files in 200 directories, 7,196
//! calls: `core.untrackedCache` 6,592 (no directory is opened and listed, all is still asked for by
//! lstat), `-uno` 6,387; `core.fsmonitor=true`, `core.checkStat=minimal` and `core.preloadIndex` no
//! fewer (git's own daemon of fsmonitor is not there on Linux; preloadIndex, which is on by default,
//! asks from 20 threads).

use explain::Storm;
use recording::{Event, Exec, Kind, Recording};

use crate::binding::base_name;
use crate::cure::{Cure, CureActor, CureChange, RefusedCure, StormCures};
use crate::plan::PlanInput;
use crate::prediction::CureEffect;

/// Adds what there is for a git that asks for many files or walks.
pub(crate) fn advise(input: &PlanInput, storm: Storm, program: &str, all: &mut StormCures) {
    let refused = |text: &str, why: String| RefusedCure { storm, text: text.to_owned(), why };
    let setting = "git config core.untrackedCache true";
    match untracked_cache(input, storm) {
        Ok(cure) => all.cures.push(cure),
        Err(why) => all.not_chosen.push(refused(setting, why)),
    }
    all.not_chosen.push(refused(
        "core.fsmonitor",
        "git's daemon for it is not there on Linux, and what another node changes none sees"
            .to_owned(),
    ));
    all.not_chosen.push(refused(
        "git sparse-checkout set DIRECTORY…",
        format!(
            "{program} asks for each file of its index; which of them you need, no recording \
                 tells"
        ),
    ));
    all.not_chosen.push(refused(
        "An image of the working tree",
        "what is edited there would not be seen".to_owned(),
    ));
}

/// The setting with which git remembers directories; or why not.
fn untracked_cache(input: &PlanInput, storm: Storm) -> Result<Cure, String> {
    let listings: Vec<usize> = listings_of_status(input.recording).collect();
    if listings.is_empty() {
        return Err("it spares `git status` listing directories, and none was listed".to_owned());
    }
    let effect = CureEffect::of(listings);
    let predicted = input.predictor.predict(&effect);
    if !predicted.is_worth_it() {
        return Err(predicted.too_little());
    }
    let setting = "core.untrackedCache".to_owned();
    Ok(Cure {
        storm,
        text: "Have git remember which directories have no new file: the second `git status` from \
               then on lists none that has not changed"
            .to_owned(),
        command: Some(format!("git config {setting} true")),
        actor: CureActor::You,
        owner: None,
        change: CureChange::SetGit { setting },
        risk: Some(
            "it relies on the times of directories (try it: git update-index \
             --test-untracked-cache)"
                .to_owned(),
        ),
        predicted,
        effect,
    })
}

/// What `git status` does to list directories.
fn listings_of_status(recording: &Recording) -> impl Iterator<Item = usize> {
    let is_status = |exec: &Exec| {
        base_name(recording.path(exec.image)) == b"git"
            && exec.argv.iter().any(|word| word == "status")
    };
    let is_git =
        move |event: &Event| recording.program(event.process, event.start).is_some_and(is_status);
    let events = recording.events.iter().enumerate().filter(move |(_, event)| {
        (event.kind() == Kind::List || event.is_listing()) && is_git(event)
    });
    events.map(|(number, _)| number)
}
