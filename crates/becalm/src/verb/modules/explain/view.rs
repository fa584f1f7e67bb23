//! `becalm modules explain`: what the calls of one command were for, on one screen.

use std::path::PathBuf;

use launch::Ended;
use modules::explain::{CallPurpose, ExplainedCommand, PurposeCalls};
use modules::site::ModulesSite;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted, percent};
use term::{Column, Table, plain, shell_line, style, width};

/// What `becalm modules explain` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesExplain {
    /// `becalm.modules.explain/1`.
    schema: &'static str,
    /// As it is typed: `module load gcc`.
    command: String,
    /// The release of the site's Modules.
    release: String,
    /// As whom it was run; null: as whoever asked.
    user: Option<String>,
    #[serde(flatten)]
    explained: ExplainedCommand,
    /// What would make it cheaper, one sentence each; a command to type may be in it.
    cheaper: Vec<String>,
    /// What to type next.
    next: String,
}

impl ModulesExplain {
    /// The answer for a command.
    pub fn of(
        words: &[String],
        site: &ModulesSite,
        user: Option<String>,
        explained: ExplainedCommand,
        modulepaths: &[PathBuf],
    ) -> ModulesExplain {
        let paths = shell_line(modulepaths);
        let walks = explained.purposes.iter().any(|sum| sum.purpose == CallPurpose::Cookies);
        let verb = if walks { "calm" } else { "status" };
        ModulesExplain {
            schema: "becalm.modules.explain/1",
            command: format!("module {}", shell_line(words)),
            release: site.release.text().to_owned(),
            user,
            cheaper: cheaper(&explained, walks),
            explained,
            next: format!("becalm modules {verb} {paths}"),
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let mut text = style::headline(&plain(&self.headline()), columns);
        text.push('\n');
        text.push_str(&self.table().render(columns));
        if let Some(why) = self.failure() {
            let line = width::wrap(&format!("! {}", plain(&why)), columns);
            text.push_str(&format!("{}\n", style::paint(style::WARNING, line.trim_end())));
        }
        text.push('\n');
        for sentence in &self.cheaper {
            text.push_str(&width::wrap(sentence, columns));
        }
        text.push('\n');
        text.push_str(&style::next(&self.next));
        text
    }

    fn headline(&self) -> String {
        let all = self.explained.calls;
        let whose = self.user.as_deref().map(|user| format!(" as {user}")).unwrap_or_default();
        let before = sum(&self.explained, CallPurpose::is_start);
        format!(
            "{} made {}{whose}: {} before it came to a modulepath (Modules {}).",
            self.command,
            counted(all, "call", "calls"),
            percent(before, all),
            self.release,
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("what for"),
            Column::number("calls"),
            Column::number("share"),
            Column::number("ops").spare(),
            Column::number("paths"),
            Column::path("such as").spare(),
        ]);
        for sum in &self.explained.purposes {
            table.row([
                sum.purpose.words().to_owned(),
                count(sum.calls),
                percent(sum.calls, self.explained.calls),
                count(sum.metadata_ops),
                count(sum.paths),
                sum.example.as_ref().map(ToString::to_string).unwrap_or_default(),
            ]);
        }
        table
    }

    fn failure(&self) -> Option<String> {
        match (self.explained.ended, &self.explained.complaint) {
            (_, Some(said)) => Some(said.clone()),
            (Ended::Exited(0), None) => None,
            (Ended::Exited(status), None) => Some(format!("it ended with status {status}")),
            (Ended::Signaled(signal), None) => Some(format!("it was killed by signal {signal}")),
        }
    }
}

fn sum(explained: &ExplainedCommand, of: impl Fn(CallPurpose) -> bool) -> u64 {
    explained.purposes.iter().filter(|sum| of(sum.purpose)).map(|sum| sum.calls).sum()
}

/// What would spare which calls. What nothing of becalm's spares is said, too.
fn cheaper(explained: &ExplainedCommand, walks: bool) -> Vec<String> {
    let start = sum(explained, CallPurpose::is_start);
    let walk = sum(explained, CallPurpose::is_walk);
    let mut sentences = Vec::new();
    if walks {
        sentences.push(format!(
            "An index answers avail without Tcl's start ({} calls) and looks once at each \
             directory, rc file and modulefile in place of {} calls there: becalm modules calm \
             plans it.",
            count(start),
            count(walk)
        ));
    } else {
        sentences.push(format!(
            "The start ({} calls) is the same for every module command: one command with several \
             names, 'module load a b c', makes it once.",
            count(start)
        ));
    }
    let of = |wanted| explained.purposes.iter().find(|sum| sum.purpose == wanted);
    let by = |sum: &PurposeCalls| (count(sum.calls), counted(sum.paths, "file", "files"));
    if let Some((calls, files)) = of(CallPurpose::Siblings).map(by) {
        sentences.push(format!(
            "Siblings: {files}, {calls} calls. Modules before 5.6 reads every version beside the \
             one that is meant: versions that nobody loads belong into a modulepath of their own."
        ));
    }
    if let Some((calls, files)) = of(CallPurpose::RcFiles).map(by).filter(|_| !walks) {
        sentences.push(format!(
            "rc files: {files}, {calls} calls. becalm modules calm merges those that make no load \
             dearer."
        ));
    }
    if let Some((calls, _)) = of(CallPurpose::Caches).map(by) {
        sentences.push(format!(
            "A cache, there or not, took {calls} calls; load reads all of it, unless the site sets \
             ignore_cache_subcmds (5.7)."
        ));
    }
    sentences
}
