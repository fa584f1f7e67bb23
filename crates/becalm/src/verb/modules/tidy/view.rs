//! What `becalm modules tidy` answers.

use modules::tidy::{CostChange, Kept, TidySubject, TidyVerdict, Tidying};
use recording::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{change, count, counted, time};
use term::{Cell, Column, Table, plain, style, width};

/// Reasons, differences and commands that a screen shows.
const SHOWN: usize = 8;

/// A tidying, planned or applied.
pub struct ModulesTidy<'a> {
    /// What is to be done, or was.
    pub tidying: &'a Tidying,
    /// Its name in the journal, once it was applied.
    pub applied: Option<&'a str>,
    /// What the users who were asked said before and after, once it was applied.
    pub verdict: Option<&'a TidyVerdict>,
    /// Whether it stays: nobody sees or waits otherwise.
    pub is_good: bool,
}

/// The same as JSON: docs/schema/becalm.modules.tidy.md.
#[derive(Serialize, JsonSchema)]
pub struct TidyData<'a> {
    /// `becalm.modules.tidy/1`.
    schema: &'static str,
    #[serde(flatten)]
    tidying: &'a Tidying,
    /// The name in the journal, for `becalm undo`; null where nothing was written.
    applied: Option<&'a str>,
    /// Whether it was taken back, because an answer or a cost was another.
    taken_back: bool,
    /// With `--apply`: what was asked before and after.
    verdict: Option<&'a TidyVerdict>,
}

impl ModulesTidy<'_> {
    /// A headline, what is done and what is not, what was measured, what to do next.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let mut text = style::headline(&self.headline(), columns);
        text.push_str(&self.done(columns));
        text.push_str(&self.measured(columns));
        text.push_str(&kept(&self.tidying.kept, columns));
        if self.verdict.is_none() {
            for risk in &self.tidying.risks {
                text.push_str(&width::wrap(risk, columns));
            }
        }
        if self.is_good {
            text.push_str(&self.to_set());
        }
        if !next.is_empty() {
            text.push('\n');
            text.push_str(&style::next(next));
        }
        text
    }

    fn headline(&self) -> String {
        if self.tidying.is_empty() {
            return "Nothing to tidy that would change nobody's view and slow no load down".into();
        }
        let saved = count(self.tidying.saved_calls);
        let Some(verdict) = self.verdict else {
            return match self.tidying.virtuals.is_empty() {
                true => format!("Would spare each module avail about {saved} calls on the tree"),
                false => "Would make modulepaths of virtual modules".into(),
            };
        };
        let first = verdict.differences.first();
        match (self.is_good, first, verdict.changes.iter().find(|change| change.is_slower)) {
            (true, ..) => {
                let avail = verdict.changes.iter().find(|change| change.command == "module avail");
                let calls = avail.map_or_else(String::new, |avail| {
                    format!("{} to {}", count(avail.calls_before), count(avail.calls_after))
                });
                let loads = match verdict.changes.iter().any(|change| change.is_slower) {
                    true => "some loads are slower, as asked for",
                    false => "no load a tenth slower",
                };
                format!("Tidied: module avail {calls} calls; same answers, {loads}")
            }
            (false, Some(difference), _) => {
                let command = plain(&difference.command);
                format!("Taken back: {} is answered otherwise to {command}", difference.user)
            }
            (false, None, Some(slower)) => {
                format!("Taken back: {} became slower", plain(&slower.command))
            }
            (false, None, None) => "Taken back".into(),
        }
    }

    fn done(&self, columns: usize) -> String {
        let tidying = self.tidying;
        let mut lines = Vec::new();
        if let Some(one) = tidying.merged.first() {
            let files = counted(tidying.merged.len() as u64, "rc file", "rc files");
            let one = plain(&one.path.to_string_lossy());
            lines.push(format!("Merged at the root: {files}, such as {one}"));
        }
        if let Some(one) = tidying.moved.first() {
            let files = counted(tidying.moved.len() as u64, "stray", "strays");
            let (from, to) = (one.from.to_string_lossy(), one.to.to_string_lossy());
            lines.push(format!("Moved out: {files}, such as {} to {}", plain(&from), plain(&to)));
        }
        if let Some(one) = tidying.hidden.first() {
            let files = counted(tidying.hidden.len() as u64, "file", "files");
            let path = plain(&one.path.to_string_lossy());
            lines.push(format!("Hidden: {files}, such as {path}: {}", one.why));
        }
        for made in &tidying.virtuals {
            let (path, of) = (made.path.to_string_lossy(), made.instead_of.to_string_lossy());
            let modules = counted(made.modules as u64, "module", "modules");
            lines.push(format!("Virtual: {} for {}, {modules}", plain(&path), plain(&of)));
        }
        let text: String = lines.iter().map(|line| width::wrap(line, columns)).collect();
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    fn measured(&self, columns: usize) -> String {
        let Some(verdict) = self.verdict else { return String::new() };
        let mut table = Table::new([
            Column::text("command"),
            Column::number("calls"),
            Column::number("then"),
            Column::number("time").spare(),
            Column::number("then").spare(),
            Column::number("change"),
        ]);
        for change in verdict.changes.iter().take(SHOWN) {
            table.row(row(change));
        }
        let mut text = format!("\n{}\n", table.render(columns));
        let asked = format!(
            "Asked {}, each the same {} before and after.",
            plain(&verdict.users.join(", ")),
            counted(verdict.commands as u64, "command", "commands"),
        );
        text.push_str(&width::wrap(&asked, columns));
        for difference in verdict.differences.iter().take(SHOWN) {
            let (user, command) = (&difference.user, plain(&difference.command));
            let (before, after) = (plain(&difference.before), plain(&difference.after));
            let line = format!("{user}: {command}: {before:?} became {after:?}");
            text.push_str(&width::wrap(&line, columns));
        }
        text
    }

    /// What only whoever runs the site can set.
    fn to_set(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.tidying.environment {
            text.push_str(&format!("Set for all, to have it: {name}={value}\n"));
        }
        if !self.tidying.virtuals.is_empty() {
            let path = self.tidying.modulepath_text();
            let path = plain(&path.to_string_lossy());
            text.push_str(&format!("Set for all, to have it: MODULEPATH={path}\n"));
        }
        text
    }

    /// The whole as data (docs/schema/becalm.modules.tidy.md).
    pub fn data(&self) -> TidyData<'_> {
        TidyData {
            schema: "becalm.modules.tidy/1",
            tidying: self.tidying,
            applied: self.applied,
            taken_back: self.verdict.is_some() && !self.is_good,
            verdict: self.verdict,
        }
    }
}

fn row(measured: &CostChange) -> [Cell; 6] {
    let seconds = |seconds: f64| time(Nanos((seconds * 1e9) as u64));
    let CostChange { calls_before, calls_after, .. } = *measured;
    let style = if measured.is_slower { style::MORE } else { style::LESS };
    [
        Cell::from(plain(&measured.command)),
        count(calls_before).into(),
        count(calls_after).into(),
        seconds(measured.seconds_before).into(),
        seconds(measured.seconds_after).into(),
        Cell::styled(&change(calls_before, calls_after), style),
    ]
}

/// The most frequent reasons, each with one file.
fn kept(kept: &[Kept], columns: usize) -> String {
    let mut reasons: Vec<(&Kept, u64)> = Vec::new();
    for one in kept {
        let same =
            |(other, _): &&mut (&Kept, u64)| other.reason == one.reason && other.what == one.what;
        match reasons.iter_mut().find(same) {
            Some((_, times)) => *times += 1,
            None => reasons.push((one, 1)),
        }
    }
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let mut text = String::new();
    for (one, times) in reasons.iter().take(SHOWN) {
        let what = match one.what {
            TidySubject::Rc => "Kept",
            TidySubject::Stray => "Kept, a stray",
            TidySubject::CookieCheck => "Cookies are checked further",
            TidySubject::Virtual => "No virtual modulepath",
        };
        let more = match times {
            1 => String::new(),
            times => format!(" and {} more", count(times - 1)),
        };
        let line = format!("{what}: {}{more}: {}", plain(&one.path.to_string_lossy()), one.reason);
        text.push_str(&width::wrap(&plain(&line), columns));
    }
    if reasons.len() > SHOWN {
        let more = reasons.len() - SHOWN;
        text.push_str(&format!("… and {more} more reasons (--json shows all)\n"));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}
