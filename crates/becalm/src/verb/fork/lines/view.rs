//! `becalm fork lines`: which line of a script started what.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::{Micros, Nanos, Recording};
use schemars::JsonSchema;
use script::lines::advice::Advice;
use script::lines::{ScriptLine, ScriptLines, StartedProcess, StartedProgram};
use serde::Serialize;
use term::number::{bytes, count, counted, percent, time};
use term::{Column, Table, plain, style, width};

use super::{critical, tree};

/// Rows of the table, if not all are asked for.
const SCREEN: usize = 10;

/// Where the table's column of locales is: after the loader's.
const LOCALE: usize = 12;

/// Lines of a script that are shown around one that started something.
const AROUND: u32 = 1;

/// What `becalm fork lines` answers: as JSON, docs/schema/becalm.fork.lines.md; as text,
/// [`ForkLines::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForkLines {
    /// `becalm.fork.lines/1`.
    schema: &'static str,
    /// The answer in a sentence.
    headline: String,
    /// The recording's file, as text; none where the command was run.
    pub recording: Option<String>,
    /// Which of many ranks it is about; none where there is one.
    pub rank: Option<u32>,
    /// From the command's start to its end.
    #[serde(rename = "wall_ns")]
    wall: Nanos,
    /// How many processes still run and are not in the account.
    still_running: u64,
    #[serde(flatten)]
    lines: ScriptLines,
    /// The processes, each behind its parent; none where `--processes` was not given.
    pub process_tree: Option<Vec<StartedProcess>>,
}

impl ForkLines {
    /// What a recording's processes say.
    pub fn of(recording: &Recording, lines: ScriptLines, still_running: usize) -> ForkLines {
        let wall = recording.processes.first().and_then(|command| command.end);
        // Of what runs on, as long as it was watched.
        let watched = || recording.summary.as_ref().map_or(Nanos(0), |summary| summary.ended);
        ForkLines {
            schema: "becalm.fork.lines/1",
            headline: headline(&lines),
            recording: None,
            rank: None,
            wall: wall.map_or_else(watched, |end| end.at),
            still_running: still_running as u64,
            lines,
            process_tree: None,
        }
    }

    /// Whether the line that starting cost most is bash's.
    pub fn is_of_bash(&self) -> bool {
        self.lines.lines.first().is_some_and(|line| line.runs == "bash")
    }

    /// The answer as a person reads it, at most `columns` columns wide; `next` is what to do next,
    /// as a command to paste.
    pub fn render(&self, columns: usize, all: bool, next: &str) -> String {
        let mut text = style::headline(&plain(&self.headline), columns);
        text.push_str(&width::wrap(&plain(&self.about()), columns));
        if !self.lines.lines.is_empty() {
            text.push('\n');
            text.push_str(&self.table(all).render(columns));
            self.scripts(all, columns, &mut text);
        }
        if let Some(processes) = &self.process_tree {
            text.push('\n');
            text.push_str(&tree::table(processes, all).render(columns));
        }
        for note in self.notes() {
            text.push('\n');
            text.push_str(&width::wrap(&plain(&note), columns));
        }
        let advice = self.advice();
        if !advice.is_empty() {
            text.push('\n');
            for line in advice {
                text.push_str(&width::wrap(&plain(&line), columns));
            }
        }
        text.push('\n');
        text.push_str(&style::next(next));
        text
    }

    fn about(&self) -> String {
        let phases = &self.lines.phases;
        let parts = [
            ("fork", phases.fork),
            ("setup", phases.setup),
            ("exec", phases.exec),
            ("loader", phases.loader),
            ("locale", phases.locale),
        ];
        let parts = parts.iter().filter(|(_, took)| took.0 > 0);
        let parts: Vec<_> = parts.map(|(name, took)| format!("{name} {}", time(*took))).collect();
        format!(
            "The command took {}. Starting processes took {}{}; their own work then took {}, and they \
             waited {} (asleep, or for input). {}The recorder's stops are in these times.",
            time(self.wall),
            time(phases.start()),
            if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) },
            time(phases.own_work()),
            time(phases.waiting),
            critical::path(self.wall, &self.lines),
        )
    }

    fn table(&self, all: bool) -> Table {
        let mut columns = vec![
            Column::path("line"),
            Column::path("called at").spare(),
            Column::number("processes"),
            Column::path("programs"),
            Column::number("time"),
            Column::number("starting"),
            Column::number("if cured"),
            Column::number("waiting").spare(),
            Column::number("cpu").spare(),
            Column::number("fork").spare(),
            Column::number("exec").spare(),
            Column::number("loader").spare(),
            Column::number("work").spare(),
            Column::number("parent").spare(),
            Column::number("failed").spare(),
        ];
        // Not asked for, or nothing.
        let has_locale = self.lines.phases.locale.0 > 0;
        if has_locale {
            columns.insert(LOCALE, Column::number("locale").spare());
        }
        let mut table = Table::new(columns);
        let rows = if all { usize::MAX } else { SCREEN };
        let (first, rest) = self.lines.lines.split_at(rows.min(self.lines.lines.len()));
        for line in first {
            let mut row = vec![
                place(line),
                called_at(line),
                count(line.processes),
                programs(&line.programs),
                time(line.time),
                time(line.phases.start()),
                critical::cured(self.wall, &self.lines, line),
                time(line.phases.waiting),
                time(Micros(line.user.0.saturating_add(line.system.0))),
                time(line.phases.fork),
                time(line.phases.exec),
                time(line.phases.loader),
                time(line.phases.own_work()),
                bytes(line.parent_rss),
                if line.enoent == 0 { String::new() } else { count(line.enoent) },
            ];
            if has_locale {
                row.insert(LOCALE, time(line.phases.locale));
            }
            table.row(row);
        }
        if !rest.is_empty() {
            let processes = rest.iter().map(|line| line.processes).sum();
            table.row([
                format!("({} more)", count(rest.len() as u64)),
                String::new(),
                count(processes),
                String::new(),
                String::new(),
                time(rest.iter().map(|line| line.phases.start()).sum::<Nanos>()),
            ]);
        }
        table
    }

    /// The scripts with their counts beside them.
    fn scripts(&self, all: bool, columns: usize, text: &mut String) {
        let mut files: BTreeMap<&[u8], Vec<&ScriptLine>> = BTreeMap::new();
        let rows = if all { usize::MAX } else { SCREEN };
        for line in self.lines.lines.iter().take(rows) {
            if let Some(file) = line.raw_file.as_deref() {
                files.entry(file).or_default().push(line);
            }
        }
        for (file, lines) in files {
            let Ok(script) = fs::read(Path::new(std::ffi::OsStr::from_bytes(file))) else {
                continue;
            };
            let script: Vec<&[u8]> = script.split(|byte| *byte == b'\n').collect();
            text.push('\n');
            text.push_str(&style::paint(style::HEADER, &plain(&recording::shown(file))));
            text.push('\n');
            text.push_str(&beside(&script, &lines, all).render_rows(columns));
        }
    }

    fn notes(&self) -> Vec<String> {
        let lines = &self.lines;
        let mut notes = Vec::new();
        if lines.unknown > 0 {
            notes.push(format!(
                "Of {} the line is not known: {} tell{} none to a recorder here. bash, zsh, make and \
                 Perl do, where they export their symbols, and Python{}.",
                counted(lines.unknown, "process", "processes"),
                programs(&lines.silent),
                if lines.silent.len() == 1 { "s" } else { "" },
                if self.recording.is_some() { " under becalm fork lines" } else { "" },
            ));
        }
        notes.extend(critical::large_parent(lines));
        for shim in lines.shims.iter().take(3) {
            let mut through = shim.through.clone();
            through.insert(0, shim.path.clone());
            notes.push(format!(
                "{} hands over to {} (exec): {} a time until then, {}{}{}.",
                through.join(", which runs "),
                shim.runs,
                time(Nanos(shim.time.0 / shim.times.max(1))),
                counted(shim.times, "time", "times"),
                match shim.processes {
                    0 => String::new(),
                    some => format!(", {} on the way", counted(some, "process", "processes")),
                },
                match shim.enoent {
                    0 => String::new(),
                    some => format!(
                        ", {} tried that were not there",
                        counted(some, "program", "programs")
                    ),
                },
            ));
        }
        if self.still_running > 0 {
            notes.push(format!(
                "{} still run and are not in this account.",
                counted(self.still_running, "process", "processes")
            ));
        }
        notes
    }

    fn advice(&self) -> Vec<String> {
        let mut said = BTreeSet::new();
        let mut lines = Vec::new();
        // What ran once is not worth an edit.
        let is_repeated = |line: &ScriptLine, advice: &Advice| {
            let same = line.programs.iter().filter(|program| match &program.name {
                Some(name) => *name == advice.program,
                None => advice.program == "a subshell",
            });
            same.map(|program| program.processes).sum::<u64>() > 1
        };
        for line in self.lines.lines.iter().take(SCREEN) {
            for advice in line.advice.iter().filter(|advice| is_repeated(line, advice)) {
                let at = place(line);
                let text = match (&advice.instead_of, &advice.write) {
                    (Some(of), Some(write)) => format!("{at}: write {write} instead of {of}"),
                    _ if said.insert(advice.text.clone()) => {
                        format!("{at}: for {}, {}", advice.program, advice.text)
                    }
                    _ => continue,
                };
                lines.push(text);
            }
        }
        lines
    }
}

fn headline(lines: &ScriptLines) -> String {
    let all = counted(lines.processes, "process was", "processes were");
    match lines.lines.first() {
        _ if lines.processes == 0 => "The command started no process.".to_owned(),
        None => format!("{all} started, and no line of a script is known of any."),
        Some(line) => format!(
            "{all} started; {} started {} of them ({}), {} of the time that starting took.",
            place(line),
            count(line.processes),
            programs(&line.programs),
            percent(line.phases.start().0, lines.phases.start().0),
        ),
    }
}

/// `unpack.sh:4`, with the function where it is in one.
pub(super) fn place(line: &ScriptLine) -> String {
    let file = match line.file.as_deref() {
        Some(file) => format!("{}:{}", file.rsplit('/').next().unwrap_or(file), line.line),
        None => match (line.option, line.functions.is_empty()) {
            (Some(option), true) => format!("{} {option}, line {}", line.runs, line.line),
            _ => format!("{}, line {}", line.runs, line.line),
        },
    };
    match &line.functions[..] {
        [] => file,
        [function] => format!("{file} {function}()"),
        [function, ..] => format!("{file} {function}()…"),
    }
}

/// `main.sh:3`, and how many more places there are; nothing where nothing called the line.
fn called_at(line: &ScriptLine) -> String {
    let innermost: BTreeSet<&str> =
        line.callers.iter().filter_map(|caller| Some(caller.from.first()?.as_str())).collect();
    let Some(first) = line.called_from.first() else { return String::new() };
    let first = first.rsplit('/').next().unwrap_or(first);
    match innermost.len() {
        0 | 1 => first.to_owned(),
        many => format!("{first} +{}", many - 1),
    }
}

/// `dirname 1,500, a subshell 2`.
fn programs(programs: &[StartedProgram]) -> String {
    let name =
        |program: &StartedProgram| program.name.clone().unwrap_or_else(|| "subshell".to_owned());
    if let [only] = programs {
        return name(only);
    }
    let mut parts: Vec<_> = programs
        .iter()
        .take(3)
        .map(|one| format!("{} {}", count(one.processes), name(one)))
        .collect();
    if programs.len() > 3 {
        parts.push(format!("{} more", programs.len() - 3));
    }
    parts.join(", ")
}

/// A script's lines with what they started beside them; those between are left out.
fn beside(script: &[&[u8]], lines: &[&ScriptLine], all: bool) -> Table {
    let mut table = Table::new([
        Column::number("processes"),
        Column::number("time"),
        Column::number("line"),
        Column::path("script"),
    ]);
    let near = |number: u32| lines.iter().any(|line| line.line.abs_diff(number) <= AROUND);
    let mut left_out = false;
    for (number, text) in (1u32..).zip(script) {
        if !all && !near(number) {
            left_out = true;
            continue;
        }
        if std::mem::take(&mut left_out) {
            table.row(["", "", "", "…"]);
        }
        let here: Vec<_> = lines.iter().filter(|line| line.line == number).collect();
        let text = String::from_utf8_lossy(text).replace('\t', "    ");
        let (processes, took) = match here[..] {
            [] => (String::new(), String::new()),
            _ => (
                count(here.iter().map(|line| line.processes).sum()),
                time(here.iter().map(|line| line.time).sum::<Nanos>()),
            ),
        };
        table.row([processes, took, number.to_string(), text]);
    }
    table
}
