//! How the answer is written: `reportModules`, `displayElementList` and `displayKey` of
//! `modulecmd.tcl`.

use std::path::Path;

use super::Unable;
use super::config::{Config, Style};
use super::found::{AvailState, NameKind};
use super::item::{AvailItem, columns, joined};
use super::long;
use super::paint::Paint;
use super::pattern::Pattern;
use super::request::{AvailRequest, OutputForm};
use super::select::Selected;
use crate::tcl::dictionary;

/// What has been written.
pub(super) struct AvailReport<'a> {
    form: OutputForm,
    config: &'a Config,
    paint: Paint,
    text: String,
    /// Whether something is to be set apart from what comes next.
    is_apart: bool,
    has_table_header: bool,
    /// What the key has to explain.
    marks_alias: bool,
    marks_symbol: bool,
    tags: Vec<String>,
}

impl<'a> AvailReport<'a> {
    pub(super) fn new(request: &AvailRequest, config: &'a Config) -> AvailReport<'a> {
        let text = if request.form == OutputForm::Json { "{" } else { "" };
        AvailReport {
            form: request.form,
            config,
            paint: Paint::new(config),
            text: text.to_owned(),
            is_apart: false,
            has_table_header: false,
            marks_alias: false,
            marks_symbol: false,
            tags: Vec::new(),
        }
    }

    /// What was found in a modulepath.
    pub(super) fn list(
        &mut self,
        root: &str,
        selected: &Selected<'_>,
        patterns: &[Pattern<'_>],
        state: &AvailState,
    ) -> Result<(), Unable> {
        let texts: Vec<&str> = patterns.iter().map(Pattern::text).collect();
        let marks = self.paint.marks(&texts);
        let mut items = Vec::with_capacity(selected.len());
        for (name, what) in selected {
            let item = match self.form {
                OutputForm::Json => self.json(root, name, what, state),
                OutputForm::Long => self.long(root, name, what, state, &marks)?,
                OutputForm::Columns | OutputForm::Terse => {
                    self.short(root, name, what, state, &marks)?
                }
            };
            items.extend(item);
        }
        if items.is_empty() {
            return Ok(());
        }
        items.sort_by(|left, right| dictionary(&left.plain, &right.plain));
        self.header(root);
        let long: usize = items.iter().map(|item| item.text().len() + 2).sum();
        self.text.reserve(long);
        match self.form {
            OutputForm::Columns => columns(&items, self.config, &mut self.text),
            OutputForm::Json => joined(&items, ",\n", "\n}", &mut self.text),
            OutputForm::Terse | OutputForm::Long => joined(&items, "\n", "\n", &mut self.text),
        }
        self.is_apart = true;
        Ok(())
    }

    /// All that was written, and the key.
    pub(super) fn finish(mut self) -> Result<String, Unable> {
        match self.form {
            OutputForm::Json => self.text.push_str("}\n"),
            OutputForm::Columns => self.key()?,
            OutputForm::Terse | OutputForm::Long => {}
        }
        Ok(self.text)
    }

    fn header(&mut self, root: &str) {
        if self.form == OutputForm::Long && !self.has_table_header {
            self.has_table_header = true;
            let header = long::table_header(&mut self.paint);
            self.line(&header);
        }
        let painted = match self.form {
            OutputForm::Json => String::new(),
            _ => self.paint.text(&["mp"], root, &[]),
        };
        let header = match self.form {
            OutputForm::Json => format!("\"{root}\": {{"),
            OutputForm::Terse | OutputForm::Long => format!("{painted}:"),
            OutputForm::Columns => {
                let taken = root.len() + 2;
                let left = (self.config.width.saturating_sub(taken) / 2).max(1);
                let right = self.config.width.saturating_sub(taken + left).max(1);
                format!("{} {painted} {}", "-".repeat(left), "-".repeat(right))
            }
        };
        self.line(&header);
    }

    /// A line, and what sets it apart from what was written before.
    fn line(&mut self, line: &str) {
        if std::mem::take(&mut self.is_apart) {
            self.text.push_str(if self.form == OutputForm::Json { ",\n" } else { "\n" });
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// `formatListEltToDisplay`
    fn short<'n>(
        &mut self,
        root: &str,
        name: &'n str,
        what: &NameKind,
        state: &AvailState,
        marks: &[(String, String)],
    ) -> Result<Option<AvailItem<'n>>, Unable> {
        let (key, suffix) = match what {
            NameKind::Module => ("", ""),
            NameKind::Directory => ("di", "/"),
            NameKind::Alias(_) => ("al", ""),
            NameKind::Version(_) | NameKind::Broken => return Ok(None),
        };
        if *what == NameKind::Module && self.is_bare(name, state) {
            return Ok(Some(AvailItem { plain: name.into(), written: None, length: name.len() }));
        }
        let mut symbols = state.symbols.of(name);
        if matches!(what, NameKind::Alias(_)) && !self.paint.has("al") {
            symbols.push("@");
            self.marks_alias = true;
        }
        let tags = match what {
            NameKind::Directory => Vec::new(),
            _ => self.tags_of(root, name, what, state),
        };
        if self.paint.is_on() && !tags.is_empty() {
            return Err(Unable::Order("tags in colours"));
        }
        let keys = keys(&self.paint, key, &mut symbols);
        let mut plain = format!("{name}{suffix}");
        let mut written = quoted(name, &self.paint.text(&keys, name, marks));
        written.push_str(suffix);
        if !symbols.is_empty() {
            self.marks_symbol |= symbols != ["@"];
            plain.push_str(&format!("({})", symbols.join(":")));
            written.push_str(&self.symbols(&symbols));
        }
        if !tags.is_empty() {
            let list = format!(" <{}>", tags.join(":"));
            plain.push_str(&list);
            written.push_str(&list);
            self.tags.extend(tags);
        }
        let length = plain.len() + if name.contains(' ') { 2 } else { 0 };
        Ok(Some(AvailItem { plain: plain.into(), written: Some(written), length }))
    }

    /// Whether a module is written as its name.
    fn is_bare(&self, name: &str, state: &AvailState) -> bool {
        let nothing_is_known =
            state.symbols.is_empty() && state.hidden.is_empty() && self.config.loaded.is_empty();
        nothing_is_known && !self.paint.is_on() && !name.contains(' ')
    }

    fn symbols(&mut self, symbols: &[&str]) -> String {
        let listed = self.symbol_list(symbols);
        let open = self.paint.text(&["se"], "(", &[]);
        let close = self.paint.text(&["se"], ")", &[]);
        format!("{open}{listed}{close}")
    }

    fn symbol_list(&mut self, symbols: &[&str]) -> String {
        let colon = self.paint.text(&["se"], ":", &[]);
        let painted: Vec<String> =
            symbols.iter().map(|symbol| self.paint.text(&["sy"], symbol, &[])).collect();
        painted.join(&colon)
    }

    /// `formatListEltToLongDisplay`
    fn long(
        &mut self,
        root: &str,
        name: &str,
        what: &NameKind,
        state: &AvailState,
        marks: &[(String, String)],
    ) -> Result<Option<AvailItem<'static>>, Unable> {
        let (key, suffix, time) = match what {
            NameKind::Module => {
                ("", String::new(), long::modified(Path::new(&state.symbols.file(root, name)))?)
            }
            NameKind::Directory => ("di", "/".to_owned(), String::new()),
            NameKind::Alias(module) => ("al", format!(" -> {module}"), String::new()),
            NameKind::Version(_) | NameKind::Broken => return Ok(None),
        };
        let mut symbols = state.symbols.of(name);
        let keys = keys(&self.paint, key, &mut symbols);
        let plain = format!("{name}{suffix}");
        let length = plain.len() + if name.contains(' ') { 2 } else { 0 };
        let mut written = quoted(name, &self.paint.text(&keys, name, marks)) + &suffix;
        let listed = symbols.join(":").len();
        // What a long name takes from its column is missing in the next one.
        let behind = 20_usize.saturating_sub(listed + length.saturating_sub(40));
        written.push_str(&" ".repeat(40_usize.saturating_sub(length)));
        written.push_str(&self.symbol_list(&symbols));
        written.push_str(&" ".repeat(behind));
        written.push_str(&time);
        Ok(Some(AvailItem { plain: plain.into(), written: Some(written), length }))
    }

    /// `formatListEltToJsonDisplay`: nothing is escaped there.
    fn json(
        &mut self,
        root: &str,
        name: &str,
        what: &NameKind,
        state: &AvailState,
    ) -> Option<AvailItem<'static>> {
        let symbols = array(&state.symbols.of(name));
        let tags: Vec<String> = match what {
            NameKind::Directory => Vec::new(),
            _ => {
                self.whole_tags_of(root, name, what, state).into_iter().map(str::to_owned).collect()
            }
        };
        let tags = array(&tags.iter().map(String::as_str).collect::<Vec<_>>());
        let via = if self.config.style == Style::Since57 { ", \"via\": []" } else { "" };
        let about = match what {
            NameKind::Directory => format!("\"directory\", \"symbols\": {symbols}"),
            NameKind::Module => format!(
                "\"modulefile\", \"symbols\": {symbols}, \"tags\": {tags}, \"pathname\": \"{}\"",
                state.symbols.file(root, name)
            ),
            NameKind::Alias(module) => {
                format!(
                    "\"alias\", \"symbols\": {symbols}, \"tags\": {tags}, \"target\": \"{module}\""
                )
            }
            NameKind::Version(_) | NameKind::Broken => return None,
        };
        let written = format!("\"{name}\": {{ \"name\": \"{name}\", \"type\": {about}{via}}}");
        Some(AvailItem { plain: written.into(), written: None, length: 0 })
    }

    /// Tags, as they are written for short.
    fn tags_of(&self, root: &str, name: &str, what: &NameKind, state: &AvailState) -> Vec<String> {
        let short = |tag| match tag {
            "hidden" => self.config.hidden_tag.clone(),
            _ => self.config.loaded_tag.clone(),
        };
        let whole = self.whole_tags_of(root, name, what, state);
        let mut tags: Vec<String> = whole.into_iter().map(short).collect();
        tags.sort_by(|left, right| dictionary(left, right));
        tags
    }

    /// `getTagList`
    fn whole_tags_of(
        &self,
        root: &str,
        name: &str,
        what: &NameKind,
        state: &AvailState,
    ) -> Vec<&'static str> {
        let loaded = self.config.loaded.iter().rev().find(|(module, _)| module == name);
        // Since 5.7, tags of a loaded module are not those of another file of the same name.
        if let (Some((_, file)), NameKind::Module, Style::Since57) =
            (loaded, what, self.config.style)
            && *file != state.symbols.file(root, name)
        {
            return Vec::new();
        }
        let hidden = state.hidden.contains(name).then_some("hidden");
        hidden.into_iter().chain(loaded.map(|_| "loaded")).collect()
    }

    /// `displayKey`
    fn key(&mut self) -> Result<(), Unable> {
        let mut items: Vec<(String, usize)> = Vec::new();
        for key in self.paint.key()?.into_iter().map(str::to_owned).collect::<Vec<_>>() {
            items.push(match key.as_str() {
                "mp" => (self.paint.text(&["mp"], "modulepath", &[]), 10),
                "di" => (self.paint.text(&["di"], "directory", &[]) + "/", 10),
                "al" => (self.paint.text(&["al"], "module-alias", &[]), 12),
                "de" => (self.paint.text(&["de"], "default-version", &[]), 15),
                _ => {
                    self.marks_symbol = false;
                    (self.symbols(&["symbolic-version"]), 18)
                }
            });
        }
        if self.marks_alias {
            let open = self.paint.text(&["se"], "(", &[]);
            let close = self.paint.text(&["se"], ")", &[]);
            // Its length is wrong there, too.
            items.push((format!("{open}@{close}=module-alias"), 9));
        }
        if self.marks_symbol {
            let open = self.paint.text(&["se"], "(", &[]);
            let close = self.paint.text(&["se"], ")", &[]);
            items.push((format!("{open}symbolic-version{close}"), 18));
        }
        self.tag_key(&mut items)?;
        if items.is_empty() {
            return Ok(());
        }
        self.line("Key:");
        let item =
            |(written, length)| AvailItem { plain: "".into(), written: Some(written), length };
        let items: Vec<AvailItem<'_>> = items.into_iter().map(item).collect();
        columns(&items, self.config, &mut self.text);
        Ok(())
    }

    fn tag_key(&mut self, items: &mut Vec<(String, usize)>) -> Result<(), Unable> {
        let Some(tag) = self.tags.first() else { return Ok(()) };
        if self.tags.iter().any(|other| other != tag) {
            return Err(Unable::Order("a key of several tags"));
        }
        let meaning = if *tag == self.config.hidden_tag { "hidden" } else { "loaded" };
        items.push(("<module-tag>".to_owned(), 12));
        let written = format!("<{tag}>={meaning}");
        let length = written.len();
        items.push((written, length));
        Ok(())
    }
}

/// The colours of a name; `default` is shown as one.
fn keys<'k>(paint: &Paint, key: &'k str, symbols: &mut Vec<&str>) -> Vec<&'k str> {
    let mut keys = Vec::new();
    if paint.has("de")
        && let Some(at) = symbols.iter().position(|symbol| *symbol == "default")
    {
        symbols.remove(at);
        keys.push("de");
    }
    keys.push(key);
    keys
}

/// A name with a blank in it is put between quotes.
fn quoted(name: &str, written: &str) -> String {
    if name.contains(' ') { format!("'{written}'") } else { written.to_owned() }
}

fn array(words: &[&str]) -> String {
    match words {
        [] => "[]".to_owned(),
        words => format!("[ \"{}\" ]", words.join("\", \"")),
    }
}
