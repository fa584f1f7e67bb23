//! `modulecmd.tcl`: where it is, and what it says of itself.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::setting::settings;
use super::{Environment, ModulesSetting, Release};
use crate::tcl::commands;

/// `modulecmd.tcl` of 5.7 has 0.8 MB.
const MOST: u64 = 16 << 20;

/// A Modules installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModulesSite {
    /// `modulecmd.tcl`.
    pub command: PathBuf,
    /// The interpreter that its first line names.
    pub tclsh: PathBuf,
    /// Its release.
    pub release: Release,
    /// Its options.
    pub settings: Vec<ModulesSetting>,
    /// The site's scripts, which may change anything.
    pub scripts: Vec<SiteScript>,
}

/// A script that Modules evaluates when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteScript {
    /// Where.
    pub path: PathBuf,
    /// Whether it does nothing: it cannot be read (Modules then leaves it out), or has comments
    /// only.
    pub is_empty: bool,
}

/// Why no Modules was found.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Nowhere.
    #[error(
        "no modulecmd.tcl: MODULES_CMD is not set, and there is none in $MODULESHOME/libexec or \
         the usual places"
    )]
    Nowhere,
    /// It is there and cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no `modulecmd.tcl` that is known.
    #[error("{} is no modulecmd.tcl: {what}", .path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What is missing in it.
        what: &'static str,
    },
}

impl ModulesSite {
    /// The Modules that `module` runs in this environment: `$MODULES_CMD`, which its shell
    /// initialisation sets, else in `$MODULESHOME`, else where packages put it.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn find(environment: &Environment) -> Result<ModulesSite, SiteError> {
        ModulesSite::at(&ModulesSite::find_command(environment)?, environment)
    }

    /// The `modulecmd.tcl` of that Modules, which is not read.
    ///
    /// # Errors
    /// [`SiteError::Nowhere`].
    pub fn find_command(environment: &Environment) -> Result<PathBuf, SiteError> {
        if let Some(command) = environment.get("MODULES_CMD").filter(|path| !path.is_empty()) {
            return Ok(PathBuf::from(command));
        }
        let home = environment.get("MODULESHOME").map(PathBuf::from);
        let below_home = home.map(|home| home.join("libexec/modulecmd.tcl"));
        let usual = [
            format!("/usr/lib/{}-linux-gnu/modulecmd.tcl", std::env::consts::ARCH).into(),
            PathBuf::from("/usr/share/Modules/libexec/modulecmd.tcl"),
            PathBuf::from("/usr/local/Modules/libexec/modulecmd.tcl"),
            PathBuf::from("/opt/modules/libexec/modulecmd.tcl"),
        ];
        let mut places = below_home.into_iter().chain(usual);
        places.find(|place| place.is_file()).ok_or(SiteError::Nowhere)
    }

    /// The Modules whose `modulecmd.tcl` this is.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn at(command: &Path, environment: &Environment) -> Result<ModulesSite, SiteError> {
        let unknown = |what| SiteError::Unknown { path: command.to_owned(), what };
        let text = text(command)
            .map_err(|error| SiteError::Unreadable { path: command.to_owned(), error })?;
        let tclsh = interpreter(&text).ok_or_else(|| unknown("its first line names no tclsh"))?;
        let release = release(&text).ok_or_else(|| unknown("it does not say its release"))?;
        let settings = settings(&text, environment)
            .ok_or_else(|| unknown("it does not say its configuration options"))?;
        let mut site = ModulesSite {
            command: command.to_owned(),
            tclsh: tclsh.into(),
            release,
            settings,
            scripts: Vec::new(),
        };
        for option in ["siteconfig", "extra_siteconfig"] {
            if let Some(path) = site.setting(option).filter(|path| !path.is_empty()) {
                let path = PathBuf::from(path);
                site.scripts.push(SiteScript { is_empty: does_nothing(&path), path });
            }
        }
        Ok(site)
    }

    /// An option's value, if it is known and defined.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|setting| setting.name == name)?.value.as_deref()
    }

    /// Whether a script of the site may change what Modules does.
    pub fn is_customised(&self) -> bool {
        self.scripts.iter().any(|script| !script.is_empty)
    }

    /// The words that run Modules for a shell: the interpreter, the script, the shell, and then
    /// the arguments of `module`.
    pub fn argv<W: Into<OsString>>(
        &self,
        shell: &str,
        arguments: impl IntoIterator<Item = W>,
    ) -> Vec<OsString> {
        let mut argv: Vec<OsString> =
            vec![self.tclsh.clone().into(), self.command.clone().into(), shell.into()];
        argv.extend(arguments.into_iter().map(Into::into));
        argv
    }
}

/// A regular file as text; what is no UTF-8 in it is replaced.
fn text(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(MOST).read_to_end(&mut content)?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}

/// `#!/usr/bin/tclsh8.6`
fn interpreter(text: &str) -> Option<&str> {
    let line = text.lines().next()?.strip_prefix("#!")?;
    line.split_whitespace().next_back().filter(|program| program.contains("tclsh"))
}

/// What `module --version` prints: `report {Modules Release 5.7.0\` in `reportVersion`.
fn release(text: &str) -> Option<Release> {
    let (_, after) = text.split_once("report {Modules Release ")?;
    let end = after.find([' ', '\\', '}', '\n'])?;
    let numbered = after.starts_with(|letter: char| letter.is_ascii_digit());
    numbered.then(|| Release::parse(&after[..end]))
}

/// Whether a script of the site has no command in it.
fn does_nothing(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(about) if about.is_file() => {}
        Ok(_) => return false,
        Err(_) => return true,
    }
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut content));
    match read {
        Ok(_) => commands(&content).is_ok_and(|commands| commands.is_empty()),
        Err(_) => true,
    }
}
