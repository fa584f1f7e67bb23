//! What is to know of the site's Modules before `avail` can be answered for it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::names::PathState;
use super::still::pause;
use crate::site::{Environment, ModulesSite, SiteError};
use crate::tree::{ChangeStamp, content};

/// `modulecmd.tcl` of 5.7 has 0.8 MB.
const MOST: u64 = 16 << 20;

/// So often it is looked at until it stands still.
const LOOKS: usize = 3;

/// A site's Modules, as it was looked at once: to read 0.8 MB of Tcl for each `avail` would be
/// the most of its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteNotes {
    /// Its release and options, without the environment's.
    pub site: ModulesSite,
    /// The files that may change what it does, and their state; none where there is no file.
    pub files: Vec<(PathBuf, Option<PathState>)>,
    /// The rc file for all users, which must not be there.
    pub global_rc: Vec<PathBuf>,
    /// The default colours on a light and on a dark terminal, as `MODULES_COLORS` has them.
    pub colors: Option<(String, String)>,
}

impl SiteNotes {
    /// Takes notes of the Modules of an environment.
    ///
    /// # Errors
    /// [`SiteError`], also where its files change meanwhile.
    pub fn take(environment: &Environment) -> Result<SiteNotes, SiteError> {
        let mut before = SiteNotes::look(environment)?;
        for _ in 0..LOOKS {
            let seen = before.files.iter().filter_map(|(_, seen)| *seen);
            std::thread::sleep(pause(seen.map(|seen| seen.changed.into())));
            let notes = SiteNotes::look(environment)?;
            if notes.files == before.files {
                return Ok(notes);
            }
            before = notes;
        }
        let error = std::io::Error::other("it changed while it was read");
        Err(SiteError::Unreadable { path: before.site.command, error })
    }

    /// What is in the files, and then their state.
    fn look(environment: &Environment) -> Result<SiteNotes, SiteError> {
        let found = ModulesSite::find(environment)?;
        let site = ModulesSite::at(&found.command, &Environment::default())?;
        let unreadable = |error| SiteError::Unreadable { path: site.command.clone(), error };
        let script = content(&site.command, MOST).map_err(unreadable)?;
        let script = String::from_utf8_lossy(&script);
        let scripts = site.scripts.iter().map(|script| script.path.clone());
        let files = std::iter::once(site.command.clone()).chain(scripts);
        let files = files.map(|path| (path.clone(), seen(&path))).collect();
        let colors = colors(&script);
        let global_rc = global_rc(&script).into_iter().collect();
        Ok(SiteNotes { site, files, global_rc, colors })
    }

    /// Whether its files are still what they were.
    pub fn is_fresh(&self) -> bool {
        self.files.iter().all(|(path, before)| seen(path) == *before)
    }
}

fn seen(path: &Path) -> Option<PathState> {
    rustix::fs::stat(path).ok().map(|stat| PathState::from(&ChangeStamp::of(&stat)))
}

/// The file that `getGlobalRcFileList` names: `[file isfile {/etc/environment-modules/rc}]`.
fn global_rc(script: &str) -> Option<PathBuf> {
    let (_, list) = script.split_once("\nproc getGlobalRcFileList")?;
    let (_, path) = list.split_once("[file isfile {")?;
    let (path, _) = path.split_once('}')?;
    Some(PathBuf::from(path))
}

/// What `initConfColors` sets where the environment sets nothing.
fn colors(script: &str) -> Option<(String, String)> {
    let (_, proc) = script.split_once("\nproc initConfColors")?;
    let (proc, _) = proc.split_once("\n}\n")?;
    // 5.2: `set colors_list {hi=…}`, 5.7: `set value {hi=…}`; light first.
    let mut lists = proc.split(" {hi=").skip(1);
    let mut next = || Some(format!("hi={}", lists.next()?.split_once('}')?.0));
    Some((next()?, next()?))
}
