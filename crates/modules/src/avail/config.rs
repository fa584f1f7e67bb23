//! What of the site's configuration and of the environment `avail` depends on.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Unable;
use super::request::{AvailRequest, Color};
use crate::index::SiteNotes;
use crate::site::{Environment, Release};
use crate::tcl::split;

/// All that an answer depends on beside the trees.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) release: Release,
    pub(super) style: Style,
    pub(super) ignore_case: bool,
    pub(super) contains: bool,
    /// `foo/1` finds `foo/1.2`.
    pub(super) extended_default: bool,
    /// Where nothing says what a directory's default is, it is the highest version.
    pub(super) implicit_default: bool,
    /// `default` and `latest` of each directory are symbols.
    pub(super) automatic_symbols: bool,
    /// Files are looked at before they are shown.
    pub(super) checks_cookies: bool,
    pub(super) shows_hidden: bool,
    /// Columns of the terminal.
    pub(super) width: usize,
    /// Codes of colours by what they are for; none without colours.
    pub(super) colors: Option<Vec<(String, String)>>,
    /// How the tags `loaded` and `hidden` are written.
    pub(super) loaded_tag: String,
    pub(super) hidden_tag: String,
    /// Loaded modules and their files.
    pub(super) loaded: Vec<(String, String)>,
    /// The program that the answer is shown with, where stderr is a terminal.
    pub(super) pager: Option<Vec<String>>,
}

/// How releases differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// 5.2 to 5.4: one list a pattern, rc files in the order of their paths, padded columns.
    Since52,
    /// 5.5 and 5.6: the same, with one field more in JSON.
    Since55,
    /// 5.7: one list for all patterns, rc files depth first, columns as ls has them.
    Since57,
}

/// What the terminal is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Whether stderr, which `avail` writes to, is one.
    pub is_stderr: bool,
    /// Its columns, by stdin; none if stdin is no terminal.
    pub columns: Option<usize>,
}

/// Variables that change nothing of what `avail` shows, or that are looked at here.
const KNOWN: [&str; 34] = [
    "MODULESHOME",
    "MODULES_CMD",
    "MODULEPATH",
    "MODULEPATH_modshare",
    "MODULECONTACT",
    "MODULES_AUTO_HANDLING",
    "MODULES_CACHE_BUFFER_BYTES",
    "MODULES_CACHE_EXPIRY_SECS",
    "MODULES_COLLECTION_PIN_TAG",
    "MODULES_COLLECTION_PIN_VERSION",
    "MODULES_COLLECTION_TARGET",
    "MODULES_COLOR",
    "MODULES_EDITOR",
    "MODULES_ICASE",
    "MODULES_IGNORE_CACHE",
    "MODULES_IMPLICIT_REQUIREMENT",
    "MODULES_MCOOKIE_CHECK",
    "MODULES_ML",
    "MODULES_PAGER",
    "MODULES_REDIRECT_OUTPUT",
    "MODULES_RUN_QUARANTINE",
    "MODULES_SEARCH_MATCH",
    "MODULES_SET_SHELL_STARTUP",
    "MODULES_SILENT_SHELL_DEBUG",
    "MODULES_TERM_BACKGROUND",
    "MODULES_TERM_WIDTH",
    "MODULES_UNLOAD_MATCH_ORDER",
    "__MODULES_LMALTNAME",
    "__MODULES_LMCONFLICT",
    "__MODULES_LMINIT",
    "__MODULES_LMPREREQ",
    "__MODULES_LMREFRESH",
    "__MODULES_LMSOURCESH",
    "__MODULES_SHARE_MODULEPATH",
];

/// Values that the built-in options must have, because nothing else is modelled.
const FIXED: [(&str, &str); 5] = [
    ("avail_indepth", "1"),
    ("ignored_dirs", "CVS RCS SCCS .svn .git .SYNC .sos"),
    ("mcookie_version_check", "1"),
    ("verbosity", "normal"),
    ("tag_color_name", ""),
];

impl Config {
    /// What holds for a request in an environment.
    ///
    /// # Errors
    /// Where anything is set that is not modelled.
    pub(super) fn of(
        notes: &SiteNotes,
        environment: &Environment,
        request: &AvailRequest,
        terminal: TerminalStyle,
    ) -> Result<Config, Unable> {
        let options = AvailOptions { notes, environment };
        options.refuse_what_is_not_modelled()?;
        let style = style(&notes.site.release)?;
        let value = |name| options.value(name);
        let flag = |name| Ok::<_, Unable>(value(name)? == "1");
        let icase = value("icase")?;
        let contains = value("search_match")? == "contains";
        let asked: usize = value("term_width")?.parse().unwrap_or(0);
        let width = match (request.width.unwrap_or(asked), terminal.columns) {
            (0, None | Some(0)) => 80,
            (0, Some(columns)) => columns,
            (asked, _) => asked,
        };
        let implicit_default = flag("implicit_default")?;
        let abbreviations = value("tag_abbrev")?;
        Ok(Config {
            release: notes.site.release.clone(),
            style,
            ignore_case: request.ignore_case || matches!(icase.as_str(), "search" | "always"),
            contains: request.contains.unwrap_or(contains),
            extended_default: flag("extended_default")?,
            implicit_default,
            automatic_symbols: implicit_default && flag("advanced_version_spec")?,
            checks_cookies: value("mcookie_check")? == "always",
            shows_hidden: request.all,
            width,
            colors: options.colors(request, terminal)?,
            loaded_tag: abbreviation(&abbreviations, "loaded")?,
            hidden_tag: abbreviation(&abbreviations, "hidden")?,
            loaded: options.loaded()?,
            pager: options.pager(request, terminal)?,
        })
    }
}

fn style(release: &Release) -> Result<Style, Unable> {
    match release.number() {
        (5, 2) => Ok(Style::Since52),
        (5, 5) => Ok(Style::Since55),
        (5, 7) => Ok(Style::Since57),
        _ => Err(Unable::Release(release.clone())),
    }
}

struct AvailOptions<'a> {
    notes: &'a SiteNotes,
    environment: &'a Environment,
}

impl AvailOptions<'_> {
    fn refuse_what_is_not_modelled(&self) -> Result<(), Unable> {
        if self.notes.site.is_customised() {
            return Err(Unable::Site("a site configuration script"));
        }
        for (name, value) in FIXED {
            if self.notes.site.setting(name) != Some(value) {
                return Err(Unable::Setting(name.to_owned()));
            }
        }
        for output in ["avail_output", "avail_terse_output"] {
            let elements = self.notes.site.setting(output).unwrap_or_default();
            let wanted = ["modulepath", "alias", "dirwsym", "sym", "tag"];
            let known = |element: &str| {
                wanted.contains(&element) || matches!(element, "variantifspec" | "key")
            };
            let has_key = elements.split(':').any(|element| element == "key");
            let is_usual =
                wanted.iter().all(|one| elements.split(':').any(|element| element == *one))
                    && elements.split(':').all(known)
                    && has_key == (output == "avail_output");
            if !is_usual {
                return Err(Unable::Setting(output.to_owned()));
            }
        }
        for (name, value) in &self.environment.0 {
            if is_of_modules(name) && !self.is_harmless(name, value) {
                return Err(Unable::Variable(name.to_string_lossy().into_owned()));
            }
        }
        self.refuse_global_rc()
    }

    /// A variable that is known, or that sets an option to what it is anyway.
    fn is_harmless(&self, name: &OsStr, value: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        KNOWN.contains(&name)
            || name.starts_with("__MODULES_SHARE_")
            || self.notes.site.settings.iter().any(|setting| {
                setting.variable.as_deref() == Some(name)
                    && setting.built_in.as_deref().map(OsStr::new) == Some(value)
            })
    }

    /// rc files for all modulepaths.
    fn refuse_global_rc(&self) -> Result<(), Unable> {
        let home = self.environment.get("HOME").map(|home| Path::new(home).join(".modulerc"));
        match self.notes.global_rc.iter().chain(&home).find(|rc| rc.is_file()) {
            Some(rc) => Err(Unable::GlobalRc(rc.clone())),
            None if self.notes.global_rc.is_empty() => {
                Err(Unable::Site("an unknown global rc file"))
            }
            None => Ok(()),
        }
    }

    /// An option, as the environment has it where that is allowed.
    fn value(&self, name: &str) -> Result<String, Unable> {
        let unknown = || Unable::Setting(name.to_owned());
        let built_in = self.notes.site.setting(name).ok_or_else(unknown)?;
        let setting = self.notes.site.settings.iter().find(|setting| setting.name == name);
        let variable = setting.and_then(|setting| setting.variable.as_deref());
        let set = variable.and_then(|variable| self.environment.get(variable));
        let allowed: &[&str] = match name {
            "icase" => &["never", "search", "always"],
            "search_match" => &["starts_with", "contains"],
            "mcookie_check" => &["eval", "always"],
            "term_background" => &["dark", "light"],
            "term_width" => return self.term_width(set, built_in),
            _ => return Ok(built_in.to_owned()),
        };
        let set = set.and_then(OsStr::to_str).filter(|value| allowed.contains(value));
        Ok(set.unwrap_or(built_in).to_owned())
    }

    fn term_width(&self, set: Option<&OsStr>, built_in: &str) -> Result<String, Unable> {
        let Some(set) = set.and_then(OsStr::to_str) else { return Ok(built_in.to_owned()) };
        let is_plain = set.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = is_plain && (set == "0" || !set.starts_with('0'));
        match set.parse::<usize>() {
            Ok(0..=1000) if is_plain => Ok(set.to_owned()),
            _ => Err(Unable::Variable("MODULES_TERM_WIDTH".to_owned())),
        }
    }

    /// `initConfColor` and `initConfColors`.
    fn colors(
        &self,
        request: &AvailRequest,
        terminal: TerminalStyle,
    ) -> Result<Option<Vec<(String, String)>>, Unable> {
        let get = |name| self.environment.get(name);
        let general = if get("NO_COLOR").is_some() {
            Some(Color::Never)
        } else if let Some(value) = get("CLICOLOR") {
            Some(if value == "0" { Color::Never } else { Color::Auto })
        } else {
            get("CLICOLOR_FORCE").filter(|value| *value != "0").map(|_| Color::Always)
        };
        let built_in = self.notes.site.setting("color").and_then(Color::parse);
        let of_modules = get("MODULES_COLOR").and_then(OsStr::to_str).and_then(Color::parse);
        let unknown = || Unable::Setting("color".to_owned());
        let when = request.color.or(of_modules).or(general).or(built_in).ok_or_else(unknown)?;
        if when == Color::Never || when == Color::Auto && !terminal.is_stderr {
            return Ok(None);
        }
        let (light, dark) = self.notes.colors.as_ref().ok_or_else(unknown)?;
        let list = if self.value("term_background")? == "light" { light } else { dark };
        let pairs = list.split(':').map(|pair| pair.split_once('='));
        let pairs = pairs.map(|pair| pair.map(|(key, code)| (key.to_owned(), code.to_owned())));
        pairs.collect::<Option<Vec<_>>>().ok_or_else(unknown).map(Some)
    }

    fn loaded(&self) -> Result<Vec<(String, String)>, Unable> {
        let list = |name: &str| -> Result<Vec<String>, Unable> {
            let value = self.environment.get(name).unwrap_or_default();
            let value = value.to_str().ok_or_else(|| Unable::Variable(name.to_owned()))?;
            Ok(value.split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect())
        };
        let (modules, files) = (list("LOADEDMODULES")?, list("_LMFILES_")?);
        let is_plain = |module: &String| module.bytes().all(|byte| byte.is_ascii_graphic());
        if modules.len() != files.len() || !modules.iter().all(is_plain) {
            return Err(Unable::Variable("LOADEDMODULES".to_owned()));
        }
        Ok(modules.into_iter().zip(files).collect())
    }

    /// `initStatePaginate`
    fn pager(
        &self,
        request: &AvailRequest,
        terminal: TerminalStyle,
    ) -> Result<Option<Vec<String>>, Unable> {
        let built_in = self.notes.site.setting("pager").unwrap_or_default();
        let set = self.environment.get("MODULES_PAGER");
        let unknown = || Unable::Variable("MODULES_PAGER".to_owned());
        let pager = set.map_or(Some(built_in), OsStr::to_str).ok_or_else(unknown)?;
        let words = split(pager).map_err(|_| unknown())?;
        let program = words.first().map(Path::new).and_then(Path::file_name);
        let is_none = program.is_none_or(|program| program == "cat");
        let asked = request.paginate.unwrap_or(true);
        if is_none || !asked || !terminal.is_stderr {
            return Ok(None);
        }
        // Tcl's `open` gives these a meaning.
        let is_plain = |word: &String| !word.starts_with(['<', '>', '|', '2', '&', '~']);
        words.iter().all(is_plain).then_some(Some(words)).ok_or_else(unknown)
    }
}

fn is_of_modules(name: &OsStr) -> bool {
    let name = name.as_bytes();
    [&b"MODULE"[..], b"__MODULES"].iter().any(|prefix| name.starts_with(prefix))
}

/// From `auto-loaded=aL:loaded=L:hidden=H`.
fn abbreviation(list: &str, tag: &str) -> Result<String, Unable> {
    let pairs = list.split(':').filter_map(|pair| pair.split_once('='));
    let short = pairs.filter(|(name, _)| *name == tag).map(|(_, short)| short.to_owned()).next();
    short.filter(|short| !short.is_empty()).ok_or_else(|| Unable::Setting("tag_abbrev".to_owned()))
}
