//! Units of systemd that keep indexes and caches true.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::files::{MARK, PlannedFile};
use crate::site::{Environment, ModulesSite};

/// The timer's name: what is enabled.
pub const TIMER: &str = "becalm-modules.timer";
const SERVICE: &str = "becalm-modules.service";

/// Where becalm keeps what it makes: the service must find the same as whoever planned it.
const PLACES: [&str; 4] = ["HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "BECALM_MODULES_INDEX"];

/// What is to be kept true.
pub(super) struct KeptFresh<'a> {
    /// The program.
    pub(super) becalm: &'a str,
    pub(super) site: &'a ModulesSite,
    pub(super) environment: &'a Environment,
    /// Modulepaths with a cache, and so an index.
    pub(super) cached: Vec<PathBuf>,
    /// Modulepaths with an index alone.
    pub(super) indexed: Vec<PathBuf>,
}

impl KeptFresh<'_> {
    /// The commands, each in its words.
    pub(super) fn commands(&self) -> Vec<Vec<String>> {
        let command = |verb: &[&str], paths: &[PathBuf]| {
            let words = [self.becalm, "modules"].into_iter().chain(verb.iter().copied());
            let site = ["--modulecmd".to_owned(), text(&self.site.command)];
            let words = words.map(str::to_owned).chain(site);
            words.chain(paths.iter().map(|path| text(path))).collect::<Vec<_>>()
        };
        let mut commands = Vec::new();
        if !self.cached.is_empty() {
            commands.push(command(&["cache", "refresh"], &self.cached));
        }
        if !self.indexed.is_empty() {
            commands.push(command(&["index"], &self.indexed));
        }
        commands
    }

    /// The service and its timer.
    ///
    /// # Errors
    /// Why a unit cannot say it.
    pub(super) fn units(&self, directory: &Path) -> Result<[PlannedFile; 2], String> {
        let mut service = format!(
            "{MARK}[Unit]\nDescription=Indexes and caches of modulepaths, made anew where they are \
             no longer true\n\n[Service]\nType=oneshot\nNice=19\n\
             IOSchedulingClass=idle\n"
        );
        for name in PLACES {
            if let Some(value) = self.environment.get(name).filter(|value| !value.is_empty()) {
                let value = plain(value)?;
                service += &format!("Environment={}\n", word(&format!("{name}={value}"), false));
            }
        }
        for command in self.commands() {
            for one in &command {
                plain(OsStr::new(one))?;
            }
            let words: Vec<String> = command.iter().map(|one| word(one, true)).collect();
            service += &format!("ExecStart={}\n", words.join(" "));
        }
        let timer = format!(
            "{MARK}[Unit]\nDescription=Keep `module avail` fast\n\n[Timer]\nOnCalendar=*:0/10\n\
             RandomizedDelaySec=60\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n"
        );
        let file = |name: &str, content| PlannedFile { path: directory.join(name), content };
        Ok([file(SERVICE, service), file(TIMER, timer)])
    }
}

/// The same as a line of a crontab; `%` means a new line there.
pub fn crontab_line(commands: &[Vec<String>]) -> String {
    let commands: Vec<String> =
        commands.iter().map(|words| format!("{} >/dev/null", term::shell_line(words))).collect();
    format!("*/10 * * * * {}", commands.join("; ").replace('%', "\\%"))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A text that can stand in a unit.
fn plain(value: &OsStr) -> Result<&str, String> {
    let text = value.to_str().filter(|text| !text.contains(char::is_control));
    let text = text.filter(|text| !text.contains(char::REPLACEMENT_CHARACTER));
    text.ok_or_else(|| format!("{} cannot stand in a unit", value.to_string_lossy()))
}

/// A word as systemd reads it (systemd.syntax(7), systemd.service(5)): in quotes, specifiers and, in
/// a command, variables taken as they stand.
fn word(text: &str, in_command: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    let text = if in_command { text.replace('$', "$$") } else { text };
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_unit_is_read_as_it_stands() {
        assert_eq!(word(r#"/a b/%i/$HOME/"q"\"#, true), r#""/a b/%%i/$$HOME/\"q\"\\""#);
        assert_eq!(word("A=$b", false), r#""A=$b""#);
        let commands = [vec!["becalm".to_owned(), "100% sure".to_owned()]];
        assert_eq!(crontab_line(&commands), "*/10 * * * * becalm '100\\% sure' >/dev/null");
        assert!(plain(OsStr::new("a\nExecStart=evil")).is_err());
    }
}
