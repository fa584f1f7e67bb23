//! One pattern of `avail`, and what it fits: `modEq`, `modEqStatic`, `modStartNb` and
//! `doesModMatchAtDepth` of `modulecmd.tcl`, for patterns without version specifiers.

use super::config::{Config, Style};
use super::found::is_dotted;
use super::glob::LetterCase;

/// A pattern, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Pattern<'a> {
    text: &'a str,
    style: Style,
    pub(super) case: LetterCase,
    pub(super) contains: bool,
    extended_default: bool,
    /// How many `/` it has.
    depth: usize,
    /// The pattern that names at the modulepath's top have to fit to be walked into.
    walked: String,
    /// The pattern that whole names have to fit.
    whole: String,
    /// The directory that it names by a `/` at its end.
    directory: Option<&'a str>,
}

impl<'a> Pattern<'a> {
    pub(super) fn of(text: &'a str, config: &Config) -> Pattern<'a> {
        let case = if config.ignore_case { LetterCase::Ignored } else { LetterCase::Sensitive };
        let first = text.split('/').next().unwrap_or(text);
        let is_flat = !text.trim_end_matches('/').contains('/');
        let walked = match (config.contains, is_flat && !first.ends_with('*')) {
            (true, _) => "*".to_owned(),
            (false, true) => format!("{first}*"),
            (false, false) => first.to_owned(),
        };
        let whole = if config.contains { format!("*{text}*") } else { format!("{text}*") };
        let without_stars = text.trim_end_matches('*');
        let directory = without_stars.ends_with('/').then(|| without_stars.trim_end_matches('/'));
        Pattern {
            text,
            style: config.style,
            case,
            contains: config.contains,
            extended_default: config.extended_default,
            depth: text.matches('/').count(),
            walked,
            whole,
            directory,
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Whether every name fits.
    pub(super) fn fits_all(&self) -> bool {
        self.text.bytes().all(|byte| byte == b'*')
    }

    /// The pattern of what is walked for it.
    pub(super) fn walked(&self) -> &str {
        &self.walked
    }

    /// The same, with something else walked for it.
    pub(super) fn walking(&self, walked: String) -> Pattern<'a> {
        Pattern { walked, ..self.clone() }
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Whether a name at the modulepath's top is looked into.
    pub(super) fn walks_into(&self, top: &str) -> bool {
        self.case.matches(&self.walked, top)
    }

    /// Whether a directory may have automatic symbols (`$hasmoddir`).
    pub(super) fn may_name(&self, directory: &str) -> bool {
        if !self.text.trim_end_matches('/').contains('/') {
            return true;
        }
        let first = self.text.split('/').next().unwrap_or(self.text);
        self.case.is_at_start(first, directory)
    }

    /// Whether a name is found.
    pub(super) fn finds(&self, name: &str) -> bool {
        if self.fits_all() {
            return true;
        }
        // Since 5.7, `f*o` does not fit `f/o`.
        let looked_at = match self.style {
            Style::Since57 if !self.contains => {
                name.match_indices('/').nth(self.depth).map_or(name, |(end, _)| &name[..end])
            }
            _ => name,
        };
        self.case.matches(&self.whole, looked_at)
    }

    /// Whether a directory is found by a pattern that ends with a `/`.
    pub(super) fn finds_directory(&self, directory: &str) -> bool {
        let Some(wanted) = self.directory else { return false };
        let extended = |wanted: &str| match self.style {
            Style::Since57 => [".", "-"]
                .iter()
                .any(|mark| self.case.matches(&format!("{wanted}{mark}*"), directory)),
            _ => self.case.matches(&format!("{wanted}.*"), directory),
        };
        self.case.matches(wanted, directory)
            || self.extended_default && wanted.contains('/') && extended(wanted)
    }

    /// Whether a name is what it says to the letter, or the version that it begins.
    pub(super) fn is(&self, name: &str) -> bool {
        self.case.equals(self.text, name) || self.is_version_of(self.text, name)
    }

    /// `foo/1` is `foo/1.2`, too.
    fn is_version_of(&self, wanted: &str, name: &str) -> bool {
        if !self.extended_default || !wanted.contains('/') || name.len() <= wanted.len() {
            return false;
        }
        let marks: &[u8] = match self.style {
            Style::Since57 => b".-",
            _ => b".",
        };
        name.is_char_boundary(wanted.len())
            && self.case.equals(wanted, &name[..wanted.len()])
            && marks.contains(&name.as_bytes()[wanted.len()])
    }

    /// Whether a name with dots is meant by it: what is left of the name behind it has none.
    pub(super) fn asks_for_dotted(&self, name: &str) -> bool {
        let parts = self.parts_at_start(name);
        let rest = name.split('/').skip(parts).collect::<Vec<_>>().join("/");
        parts > 0 && !is_dotted(&rest)
    }

    /// How many parts of a name are the pattern's (`modStartNb`).
    fn parts_at_start(&self, name: &str) -> usize {
        let directory =
            self.text.trim_end_matches('/').rsplit_once('/').map(|(directory, _)| directory);
        let (mut parts, most) = match directory {
            None => (0, 0),
            Some(directory) => {
                let pairs = directory.split('/').zip(name.split('/'));
                let same = pairs.clone().take_while(|(left, right)| self.case.equals(left, right));
                (same.count(), pairs.count())
            }
        };
        if parts == most && self.begins(name) {
            parts += 1;
        }
        parts
    }

    /// `modEq $pattern $name eqstart`
    fn begins(&self, name: &str) -> bool {
        let text = match self.style {
            Style::Since57 => self.text.trim_end_matches('/'),
            _ => self.text,
        };
        self.case.is_at_start(text, name) || self.is_version_of(self.text, name)
    }
}
