//! The quick look at the sources of an image: what decides which code runs is asked before the command
//! starts, in two rounds, each many questions at a time; what else there is, when it is looked up
//! ([`super::untraced`]).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use image_format::squash::{NodeKind, SquashEntry, SquashNode};

use super::bytecode_dirs::unasked;
use super::compare::{
    SourceCheck, SourceComparison, SourceIdentity, ask_all, differences, has_same_names,
};
use super::fresh::{BYTECODE, module};
use super::healed;
use super::layer::ImageLayer;
use super::untraced::UntracedFiles;

/// What is asked before the command starts.
pub(super) struct QuickLook<'a> {
    layer: &'a ImageLayer,
    /// What the kernel has asked for, and does not ask for again; none: all is to be looked at now.
    pub looked_up: Option<HashSet<SquashNode>>,
    checks: Vec<SourceCheck>,
    /// What is for whoever serves the image to look at.
    pub later: UntracedFiles,
    /// How many files that are.
    pub left: u64,
    /// Whoever serves the image does so already, and knows nothing of directories that were moved since.
    is_served: bool,
}

impl QuickLook<'_> {
    /// Nothing yet.
    pub fn new(layer: &ImageLayer, looked_up: Option<HashSet<SquashNode>>) -> QuickLook<'_> {
        let (checks, later) = (Vec::new(), UntracedFiles::new());
        QuickLook { layer, looked_up, checks, later, left: 0, is_served: false }
    }

    /// The same, where others use the image already.
    pub fn served(self, is_served: bool) -> Self {
        QuickLook { is_served, ..self }
    }

    /// Adds what decides of these paths, where they are in the image, and what lies there now.
    pub fn at(&mut self, sources: &[(&Path, SquashNode, SourceIdentity)]) {
        for (path, node, source) in sources {
            self.add((*path).to_owned(), *node, *source);
            self.deciding(path, *node, source.below());
        }
        self.unasked_bytecode();
    }

    /// Compares all of it: directories first, since below one that may have been renamed to where it is,
    /// times say nothing of directories and files.
    pub fn compare_all(&mut self, found: &mut SourceComparison) {
        let all = std::mem::take(&mut self.checks).into_iter();
        let (directories, mut files): (Vec<_>, Vec<_>) =
            all.partition(|check| check.packed.kind == NodeKind::Directory);
        let answers = differences(self.layer, &directories);
        found.add(&directories, &answers);
        let all = || directories.iter().zip(&answers);
        let moved = all().filter(|(_, answer)| answer.is_moved);
        let moved: HashSet<&Path> = moved.map(|(check, _)| check.path.as_path()).collect();
        if !moved.is_empty() {
            let is_below =
                |path: &Path| path.ancestors().skip(1).any(|above| moved.contains(above));
            let by_times = all().filter(|(_, answer)| answer.how.is_none() && !answer.is_read);
            let by_times = by_times.map(|(check, _)| check).filter(|it| is_below(&it.path));
            let mut again: Vec<_> = by_times
                .filter(|check| !check.path.ends_with(OsStr::from_bytes(BYTECODE)))
                .map(SourceCheck::of_another)
                .collect();
            again.extend(self.bytecode_below(&is_below));
            found.add(&again, &differences(self.layer, &again));
            for check in files.iter_mut().filter(|check| is_below(&check.path)) {
                check.source = SourceIdentity::Other;
            }
            let later = self.later.directories.iter();
            let later = later.filter(|(_, path)| moved.contains(path.as_path()) || is_below(path));
            self.later.moved = later.map(|(node, _)| *node).collect();
            if self.is_served {
                self.left_below(&mut files);
            }
        }
        found.add(&files, &differences(self.layer, &files));
    }

    /// Adds the files that were left out below one that may have been renamed.
    fn left_below(&self, files: &mut Vec<SourceCheck>) {
        for directory in &self.later.moved {
            let path = &self.later.directories[directory];
            for entry in self.layer.entries(*directory) {
                let is_left =
                    entry.kind == NodeKind::File && !self.later.known.contains(&entry.node);
                if is_left && let Ok(packed) = self.layer.image.attributes(entry.node) {
                    let path = path.join(OsStr::from_bytes(&entry.name));
                    let source = SourceIdentity::Other;
                    files.push(SourceCheck { path, node: entry.node, packed, source });
                }
            }
        }
    }

    /// Directories of bytecode below one that may have been renamed, of which nothing was asked yet, with
    /// other names than in the image. What has the same name is looked at when it is looked up.
    fn bytecode_below(&self, is_below: &dyn Fn(&Path) -> bool) -> Vec<SourceCheck> {
        let kept = self.later.bytecode.iter().filter(|(node, _)| !self.later.known.contains(node));
        let kept = kept.filter_map(|(node, (_, sources))| {
            let path = sources.join(OsStr::from_bytes(BYTECODE));
            let packed = self.layer.image.attributes(*node).ok().filter(|_| is_below(&path))?;
            Some(SourceCheck { path, node: *node, packed, source: SourceIdentity::Other })
        });
        let mut kept: Vec<SourceCheck> = kept.collect();
        if self.is_served {
            return kept;
        }
        let same = |check: &SourceCheck| has_same_names(self.layer, check).is_ok_and(|same| same);
        let mut same = ask_all(&kept, same).into_iter();
        kept.retain(|_| !same.next().is_some_and(|same| same));
        kept
    }

    /// Adds what need not be looked at when it is looked up, unless there may be another source by then.
    fn compare(&mut self, path: PathBuf, node: SquashNode, source: SourceIdentity) {
        if source != SourceIdentity::Other {
            self.later.known.insert(node);
        }
        self.add(path, node, source);
    }

    /// Whether nobody will look at a file or directory of bytecode when it is looked up.
    fn is_now_or_never(&self, node: SquashNode) -> bool {
        self.looked_up.as_ref().is_none_or(|looked_up| looked_up.contains(&node))
    }

    fn add(&mut self, path: PathBuf, node: SquashNode, source: SourceIdentity) {
        // A damaged image is said to be so by whatever reads it.
        if let Ok(packed) = self.layer.image.attributes(node) {
            self.checks.push(SourceCheck { path, node, packed, source });
        }
    }

    /// Adds all below a directory that decides which code runs.
    fn deciding(&mut self, directory: &Path, node: SquashNode, source: SourceIdentity) {
        let entries = self.layer.entries(node);
        // Of another source nothing is known by its times.
        let is_other = source == SourceIdentity::Other;
        let compiled = self.traced_bytecode(&entries);
        self.later.directories.insert(node, directory.to_owned());
        for entry in &entries {
            let path = || directory.join(OsStr::from_bytes(&entry.name));
            match entry.kind {
                NodeKind::Directory if self.layer.is_made(entry) => {}
                NodeKind::Directory if entry.name == BYTECODE => {
                    self.later.bytecode.insert(entry.node, (node, directory.to_owned()));
                    // Where the sources had none, one that is there by now changed their directory.
                    if (is_other || !compiled.is_empty() || self.is_now_or_never(entry.node))
                        && !healed::is_made(self.layer, node, entry)
                    {
                        self.compare(path(), entry.node, source);
                    }
                }
                NodeKind::Directory => {
                    self.add(path(), entry.node, source);
                    self.deciding(&path(), entry.node, source);
                }
                NodeKind::File => {
                    let is_compiled = || {
                        let stem = entry.name.strip_suffix(b".py");
                        stem.is_some_and(|stem| compiled.contains(stem))
                    };
                    if is_other
                        || self.is_now_or_never(entry.node)
                        || self.is_used(entry)
                        || is_compiled()
                    {
                        self.compare(path(), entry.node, source);
                    } else {
                        self.left += 1;
                    }
                }
                // That it is another one changes the directory's time.
                _ => {}
            }
        }
    }

    /// Adds the bytecode that Python takes unasked: written over in place, it changes no directory's
    /// time. Where becalm serves the image, it is looked at when it is looked up.
    fn unasked_bytecode(&mut self) {
        let kept = self.later.bytecode.iter().filter(|(node, _)| self.is_now_or_never(**node));
        let kept: Vec<_> = kept.map(|(node, (_, sources))| (*node, sources.clone())).collect();
        for (node, sources) in kept {
            let directory = sources.join(OsStr::from_bytes(BYTECODE));
            for entry in unasked(self.layer, node) {
                let path = directory.join(OsStr::from_bytes(&entry.name));
                self.add(path, entry.node, SourceIdentity::Unknown);
            }
        }
    }

    /// The modules of a directory whose bytecode the trace opened: of their sources it asked only
    /// whether they are older.
    fn traced_bytecode(&self, entries: &[SquashEntry]) -> HashSet<Vec<u8>> {
        let Some(kept) = entries.iter().find(|entry| entry.name == BYTECODE) else {
            return HashSet::new();
        };
        if self.front() == 0 {
            return HashSet::new();
        }
        let kept = self.layer.entries(kept.node);
        let used = kept.iter().filter(|entry| entry.kind == NodeKind::File && self.is_used(entry));
        used.filter_map(|entry| module(&entry.name).map(<[u8]>::to_vec)).collect()
    }

    fn front(&self) -> u64 {
        self.layer.manifest().map_or(0, |manifest| manifest.front)
    }

    /// Whether the trace opened a file; without a trace, whether it looks like code. An image of an
    /// older becalm has no list of them: there it is what lies where the trace's files do.
    fn is_used(&self, file: &SquashEntry) -> bool {
        let image = &self.layer.image;
        let opened = self.layer.manifest().and_then(|manifest| manifest.opened.as_ref());
        // Of a damaged one nothing is known.
        match (self.front(), opened) {
            (0, _) => is_code(&file.name),
            (_, Some(opened)) => image
                .attributes(file.node)
                .map_or(true, |about| opened.binary_search(&about.inode).is_ok()),
            (front, None) => {
                let place = image.open(file.node).and_then(|content| image.position(&content));
                place.map_or(true, |place| place < front)
            }
        }
    }
}

/// Whether a file looks like code by its name: Python's, libraries, and what says where they are.
fn is_code(name: &[u8]) -> bool {
    let ends = [&b".py"[..], b".pyc", b".pth", b".egg-link", b".so"];
    ends.iter().any(|end| name.ends_with(end)) || name.windows(4).any(|part| part == b".so.")
}
