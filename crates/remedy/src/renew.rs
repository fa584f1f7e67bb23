//! A file that becalm has put somewhere, made anew: a cache, an index.
//!
//! It is renewed as often as what it tells of changes, and nobody wants an old one back. So it stays
//! one application, which takes away whichever version stands there.

use std::fs::Permissions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use recording::ByteUnits;

use crate::change::{FileChange, ItemKind, Version};
use crate::held::HeldDirectory;
use crate::journal::{self, Journal, JournalRecord, JournalStage, Story};
use crate::look::{self, FoundState};
use crate::stamp::FileStamp;
use crate::work::{self, directory_of};
use crate::{Digest, Error, Options, state};

/// Puts new content in the place of a file that an application here has put at `path`, under the
/// same id; its mode stays. None, where no application that is not undone has put there what is
/// there now: [`crate::apply`] then keeps it.
///
/// # Errors
/// If a system call fails; the file is then as it was, or new.
pub fn renew(path: &Path, content: &[u8], options: &Options) -> Result<Option<String>, Error> {
    let _locked = state::lock(options)?;
    let path = crate::check::resolved(path)?;
    for directory in state::journal_directories(&options.state)?.iter().rev() {
        let Ok(story) = Story::read(directory) else { continue };
        if let Some((mode, stamp)) = put_by(&story, &path)? {
            write(&story, &path, mode, &stamp, content)?;
            return Ok(Some(story.id));
        }
    }
    Ok(None)
}

/// The mode of a file that is still what an application has put there, and what it is now.
fn put_by(story: &Story, path: &Path) -> Result<Option<(u32, FileStamp)>, Error> {
    let is_put = |change: &&FileChange| change.put().is_some_and(|item| item.path == path);
    let change = story.changes.iter().find(is_put);
    let (Some(change), JournalStage::Applied) = (change, &story.status) else { return Ok(None) };
    let Some(ItemKind::File { mode, seen: None, .. }) = change.put().map(|item| &item.thing) else {
        return Ok(None);
    };
    match look::look(change, true)? {
        FoundState::After(_, stamps) => Ok(stamps.first().map(|stamp| (*mode, *stamp))),
        _ => Ok(None),
    }
}

fn write(
    story: &Story,
    path: &Path,
    mode: u32,
    stamp: &FileStamp,
    content: &[u8],
) -> Result<(), Error> {
    let temporary = path.with_file_name(format!("{}-renewed", work::fresh_prefix(&story.id)?));
    let version =
        Version { size: ByteUnits(content.len() as u64), digest: Some(Digest::of(content)) };
    let mut journal = Journal::resume(story)?;
    journal.add([
        JournalRecord::Temporaries { paths: vec![temporary.clone()] },
        JournalRecord::Renewed { path: path.to_owned(), version },
    ])?;
    journal.sync()?;
    let directory = HeldDirectory::of(path)?;
    let file = directory.create(&temporary)?;
    let at = |operation| move |error| Error::at(operation, path, error);
    let written = file
        .write_all_at(content, 0)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .map_err(at("write anew"))
        .and_then(|()| match directory.stamp(path)? == *stamp {
            true => directory.rename(&temporary, &directory, path),
            false => Err(work::changed(path)),
        });
    if let Err(failure) = written {
        let _ = directory.unlink(&temporary);
        return Err(failure);
    }
    journal::sync_directory(directory_of(path))
}
