//! The calm file of a fix, and what lies beside it: what is done at launch, as steps that undo takes
//! back.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use cure::{CalmFile, CalmImage, CalmSavings, CalmWait, CurePrediction, ShownCopy};
use explain::WaitModel;
use loader::bind::Binding;
use remedy::{Digest, FileState, Step};

/// Where a calm file belongs.
pub(super) struct CalmPlace {
    /// As it is told to a user.
    pub shown: PathBuf,
    /// The same, absolute.
    pub file: PathBuf,
    /// The calm file that is there: it is replaced.
    before: Option<CalmFile>,
}

impl CalmPlace {
    /// The named file, or in the working directory one that is called as the program is.
    ///
    /// # Errors
    /// If something else than a calm file is there.
    pub fn of(named: Option<&Path>, program: &str) -> anyhow::Result<CalmPlace> {
        let shown = named.map_or_else(|| default_name(program).into(), Path::to_owned);
        let file = std::path::absolute(&shown).context("the calm file's path")?;
        let name = || term::plain(&shown.to_string_lossy());
        let before = match file.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(name),
            Ok(_) => match CalmFile::read(&file) {
                Ok(before) => Some(before),
                Err(_) => {
                    bail!("{}: it exists and is no calm file; choose another with -o", name())
                }
            },
        };
        Ok(CalmPlace { shown, file, before })
    }

    /// The directory that it lies in.
    pub fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// The image, where none is named.
    pub fn image(&self) -> PathBuf {
        self.shown.with_extension("sqsh")
    }

    /// The directory of copies.
    fn copies(&self) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(".d");
        name.into()
    }

    /// The step that writes it.
    pub fn step(&self, calm: &CalmFile) -> anyhow::Result<Step> {
        let content = calm.to_text(self.directory())?.into_bytes();
        let (path, mode) = (self.file.clone(), 0o644);
        Ok(match self.before {
            Some(_) => Step::Replace { path, mode, content },
            None => Step::Create { path, mode, content },
        })
    }

    /// Bound copies of files, and what shows them. Copies of the calm file that was there go.
    pub fn copy(&self, binding: Option<&Binding>) -> anyhow::Result<(Vec<Step>, Vec<ShownCopy>)> {
        let directory = self.copies();
        let mut old: BTreeSet<PathBuf> = BTreeSet::new();
        if let Some(before) = &self.before {
            let copies = before.shown.iter().map(|shown| shown.copy.clone());
            old.extend(copies.filter(|copy| copy.parent() == Some(&directory) && copy.is_file()));
        }
        let (mut steps, mut shown) = (Vec::new(), Vec::new());
        if binding.is_some() && !directory.is_dir() {
            steps.push(Step::Directory { path: directory.clone(), mode: 0o755 });
        }
        let mut names = BTreeSet::new();
        for change in binding.iter().flat_map(|binding| &binding.changes) {
            let (content, mode, was) = bound(change)?;
            let is_free = |name: &OsStr| {
                let path = directory.join(name);
                !names.contains(name) && (old.contains(&path) || !path.exists())
            };
            let name = free_name(change.path.file_name().unwrap_or_default(), is_free);
            let path = directory.join(&name);
            names.insert(name);
            let digest = Digest::of(&content);
            for file in [&change.path].into_iter().chain(&change.also) {
                shown.push(ShownCopy {
                    file: file.clone(),
                    was,
                    copy: path.clone(),
                    copy_bytes: content.len() as u64,
                    copy_digest: digest,
                });
            }
            steps.push(match old.remove(&path) {
                true => Step::Replace { path, mode, content },
                false => Step::Create { path, mode, content },
            });
        }
        steps.extend(old.into_iter().map(|path| Step::Remove { path }));
        Ok((steps, shown))
    }
}

/// As `becalm check` proposes it.
fn default_name(program: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._+-".contains(char);
    let program = program.split(' ').next().unwrap_or_default();
    let is_name = !program.is_empty() && !program.starts_with(['-', '.']);
    match is_name && program.chars().all(is_plain) {
        true => format!("{program}.calm"),
        false => "command.calm".to_owned(),
    }
}

/// The name, or the name with the first number before it that makes it free.
fn free_name(name: &OsStr, is_free: impl Fn(&OsStr) -> bool) -> OsString {
    let numbered = (1..).map(|number: u64| {
        let mut numbered = OsString::from(format!("{number}-"));
        numbered.push(name);
        numbered
    });
    let mut all = std::iter::once(name.to_owned()).chain(numbered);
    all.find(|name| is_free(name)).unwrap_or_default()
}

/// The content and mode of a bound copy, and what was copied.
fn bound(change: &loader::bind::BindChange) -> anyhow::Result<(Vec<u8>, u32, FileState)> {
    let path = &change.path;
    let name = || term::plain(&path.to_string_lossy());
    let is_still = || -> anyhow::Result<()> {
        let seen = remedy::Seen { digest: None, ..change.seen };
        match remedy::Seen::of(path)? == seen {
            true => Ok(()),
            false => Err(anyhow!("{}: changed while becalm was at work", name())),
        }
    };
    is_still()?;
    let mode = path.metadata().with_context(name)?.permissions().mode() & 0o755;
    let content = fs::read(path).with_context(name)?;
    let was = FileState::of(path).with_context(name)?;
    is_still()?;
    let content = loader::edit::apply(&content, &change.patches)
        .map_err(|error| anyhow!("{}: {error}", name()))?;
    Ok((content, mode | 0o600, was))
}

/// What the image is, once it is written.
pub(super) fn image(
    written: &Path,
    file: PathBuf,
    over: Vec<PathBuf>,
) -> anyhow::Result<CalmImage> {
    let now = FileState::of(written).context("the image just built")?;
    Ok(CalmImage { file, over, bytes: now.bytes, digest: now.digest })
}

/// What a calm file says that it saves.
pub(super) fn savings(predicted: &CurePrediction, model: &WaitModel) -> CalmSavings {
    let (before, after) = (predicted.before, predicted.after);
    let wait = |ranks, nodes, seconds_before, seconds_after| CalmWait {
        profile: model.profile.clone(),
        ranks,
        nodes,
        seconds_before,
        seconds_after,
    };
    let waits = before.wait.zip(after.wait).map(|(before, after)| {
        vec![
            wait(1, 1, before.one_rank, after.one_rank),
            wait(model.ranks, model.nodes, before.all_ranks, after.all_ranks),
        ]
    });
    CalmSavings {
        metadata_ops_before: before.metadata_ops,
        metadata_ops_after: after.metadata_ops,
        enoent_before: Some(before.enoent),
        enoent_after: Some(after.enoent),
        waits: waits.unwrap_or_default(),
    }
}
