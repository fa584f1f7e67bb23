//! Many files, each looked at once: data sets of small files, sources that are searched, a working
//! tree that git compares with its index, the jars of a class path.

use std::collections::{HashMap, HashSet};

use recording::{Cause, Kind, PathId, ProcessId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::given_files::GivenFiles;
use super::{DetectedStorm, Storm, StormSource};
use crate::search::ListName;
use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey, ProgramId, split};
use crate::tally::OpTally;
use crate::words::{count, counted, operations};

/// Fewer files of one process are a program with its parts.
const FILES: usize = 500;
/// A file that one process looks at more often is [repeated](super::repeat).
const TIMES: u64 = 10;
/// How many trees are named.
const TREES: usize = 3;
/// A tree with less than one in so many of the files is not told.
const ONE_IN: usize = 20;

/// Who looks at many files, and where they lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FilesSource {
    /// The program that looks at most of them.
    FilesReader {
        /// The program.
        program: String,
        /// Whether it is git, which compares its index with the files.
        index_of_git: bool,
        /// Distinct files, of all programs.
        files: u64,
        /// Processes that look at so many.
        processes: u64,
        /// Metadata operations of this program on them.
        metadata_ops: u64,
    },
    /// A list that names them one by one, as a class path does jars.
    FilesList {
        /// Where it comes from.
        list: ListName,
        /// How many of them it names.
        files: u64,
    },
    /// A directory that they lie below.
    FilesTree {
        /// The deepest one that has nine in ten of those that no tree before it has.
        directory: SourcePath,
        /// Distinct files below it.
        files: u64,
    },
}

impl FilesSource {
    pub(super) fn sentence(&self) -> String {
        match self {
            FilesSource::FilesReader { program, index_of_git, files, processes, metadata_ops } => {
                let files = counted(*files, "file", "files");
                let looked = match index_of_git {
                    true => format!("compared {files} with its index"),
                    false => format!("opened {files} one by one"),
                };
                let processes = counted(*processes, "process", "processes");
                format!("{program} {looked}, in {processes}: {}", operations(*metadata_ops))
            }
            FilesSource::FilesList { list, files } => {
                format!("{} names {} of them", list.words(), count(*files))
            }
            FilesSource::FilesTree { directory, files } => {
                format!("below {directory}: {}", counted(*files, "file", "files"))
            }
        }
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let found = ManyFiles::find(survey);
    let (program, _) = found.programs.top()?;
    let files = counted(found.files.len() as u64, "file", "files");
    let name = survey.name(program);
    Some(DetectedStorm {
        storm: Storm::Files,
        title: match found.is_of_git() {
            true => format!("{name} compared {files} with its index, one by one"),
            false => format!("{name} opened {files}{}, one by one", found.of_list()),
        },
        cause: "each file is looked up by itself, however small it is; the same content in a few \
                large files is a few lookups"
            .to_owned(),
        observed: format!(
            "processes that opened {FILES} distinct files or more, or fewer that a list names, or a git that asked for as many \
             below its index, and their lookups of these files"
        ),
        avoidable: found.claim.len() as u64,
        inferred: None,
        time: None,
        sources: found.sources(survey).into_iter().map(StormSource::Files).collect(),
        evidence: "prefix",
        claim: found.claim,
    })
}

#[derive(Default)]
struct ManyFiles<'a> {
    claim: Vec<OpId>,
    programs: OpTally<ProgramId>,
    /// Operations of a git on the files of its index.
    of_git: u64,
    /// The files: each path once.
    files: HashSet<&'a [u8]>,
    processes: HashSet<ProcessId>,
    given: GivenFiles,
}

impl<'a> ManyFiles<'a> {
    fn find(survey: &OpSurvey<'a>) -> ManyFiles<'a> {
        let gits = gits(survey);
        let is_git = |op: &MetadataOp| gits.contains(&op.process());
        let mut times: HashMap<(ProcessId, PathId), u64> = HashMap::new();
        for (_, op) in survey.free().filter(|(_, op)| is_file(op, is_git(op))) {
            if let Some(path) = op.path_id {
                *times.entry((op.process(), path)).or_default() += 1;
            }
        }
        // What is opened to be listed is a directory.
        for (_, op) in survey.free().filter(|(_, op)| op.kind == Kind::List) {
            if let Some(path) = op.path_id {
                times.remove(&(op.process(), path));
            }
        }
        // And so is what another one lies in: git asks for each on the way to its files.
        let mut above: HashSet<&[u8]> = HashSet::new();
        for (_, path) in times.keys() {
            let mut directory = split(survey.recording.path(*path)).0;
            while !directory.is_empty() && above.insert(directory) {
                directory = split(directory).0;
            }
        }
        times.retain(|(_, path), times| {
            *times < TIMES && !above.contains(survey.recording.path(*path))
        });
        let mut files: HashMap<ProcessId, HashMap<PathId, &[u8]>> = HashMap::new();
        let mut execs = HashMap::new();
        for (_, op) in survey.free() {
            let known = op.path_id.filter(|path| times.contains_key(&(op.process(), *path)));
            if let Some(path) = known {
                files.entry(op.process()).or_default().insert(path, op.path);
                execs.insert(op.process(), op.exec);
            }
        }
        let mut found = ManyFiles::default();
        for (process, opened) in &files {
            if let Some(exec) = execs[process] {
                found.given.add(survey, *process, exec, opened);
            }
        }
        times.retain(|(process, path), _| {
            files[process].len() >= FILES || found.given.has(*process, *path)
        });
        for (id, op) in survey.free() {
            let key = op.path_id.map(|path| (op.process(), path));
            if !is_lookup(&op) || !key.is_some_and(|key| times.contains_key(&key)) {
                continue;
            }
            found.claim.push(id);
            found.programs.add(op.program, op.is_enoent());
            found.of_git += u64::from(is_git(&op));
            found.files.insert(op.path);
            found.processes.insert(op.process());
        }
        found
    }

    /// ` of -cp`, where a list names most of them.
    fn of_list(&self) -> String {
        let list = self.given.longest().filter(|(_, files)| files * 2 > self.files.len() as u64);
        list.map_or(String::new(), |(list, _)| format!(" of {}", list.words()))
    }

    fn is_of_git(&self) -> bool {
        self.of_git * 2 > self.claim.len() as u64
    }

    fn sources(&self, survey: &OpSurvey) -> Vec<FilesSource> {
        let reader = self.programs.top().map(|(program, counted)| FilesSource::FilesReader {
            program: survey.full_name(program).to_owned(),
            index_of_git: self.is_of_git(),
            files: self.files.len() as u64,
            processes: self.processes.len() as u64,
            metadata_ops: counted.ops,
        });
        let list = self.given.longest();
        let list = list.map(|(list, files)| FilesSource::FilesList { list: list.clone(), files });
        let trees = trees(self.files.iter().copied().collect());
        let tree = |(directory, files)| FilesSource::FilesTree {
            directory: survey.source_directory(directory),
            files,
        };
        reader.into_iter().chain(list).chain(trees.into_iter().map(tree)).collect()
    }
}

/// The processes that run git and have read an index.
fn gits(survey: &OpSurvey) -> HashSet<ProcessId> {
    let reads_index = |op: &MetadataOp| {
        let is_git =
            op.exec.is_some_and(|exec| split(survey.recording.path(exec.image)).1 == b"git");
        is_git && op.kind == Kind::Open && op.succeeded() && op.path.ends_with(b"/index")
    };
    let ops = survey.ops().filter(|op| reads_index(op));
    ops.map(|op| op.process()).collect()
}

/// Whether it says that a path is a file that is looked at: it was opened to be read, or git asked
/// for what is of its index.
fn is_file(op: &MetadataOp, is_git: bool) -> bool {
    let event = op.event;
    let is_own = !matches!(op.why.cause, Cause::Locale | Cause::Nss) && !event.in_loader;
    let is_own = is_own && op.path.starts_with(b"/") && op.path.len() > 1;
    let is_gits_own = is_git && op.path.split(|byte| *byte == b'/').any(|part| part == b".git");
    let is_opened = op.kind == Kind::Open && !event.is_listing() && !event.is_change();
    is_own && !is_gits_own && op.succeeded() && (is_opened || (is_git && op.kind == Kind::Stat))
}

fn is_lookup(op: &MetadataOp) -> bool {
    matches!(op.kind, Kind::Open | Kind::Stat | Kind::Access | Kind::Readlink)
}

/// The trees that files lie in, the largest first.
fn trees(mut files: Vec<&[u8]>) -> Vec<(&[u8], u64)> {
    let all = files.len();
    let mut trees = Vec::new();
    while trees.len() < TREES && !files.is_empty() {
        let directory = tree(&files);
        let before = files.len();
        files.retain(|file| !is_below(file, directory));
        trees.push((directory, before - files.len()));
    }
    trees.retain(|(_, files)| files * ONE_IN >= all);
    trees.into_iter().map(|(directory, files)| (directory, files as u64)).collect()
}

/// The deepest directory that most files lie below: from the root down, while one directory has
/// nine in ten of them; at the root, the one that has most.
fn tree<'f>(files: &[&'f [u8]]) -> &'f [u8] {
    let mut directory: &[u8] = b"/";
    loop {
        let below = files.iter().filter(|file| is_below(file, directory));
        let mut children: OpTally<&[u8]> = OpTally::default();
        let mut all = 0;
        for file in below {
            all += 1;
            let start = if directory.len() == 1 { 1 } else { directory.len() + 1 };
            if let Some(end) = file[start..].iter().position(|byte| *byte == b'/') {
                children.count(&file[..start + end], 1);
            }
        }
        match children.top() {
            Some((child, count)) if count.ops * 10 >= all * 9 || directory.len() == 1 => {
                directory = child;
            }
            _ => return directory,
        }
    }
}

fn is_below(file: &[u8], directory: &[u8]) -> bool {
    directory.len() == 1 || file.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_the_deepest_directory_with_most_files() {
        let mut files: Vec<String> = (0..90).map(|n| format!("/d/set/{}/{n}", n % 3)).collect();
        files.extend((0..9).map(|n| format!("/d/{n}")));
        files.extend((0..20).map(|n| format!("/home/me/{n}")));
        let files = files.iter().map(|file| file.as_bytes()).collect();
        let trees = trees(files);
        assert_eq!(trees, [(&b"/d/set"[..], 90), (&b"/home/me"[..], 20), (&b"/d"[..], 9)]);
    }
}
