//! From trees, as several users see them, to what is to be done.

use std::path::PathBuf;

use super::budget::{self, Planned};
use super::reads::ModulefileReaders;
use super::shelf::Shelf;
use super::{
    Hidden, Kept, MergedRcFile, RootRc, TidyOptions, TidySubject, TidyView, Tidying, hide, merge,
    strays, virtual_path,
};
use crate::site::ModulesSite;
use crate::tree::TreeEntryKind;

/// What a plan stands on.
pub struct Ground<'a> {
    /// The site's Modules.
    pub site: &'a ModulesSite,
    /// The modulepaths as whoever applies the plan sees them, and then as others do.
    pub views: &'a [TidyView],
}

/// Plans. Nothing is written, and nothing is run.
pub fn plan(ground: &Ground<'_>, options: &TidyOptions) -> Tidying {
    let Some(view) = ground.views.first() else { return Tidying::default() };
    let modulepath = view.trees.iter().map(|tree| tree.root.clone()).collect();
    let mut tidying = Tidying { modulepath, ..Tidying::default() };
    let shelves: Vec<Shelf<'_>> = view
        .trees
        .iter()
        .filter(|tree| matches!(tree.top.kind, TreeEntryKind::Directory { .. }))
        .map(|tree| Shelf::of(tree, &ground.site.release))
        .collect();
    if shelves.len() < view.trees.len() || overlap(&shelves, options) {
        let reason = "each modulepath must be a directory that can be read, and neither another nor \
                      what is moved out or made may lie in it";
        let path = tidying.modulepath.first().cloned().unwrap_or_default();
        tidying.kept.push(Kept { path, what: TidySubject::Rc, reason: reason.into() });
        return tidying;
    }
    match &options.virtual_in {
        Some(directory) => virtual_path::plan(&shelves, directory, &mut tidying),
        None => in_place(ground, options, &shelves, &mut tidying),
    }
    tidying.risks = risks(&tidying);
    tidying
}

fn overlap(shelves: &[Shelf<'_>], options: &TidyOptions) -> bool {
    let apart = options.strays.iter().chain(&options.virtual_in);
    let mut apart = apart.flat_map(|directory| shelves.iter().map(move |shelf| (directory, shelf)));
    if apart.any(|(directory, shelf)| directory.starts_with(shelf.root)) {
        return true;
    }
    let real = |shelf: &Shelf<'_>| shelf.root.canonicalize().unwrap_or_default();
    let real: Vec<_> = shelves.iter().map(real).collect();
    real.iter().enumerate().any(|(at, one)| {
        real.iter().enumerate().any(|(other, another)| at != other && one.starts_with(another))
    })
}

fn in_place<'a>(
    ground: &Ground<'_>,
    options: &TidyOptions,
    shelves: &'a [Shelf<'a>],
    tidying: &mut Tidying,
) {
    let readers = ModulefileReaders::of(shelves);
    let mut planned: Vec<_> = shelves.iter().map(|_| Planned::default()).collect();
    let is_checked = ground.site.setting("mcookie_check") != Some("eval");
    let is_ours = |shelf: &Shelf<'_>| !options.left_alone.iter().any(|root| root == shelf.root);
    if is_checked {
        for (shelf, planned) in shelves.iter().zip(&mut planned).filter(|(shelf, _)| is_ours(shelf))
        {
            let found = strays::of(shelf, &readers, options);
            tidying.kept.extend(found.kept);
            planned.moved = found.moved.iter().map(|(name, _)| *name).collect();
            tidying.moved.extend(found.moved.into_iter().map(|(_, moved)| moved));
        }
    }
    let mut hidden: Vec<Vec<Hidden>> = shelves.iter().map(|_| Vec::new()).collect();
    if options.no_cookie_checks && is_checked {
        match unchecked(ground, options, shelves, &mut planned) {
            Ok(lines) => {
                hidden = lines;
                tidying.environment.push(("MODULES_MCOOKIE_CHECK".into(), "eval".into()));
            }
            Err(reason) => {
                let path = shelves.first().map_or(PathBuf::new(), |shelf| shelf.root.to_owned());
                tidying.kept.push(Kept { path, what: TidySubject::CookieCheck, reason });
            }
        }
    }
    let mut candidates = merge::candidates(shelves, Some(&readers));
    for (shelf, candidates) in shelves.iter().zip(&mut candidates) {
        if !is_ours(shelf) {
            *candidates = merge::Candidates::default();
        }
    }
    budget::choose(shelves, &mut planned, candidates, options.slower_load);
    let saved = budget::saved_by_avail(shelves, &planned);
    tidying.saved_calls = saved.iter().sum();
    tidying.saved_in = shelves.iter().map(|shelf| shelf.root.to_owned()).zip(saved).collect();
    for ((shelf, planned), hidden) in shelves.iter().zip(planned).zip(hidden) {
        write_root(shelf, planned, hidden, tidying);
    }
}

/// What is hidden where cookies are no longer checked, if that makes no `load` dearer.
fn unchecked(
    ground: &Ground<'_>,
    options: &TidyOptions,
    shelves: &[Shelf<'_>],
    planned: &mut Vec<Planned<'_>>,
) -> Result<Vec<Vec<Hidden>>, String> {
    if ground.site.release.is_older_than("5.1") {
        return Err(format!("Modules {} has no mcookie_check", ground.site.release));
    }
    let lines = shelves
        .iter()
        .zip(&*planned)
        .enumerate()
        .map(|(at, (shelf, planned))| hide::lines(shelf, at, &planned.moved, ground.views));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    let needed = shelves.iter().zip(&lines).filter(|(_, lines)| !lines.is_empty());
    for (shelf, _) in needed {
        if options.left_alone.iter().any(|root| root == shelf.root) {
            let root = shelf.root.display();
            return Err(format!("{root} is another's, and files in it had to be hidden"));
        }
    }
    for ((shelf, planned), hidden) in shelves.iter().zip(&mut *planned).zip(&lines) {
        planned.unchecked = true;
        planned.lines = hidden.len();
        planned.gets_root = !hidden.is_empty() && shelf.root_rc().is_none();
    }
    match budget::too_dear(shelves, planned).filter(|_| !options.slower_load) {
        None => Ok(lines),
        Some(why) => {
            for planned in planned {
                (planned.unchecked, planned.lines, planned.gets_root) = (false, 0, false);
            }
            Err(why)
        }
    }
}

/// What the rc file at a root gets.
fn write_root(shelf: &Shelf<'_>, planned: Planned<'_>, hidden: Vec<Hidden>, tidying: &mut Tidying) {
    let path = shelf.root.join(".modulerc");
    for (name, reason) in planned.merged.kept {
        tidying.kept.push(Kept { path: shelf.root.join(name), what: TidySubject::Rc, reason });
    }
    let mut lines: Vec<String> = Vec::new();
    for one in planned.merged.by_top.into_values().flatten() {
        lines.extend(one.lines.iter().cloned());
        let from = shelf.root.join(one.name);
        tidying.merged.push(MergedRcFile { path: from, into: path.clone(), lines: one.lines });
    }
    lines.extend(hidden.iter().map(|hidden| hidden.line.clone()));
    tidying.hidden.extend(hidden);
    if lines.is_empty() {
        return;
    }
    lines.push(String::new());
    let added = lines.join("\n");
    let (there, before) = match shelf.root_rc() {
        None => (None, "#%Module\n"),
        Some(rc) if rc.content.ends_with(b"\n") => (Some(rc.content.len() as u64), ""),
        Some(rc) => (Some(rc.content.len() as u64), "\n"),
    };
    tidying.roots.push(RootRc { path, there, text: format!("{before}{added}").into_bytes() });
}

fn risks(tidying: &Tidying) -> Vec<String> {
    let mut risks = Vec::new();
    let mut risk = |applies: bool, text: &str| {
        if applies {
            risks.push(text.to_owned());
        }
    };
    risk(
        !tidying.merged.is_empty(),
        "A tool that writes rc files into the directories of its modules will write them again.",
    );
    risk(
        tidying.roots.iter().any(|root| root.there.is_none()),
        "Modulepaths that come after these have one rc file more before them at each load.",
    );
    risk(!tidying.moved.is_empty(), "Copies of what moves out belong to whoever applies this.");
    risk(
        !tidying.environment.is_empty(),
        "Without cookie checks, whatever is put into a modulepath is shown as a module.",
    );
    risk(
        !tidying.virtuals.is_empty(),
        "A modulefile that is added or removed is not seen until this is done again.",
    );
    risks
}
