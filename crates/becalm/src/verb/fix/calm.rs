//! The calm file of a fix, and what lies beside it: what is done at launch, as steps that undo takes
//! back.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cure::{CalmFile, CalmSavings, CalmWait, CurePrediction};
use explain::WaitModel;
use loader::bind::Binding;
use recording::{Kind, Recording};
use remedy::Step;

use super::copies::{self, CopiesPlace};

/// Where a calm file belongs.
pub(super) struct CalmPlace {
    /// As it is told to a user.
    pub shown: PathBuf,
    /// Where it really is: what a symbolic link leads to is written, and the link stays.
    pub file: PathBuf,
    /// The calm file that is there: it is replaced.
    before: Option<CalmFile>,
}

impl CalmPlace {
    /// The named file, or in the working directory one that is called as the program is.
    ///
    /// # Errors
    /// If something else than a calm file is there, or, where it was not named, one of another command: `perl` is
    /// the program of many.
    pub fn of(
        named: Option<&Path>,
        program: &str,
        command: &[OsString],
    ) -> anyhow::Result<CalmPlace> {
        let shown = named.map_or_else(|| cure::calm_file_name(program).into(), Path::to_owned);
        let name = || term::plain(&shown.to_string_lossy());
        let file = real_place(&shown)?;
        let before = match shown.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(name),
            Ok(_) => match CalmFile::read(&shown) {
                Ok(before) if named.is_none() && before.command != command => bail!(
                    "{}: it starts another command ({}); choose another file with -o, or replace it with -o {}",
                    name(),
                    term::shell_line(&before.command),
                    term::quoted_path(&shown),
                ),
                Ok(before) => Some(before),
                Err(_) => {
                    bail!("{}: it exists and is no calm file; choose another with -o", name())
                }
            },
        };
        Ok(CalmPlace { shown, file, before })
    }

    /// That the command does not start by the calm file that is there: by the new one, it would start itself, for
    /// ever.
    ///
    /// # Errors
    /// If it does: what is to be fixed instead.
    pub fn is_not_read_by(&self, recording: &Recording) -> anyhow::Result<()> {
        let Some(before) = &self.before else { return Ok(()) };
        let name = self.file.file_name();
        let is_it = |path: &Path| {
            path.file_name() == name && path.canonicalize().is_ok_and(|path| path == self.file)
        };
        let opened = recording.events.iter().filter(|event| event.kind() == Kind::Open);
        let mut opened = opened.filter_map(|event| event.path).collect::<HashSet<_>>().into_iter();
        if opened.any(|path| is_it(Path::new(OsStr::from_bytes(recording.path(path))))) {
            bail!(
                "{}: the command starts by it, and would start itself for ever; fix what it starts: {}",
                term::plain(&self.shown.to_string_lossy()),
                before.write_again_from_here(&self.shown),
            );
        }
        Ok(())
    }

    /// The directory that it lies in.
    pub fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// The image, where none is named.
    pub fn image(&self) -> PathBuf {
        save::followed(&self.shown).with_extension("sqsh")
    }

    /// The directory of copies.
    fn copies(&self) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(".d");
        name.into()
    }

    /// The step that writes it. Who could read the one before can read it, and nobody else.
    pub fn step(&self, calm: &CalmFile) -> anyhow::Result<Step> {
        let content = calm.to_text(self.directory())?.into_bytes();
        let path = self.file.clone();
        Ok(match self.before {
            Some(_) => Step::Rewrite { path, content },
            None => Step::Create { path, mode: 0o644, content },
        })
    }

    /// Why nobody else can use it, in words, with these copies; none where everybody can.
    pub fn only_you(&self, copies: &Binding) -> Option<String> {
        copies::only_you(copies, &self.copies())
    }

    /// Bound copies of files, for everyone or for this user alone, and what the calm file says of
    /// them. Copies of the calm file that was there go.
    pub fn copy(
        &self,
        binding: Option<&Binding>,
        is_for_everyone: bool,
        calm: &mut CalmFile,
    ) -> anyhow::Result<Vec<Step>> {
        let directory = self.copies();
        let before = self.before.iter().flat_map(|before| &before.shown);
        let copies = before.map(|shown| shown.copy.clone());
        let old = copies.filter(|copy| copy.parent() == Some(&directory) && copy.is_file());
        let old = old.collect();
        copies::steps(CopiesPlace { directory, old, is_for_everyone }, binding, calm)
    }
}

/// Where a file is, or is to be, without symbolic links and `..` in its path: what is done to it is
/// said of that.
pub(super) fn real_place(file: &Path) -> anyhow::Result<PathBuf> {
    let shown = || term::plain(&file.to_string_lossy());
    let followed = save::followed(file);
    let name = followed.file_name().with_context(|| format!("{}: it names no file", shown()))?;
    let directory = followed.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).canonicalize();
    Ok(directory.with_context(|| format!("{}: find its directory", shown()))?.join(name))
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
