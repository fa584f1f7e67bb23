//! `becalm modules cache`: what is wrong with caches, or what was published.

use std::collections::BTreeMap;

use modules::cache::{Checked, FaultKind, PublishedCache};
use recording::ByteUnits;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{bytes, counted};
use term::{Cell, Column, Table, plain, quoted_path, style, width};

use super::IndexAnswer;

/// How many faults have a row.
const ROWS: usize = 15;

/// What `becalm modules cache` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesCache {
    /// `becalm.modules.cache/1`.
    schema: &'static str,
    /// `check`, `build` or `refresh`.
    action: &'static str,
    /// Whether every cache is good now: the exit status is 0.
    good: bool,
    /// One for each modulepath.
    caches: Vec<CacheAnswer>,
    #[serde(skip)]
    options: String,
}

/// The answer for one cache.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct CacheAnswer {
    /// What a check found; none where it was built unseen.
    pub checked: Option<Checked>,
    /// What was published.
    pub built: Option<PublishedCache>,
    /// Why nothing was.
    pub refused: Option<String>,
    /// The index of `becalm modules avail`, if it was made anew or could not be.
    pub index: Option<IndexAnswer>,
}

impl CacheAnswer {
    /// Whether the cache is good now.
    fn is_good(&self) -> bool {
        let was_good = self.checked.as_ref().is_some_and(Checked::is_good);
        self.refused.is_none() && (self.built.is_some() || was_good)
    }
}

impl ModulesCache {
    /// The answers of `check`, `build` or `refresh`; `options` come after its name in commands
    /// to paste.
    pub fn of(action: &'static str, options: String, caches: Vec<CacheAnswer>) -> ModulesCache {
        let good = caches.iter().all(CacheAnswer::is_good);
        ModulesCache { schema: "becalm.modules.cache/1", action, good, caches, options }
    }

    /// Whether every cache is good now.
    pub fn is_good(&self) -> bool {
        self.good
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let texts: Vec<String> = self.caches.iter().map(|cache| one(cache, columns)).collect();
        let mut text = texts.join("\n");
        let wants = |cache: &&CacheAnswer| !cache.is_good() && cache.refused.is_none();
        if let Some(checked) =
            self.caches.iter().find(wants).and_then(|cache| cache.checked.as_ref())
        {
            let place = quoted_path(&checked.modulepath);
            text += "\n";
            text += &style::next(&format!("becalm modules cache build{} {place}", self.options));
        }
        text
    }
}

fn one(cache: &CacheAnswer, columns: usize) -> String {
    let mut text = String::new();
    let mut notes: &[String] = &[];
    if let Some(checked) = &cache.checked {
        text += &found(checked, columns);
        notes = &checked.notes;
    }
    if let Some(built) = &cache.built {
        text += &published(built, columns);
        notes = &built.notes;
    }
    if let Some(id) = cache.built.as_ref().map(|built| &*built.journal) {
        text +=
            &width::wrap(&format!("becalm undo {id} brings back what was there before."), columns);
    }
    if let Some(why) = &cache.refused {
        text += &width::wrap(&style::paint(style::WARNING, &plain(why)), columns);
    }
    if let Some(index) = &cache.index {
        text += &width::wrap(&indexed(index), columns);
    }
    for note in notes {
        text += &width::wrap(&format!("Note: {}", plain(note)), columns);
    }
    text
}

fn indexed(answer: &IndexAnswer) -> String {
    match (&answer.index, &answer.refused) {
        (Some(path), _) => {
            format!("becalm modules avail answers from {}.", plain(&path.to_string_lossy()))
        }
        (None, why) => {
            let why = why.as_deref().map(plain).unwrap_or_default();
            format!("becalm modules avail leaves this tree to Modules: {why}")
        }
    }
}

fn found(checked: &Checked, columns: usize) -> String {
    let place = plain(&checked.cache.to_string_lossy());
    if checked.is_good() {
        let files = counted(checked.entries.modulefiles, "modulefile", "modulefiles");
        let size = bytes(ByteUnits(checked.bytes));
        return style::headline(&format!("{place} is good: {files} in {size}"), columns);
    }
    let mut kinds: BTreeMap<FaultKind, u64> = BTreeMap::new();
    checked.faults.iter().for_each(|fault| *kinds.entry(fault.kind).or_default() += 1);
    let words: Vec<String> =
        kinds
            .iter()
            .map(|(kind, many)| {
                if *many == 1 {
                    word(*kind).to_owned()
                } else {
                    format!("{} ({many})", word(*kind))
                }
            })
            .collect();
    let mut text = style::headline(&format!("{place} is not good: {}", words.join(", ")), columns);
    for fault in checked.faults.iter().filter(|fault| fault.name.is_none()).take(ROWS) {
        let line = format!("{}: {}", word(fault.kind), plain(&fault.what));
        text += &width::wrap(&style::paint(style::WARNING, &line), columns);
    }
    text + &named(checked, columns)
}

/// The files and directories with something wrong.
fn named(checked: &Checked, columns: usize) -> String {
    let faults: Vec<_> = checked.faults.iter().filter(|fault| fault.name.is_some()).collect();
    if faults.is_empty() {
        return String::new();
    }
    let mut table = Table::new([Column::text("fault"), Column::path("name"), Column::text("what")]);
    for fault in faults.iter().take(ROWS) {
        table.row([
            Cell::styled(word(fault.kind), style::WARNING),
            Cell::from(fault.name.as_deref().unwrap_or_default()),
            Cell::from(fault.what.as_str()),
        ]);
    }
    let mut text = table.render(columns);
    if let Some(more) = faults.len().checked_sub(ROWS).filter(|more| *more > 0) {
        text += &format!("({more} more: --json)\n");
    }
    text
}

fn published(built: &PublishedCache, columns: usize) -> String {
    let place = plain(&built.cache.to_string_lossy());
    let files = counted(built.entries.modulefiles, "modulefile", "modulefiles");
    let size = bytes(ByteUnits(built.bytes));
    let mut text = style::headline(&format!("{place} is published: {files} in {size}"), columns);
    let limited = built.entries.limited_files + built.entries.limited_directories;
    if limited > 0 {
        let looked = counted(limited, "file or directory that", "files or directories that");
        let repaired = match built.repaired {
            0 => String::new(),
            many => format!("; the site's cachebuild had shown {many} that not everyone may read"),
        };
        text += &width::wrap(&format!("{looked} each user looks at anew{repaired}."), columns);
    }
    let users = match built.users.is_empty() {
        true => "No user's view was compared.".to_owned(),
        false => format!(
            "avail -a -l gives the same with it as without, for {}.",
            built.users.join(", ")
        ),
    };
    text + &width::wrap(&users, columns)
}

/// A kind of fault, in a word.
fn word(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Hostile => "hostile",
        FaultKind::Untrusted => "untrusted",
        FaultKind::Disclosing => "disclosing",
        FaultKind::Partial => "partial",
        FaultKind::Stale => "stale",
        FaultKind::ForeignVersion => "foreign version",
        FaultKind::Unused => "unused",
        FaultKind::Absent => "absent",
        FaultKind::Unchecked => "unchecked",
    }
}
