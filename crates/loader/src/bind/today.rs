//! Which files may be edited, and what is loaded today.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::collect::{ElfFileNames, numbers};
use super::openers::may_open;
use super::own::{OwnLists, is_plain};
use super::resolve::{LoaderRun, Resolver, foreign};
use super::steered::{brought, mark};
use super::{BindProgress, Leave, UnboundFile};
use crate::FileId;

/// The files that may be edited as far as they themselves are concerned.
#[derive(Debug, Default)]
pub(super) struct EligibleFiles {
    /// Those that may.
    pub changeable: HashSet<usize>,
    /// Those that would be, and cannot be changed.
    pub fixed: HashSet<usize>,
}

impl EligibleFiles {
    pub fn of(
        files: &[ElfFileNames],
        leave: &Leave,
        left_out: &mut Vec<UnboundFile>,
    ) -> EligibleFiles {
        let mut eligible = EligibleFiles::default();
        for (number, file) in files.iter().enumerate().filter(|(_, file)| file.is_given) {
            let mut leave_out =
                |reason| left_out.push(UnboundFile { path: file.path().to_owned(), reason });
            if let Some(reason) = why_not(file, leave) {
                leave_out(reason);
            } else if let Some(reason) = why_fixed(file) {
                leave_out(reason);
                eligible.fixed.insert(number);
            } else {
                eligible.changeable.insert(number);
            }
        }
        eligible
    }

    fn concerns(&self, number: usize) -> bool {
        self.changeable.contains(&number) || self.fixed.contains(&number)
    }
}

fn why_not(file: &ElfFileNames, leave: &Leave) -> Option<String> {
    let name = file.path().file_name().unwrap_or_default();
    let soname = file.object.soname.as_deref().unwrap_or(name);
    if !file.object.is_dynamic {
        return Some("statically linked: nothing is searched for it".into());
    }
    let identity = file.object.identity();
    if !identity.is_simulated() {
        return Some(foreign(identity));
    }
    if is_loader(soname) {
        return Some("the dynamic loader itself".into());
    }
    if let Some(pattern) = leave.pattern(soname).or_else(|| leave.pattern(name)) {
        return Some(format!("on the list of libraries that are left as they are ({pattern})"));
    }
    None
}

/// Why a file that there may be something to bind in cannot be changed.
fn why_fixed(file: &ElfFileNames) -> Option<String> {
    if file.mode & 0o6000 != 0 {
        return Some("setuid or setgid: the loader searches for it by other rules".into());
    }
    let here = file.names.len() as u64;
    (file.links > here).then(|| {
        let elsewhere = file.links - here;
        format!(
            "{elsewhere} more of its names (hard links) lie elsewhere: `becalm elf bind` changes it \
             where it is given all of them"
        )
    })
}

pub(super) fn is_loader(soname: &OsStr) -> bool {
    let soname = soname.as_bytes();
    [&b"ld-linux"[..], b"ld-musl", b"ld64.so", b"ld.so", b"libc.musl"]
        .iter()
        .any(|start| soname.starts_with(start))
}

/// What is loaded today.
pub(super) struct Today<'a> {
    pub programs: Vec<LoaderRun>,
    /// Libraries that no program loads, each loaded as if nothing else were.
    pub alone: Vec<LoaderRun>,
    pub own: OwnLists<'a>,
    /// Files that programs load only in an environment.
    pub brought: HashSet<FileId>,
    /// Files that programs load only while they run.
    pub later: HashSet<FileId>,
}

impl<'a> Today<'a> {
    pub fn of(
        resolver: &Resolver<'a>,
        eligible: &EligibleFiles,
        left_out: &mut Vec<UnboundFile>,
        progress: &(dyn Fn(BindProgress) + Sync),
    ) -> Today<'a> {
        let files = resolver.files;
        // A program that is left out loads what others are bound to, too.
        let is_program = |number: &usize| {
            let file = &files[*number];
            file.is_program() && file.object.is_dynamic && file.object.identity().is_simulated()
        };
        let programs: Vec<usize> = (0..files.len()).filter(is_program).collect();
        let libraries = (0..files.len())
            .filter(|number| !files[*number].is_program() && eligible.concerns(*number));
        let count = AtomicUsize::new(0);
        let run = |numbers: &[usize]| {
            let of = numbers.len();
            resolver.runs(numbers, &|| {
                let done = count.fetch_add(1, Ordering::Relaxed) + 1;
                progress(BindProgress::Simulating { done, of });
            })
        };
        let (mut programs, cannot) = run(&programs);
        left_out.extend(cannot);
        let brought = brought(&programs);
        mark(&mut programs, &brought);
        let loaded: HashSet<FileId> =
            programs.iter().flat_map(|run| &run.members).map(|member| member.id).collect();
        let (by_program, others): (Vec<usize>, Vec<usize>) = libraries
            .partition(|number| loaded.contains(&files[*number].id) && is_plain(&files[*number]));
        count.store(0, Ordering::Relaxed);
        let (mut alone, cannot) = run(&others);
        left_out.extend(cannot);
        let later = loaded_later(&programs);
        // A run that was seen tells more of a library than it does alone.
        alone.iter_mut().for_each(|run| run.is_told &= !later.contains(&files[run.root].id));
        let by_program: Vec<&ElfFileNames> =
            by_program.iter().map(|number| &files[*number]).collect();
        let openers: Vec<&ElfFileNames> = files.iter().filter(|file| may_open(file)).collect();
        let own = OwnLists::of(resolver, &by_program, &openers);
        Today { programs, alone, own, brought, later }
    }

    /// Of these files, those whose start, or a start that they are part of, searches in vain.
    pub fn searching(&self, files: &[ElfFileNames], these: &HashSet<usize>) -> HashSet<usize> {
        let numbers = numbers(files);
        let (mut gain, mut in_programs): (HashSet<usize>, HashSet<usize>) = Default::default();
        for run in &self.programs {
            let members = run.members.iter().filter_map(|member| numbers.get(&member.id));
            if searches_in_vain(run) {
                gain.extend(members.clone());
            }
            in_programs.extend(members);
        }
        let alone = self.alone.iter().filter(|run| !in_programs.contains(&run.root));
        gain.extend(alone.filter(|run| searches_in_vain(run)).map(|run| run.root));
        gain.intersection(these).copied().collect()
    }

    pub fn musl(&self, files: &[ElfFileNames]) -> HashSet<usize> {
        let numbers = numbers(files);
        let runs = self.programs.iter().chain(&self.alone).filter(|run| run.is_musl);
        runs.flat_map(|run| &run.members)
            .filter_map(|member| numbers.get(&member.id).copied())
            .collect()
    }

    /// The starts that edits of these files concern.
    pub fn in_use<'b>(
        &'b self,
        candidates: &'b HashSet<usize>,
    ) -> impl Iterator<Item = &'b LoaderRun> + Clone {
        let concerned = |run: &&LoaderRun| candidates.contains(&run.root) || searches_in_vain(run);
        self.programs.iter().chain(&self.alone).filter(concerned)
    }
}

/// The files that programs load while they run, and no program at its start.
fn loaded_later(programs: &[LoaderRun]) -> HashSet<FileId> {
    let loaded = |later: bool| -> HashSet<FileId> {
        let runs = programs.iter().filter(|run| run.opens.is_empty() != later);
        runs.flat_map(|run| &run.members).map(|member| member.id).collect()
    };
    loaded(true).difference(&loaded(false)).copied().collect()
}

fn searches_in_vain(run: &LoaderRun) -> bool {
    run.when_whole.failed_opens + run.when_whole.failed_stats > 0
}
