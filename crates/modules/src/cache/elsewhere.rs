//! The site's own `cachebuild`, made to write elsewhere.
//!
//! It writes in place, over the cache that others are reading (`open $cachefile w`). A site's
//! extra configuration script may define any procedure anew, so one that gives another name for
//! the cache (`getModuleCacheFilename`) is added to the site's own.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use launch::{Command, Ended, Stage};
use serde::{Deserialize, Serialize};

use super::build::CacheBuildError;
use crate::site::{ModulesSite, User};
use crate::tcl::element;

/// Longer than a build of the largest tree that was heard of: 195,000 modulefiles in 2 minutes.
const LONGEST: Duration = Duration::from_secs(3600);

/// What came of one run of a command of Modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ModulesRun {
    /// Whether Modules took the script that leads it to the cache that is elsewhere.
    pub(super) led_here: bool,
    pub(super) ended: Ended,
    /// SHA-256 and beginning of what it wrote: standard output, standard error.
    pub(super) digests: [String; 2],
    pub(super) heads: [Vec<u8>; 2],
}

/// A directory that a user may write and nobody else may enter, with the script that leads Modules
/// to a cache in it.
pub(super) struct PrivateDirectory {
    directory: tempfile::TempDir,
}

impl PrivateDirectory {
    pub(super) fn new(
        site: &ModulesSite,
        user: &User,
    ) -> Result<PrivateDirectory, CacheBuildError> {
        PrivateDirectory::made(site, user, None)
    }

    /// The same, with a cache in it.
    pub(super) fn with(
        site: &ModulesSite,
        user: &User,
        cache: &[u8],
    ) -> Result<PrivateDirectory, CacheBuildError> {
        PrivateDirectory::made(site, user, Some(cache))
    }

    /// The directory becomes the user's last: while root writes, nobody else puts links in its way.
    fn made(
        site: &ModulesSite,
        user: &User,
        cache: Option<&[u8]>,
    ) -> Result<PrivateDirectory, CacheBuildError> {
        let directory = launch::temporary_directory("becalm-cache-")
            .map_err(|error| CacheBuildError::at("mkdir", &std::env::temp_dir(), error))?;
        let elsewhere = PrivateDirectory { directory };
        let text = elsewhere.text(site);
        let script = (elsewhere.script(), text.as_bytes());
        for (path, content) in [script].into_iter().chain(cache.map(|all| (elsewhere.cache(), all)))
        {
            fs::write(&path, content)
                .map_err(|error| CacheBuildError::at("write", &path, error))?;
            hand_over(user, &path)?;
        }
        hand_over(user, elsewhere.directory.path())?;
        Ok(elsewhere)
    }

    fn script(&self) -> PathBuf {
        self.directory.path().join("siteconfig.tcl")
    }

    fn ready(&self) -> PathBuf {
        self.directory.path().join("ready")
    }

    /// Where the cache will be.
    pub(super) fn cache(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    /// After the site's own script, so that this one has the last word.
    fn text(&self, site: &ModulesSite) -> String {
        let quoted = |path: &Path| element(&path.to_string_lossy());
        let own = site.setting("extra_siteconfig").filter(|path| !path.is_empty());
        let own = own.map(|path| {
            let path = element(path);
            format!("if {{[file readable {path}]}} {{ source {path} }}\n")
        });
        format!(
            "{}proc getModuleCacheFilename {{modpath}} {{ return {} }}\n\
             catch {{ close [open {} w] }}\n",
            own.unwrap_or_default(),
            quoted(&self.cache()),
            quoted(&self.ready()),
        )
    }

    /// Runs the site's `cachebuild` as a user. That it writes elsewhere is made sure of first.
    pub(super) fn build(
        &self,
        site: &ModulesSite,
        user: &User,
        modulepath: &Path,
    ) -> Result<(), CacheBuildError> {
        let probe = self.run(site, user, modulepath, ["config", "cache_buffer_bytes"])?;
        if !probe.led_here {
            return Err(CacheBuildError::Locked { said: words(&probe) });
        }
        let said =
            self.run(site, user, modulepath, [OsString::from("cachebuild"), modulepath.into()])?;
        match self.cache().symlink_metadata() {
            Ok(about) if about.is_file() => Ok(()),
            _ => Err(CacheBuildError::NothingBuilt { said: words(&said) }),
        }
    }

    /// Runs a command of Modules on one modulepath, with the cache that is elsewhere.
    pub(super) fn run<W: Into<OsString>>(
        &self,
        site: &ModulesSite,
        user: &User,
        modulepath: &Path,
        arguments: impl IntoIterator<Item = W>,
    ) -> Result<ModulesRun, CacheBuildError> {
        let argv = site.argv("sh", arguments);
        let stage = Stage {
            environment: vec![
                ("MODULEPATH".into(), modulepath.into()),
                ("MODULES_SITECONFIG".into(), self.script().into()),
                ("MODULES_IGNORE_CACHE".into(), "0".into()),
                ("MODULES_IGNORE_CACHE_SUBCMDS".into(), "".into()),
                ("MODULES_CACHE_EXPIRY_SECS".into(), "0".into()),
                ("MODULES_PAGER".into(), "".into()),
                ("HOME".into(), self.directory.path().into()),
                // What Modules' library reads is UTF-8 to it; in another locale, Tcl would write
                // names into the cache in another way than they are read.
                ("LC_ALL".into(), "C.UTF-8".into()),
            ],
            ..Stage::new()
        };
        let outer = Stage { timeout: Some(LONGEST), ..Stage::new() };
        let said = user.play(&outer, || {
            let played = stage.play(|| {
                launch::timed(&Command::of(argv))
                    .map(|timed| timed.ended)
                    .map_err(|why| why.to_string())
            });
            match played {
                Ok(played) => Ok(ModulesRun {
                    led_here: false,
                    ended: played.result?,
                    digests: [played.stdout.sha256(), played.stderr.sha256()],
                    heads: [played.stdout.head, played.stderr.head],
                }),
                Err(error) => Err(error.to_string()),
            }
        })?;
        let cannot =
            |why: String| CacheBuildError::CannotRun { command: site.command.clone(), why };
        let led_here = fs::remove_file(self.ready()).is_ok();
        Ok(ModulesRun { led_here, ..said.map_err(cannot)? })
    }
}

/// Gives a file of root's to the user.
fn hand_over(user: &User, path: &Path) -> Result<(), CacheBuildError> {
    if !rustix::process::geteuid().is_root() || user.user == 0 {
        return Ok(());
    }
    chown(path, Some(user.user), Some(user.group))
        .map_err(|error| CacheBuildError::at("chown", path, error))
}

/// What Modules said, in one line.
pub(super) fn words(said: &ModulesRun) -> String {
    let text = String::from_utf8_lossy(&said.heads[1]);
    let line: Vec<&str> = text.split_whitespace().take(60).collect();
    if line.is_empty() { format!("{:?}", said.ended) } else { line.join(" ") }
}
