//! `becalm python scan`: the metadata operations of imports, on one screen.

use std::path::Path;

use explain::{RunWarning, WarningKind};
use python::{Import, ImportCounts, ImportScan, Nesting};
use recording::{Micros, Name, Recording, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{self, count, counted, percent};
use term::{Column, Table, plain, style, width};

/// What `becalm python scan` answers: as JSON, docs/schema/becalm.python.scan.md; as text,
/// [`PythonScan::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PythonScan {
    /// `becalm.python.scan/1`.
    pub schema: &'static str,
    /// The recording's file, as text; none where the command was run.
    pub recording: Option<String>,
    /// Which of many ranks it is about; none where there is one.
    pub rank: Option<u32>,
    /// The command.
    pub command: Vec<Name>,
    /// The machine.
    pub host: String,
    /// Its kernel's release.
    pub kernel: String,
    /// Whether the recording shows all of the run.
    pub whole: bool,
    /// What should be known before the numbers are believed.
    pub warnings: Vec<RunWarning>,
    /// Why there are no times beside the imports, where they were wanted.
    pub no_times: Option<String>,
    /// The operations.
    #[serde(flatten)]
    pub scan: ImportScan,
}

/// How many rows of each table fit one screen.
struct RowLimits {
    packages: usize,
    modules: usize,
    reasons: usize,
    entries: usize,
    troubles: usize,
}

const SCREEN: RowLimits =
    RowLimits { packages: 6, modules: 6, reasons: 8, entries: 5, troubles: 4 };
const ALL: RowLimits = RowLimits {
    packages: usize::MAX,
    modules: usize::MAX,
    reasons: usize::MAX,
    entries: usize::MAX,
    troubles: usize::MAX,
};

impl PythonScan {
    /// The scan of a recording, which is kept in a file or not. So many processes of the command that was
    /// recorded still run.
    pub fn of(
        recording: &Recording,
        file: Option<&Path>,
        scan: ImportScan,
        still_running: usize,
    ) -> PythonScan {
        let header = &recording.header;
        PythonScan {
            schema: "becalm.python.scan/1",
            recording: file.map(shown_name),
            rank: None,
            command: header.command(),
            host: header.host.clone(),
            kernel: header.kernel.clone(),
            whole: recording.is_whole(),
            warnings: explain::warnings_of_run(recording, still_running as u64),
            no_times: None,
            scan,
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide: the headline, what must
    /// be known first, imports, reasons, `sys.path`, troubles. `all` shows every row. `next` is
    /// what to do next, as a command to paste.
    pub fn render(&self, columns: usize, all: bool, next: &str) -> String {
        let room = if all { ALL } else { SCREEN };
        let mut text = style::headline(&plain(&self.headline()), columns);
        for warning in self.cautions() {
            let line = width::wrap(&format!("! {}", plain(&warning)), columns);
            text.push_str(&style::paint(style::WARNING, line.trim_end()));
            text.push('\n');
        }
        if self.scan.imports.metadata_ops == 0 {
            text.push_str(&style::next(next));
            return text;
        }
        let tables = [
            self.packages(&room),
            self.modules(&room, all),
            self.reasons(&room),
            self.entries(&room),
        ];
        for table in tables {
            text.push('\n');
            text.push_str(&table.render(columns));
        }
        text.push('\n');
        text.push_str(&self.slope(columns));
        for trouble in self.scan.troubles.iter().take(room.troubles) {
            let line = format!("→ {}", plain(&trouble.text));
            text.push_str(&width::wrap(&line, columns));
        }
        text.push_str(&style::next(next));
        text
    }

    fn headline(&self) -> String {
        let scan = &self.scan;
        let modules = scan.modules.iter().filter(|import| import.times > 0).count() as u64;
        let is_cut = self.warnings.iter().any(|warning| warning.kind == WarningKind::Cut);
        if scan.pythons.is_empty() && is_cut {
            return "Whether Python ran is not known: in what there is of the recording, none did."
                .to_owned();
        }
        if scan.pythons.is_empty() {
            return "No Python ran.".to_owned();
        }
        format!(
            "{} made {} of {} metadata operations ({}), on {}; of these {} failed.",
            counted(modules, "import", "imports"),
            count(scan.imports.metadata_ops),
            count(scan.all.metadata_ops),
            percent(scan.imports.metadata_ops, scan.all.metadata_ops),
            counted(scan.imports.distinct, "path", "different paths"),
            count(scan.imports.enoent),
        )
    }

    /// What must be known before the numbers are believed.
    fn cautions(&self) -> Vec<String> {
        let silent = self.scan.pythons.iter().filter(|python| !python.exact).count() as u64;
        let nesting = match self.scan.nesting {
            _ if self.scan.pythons.is_empty() => None,
            Nesting::Exact => None,
            Nesting::Mixed => Some(format!(
                "{} did not run the marker hook: there, the module of an operation is inferred from \
                 its path",
                counted(silent, "Python", "Pythons")
            )),
            Nesting::ByPath => Some(
                "the import of each operation is inferred from its path: no marker hook ran \
                 (-I, -E, -S, an old recording, or --no-hook)"
                    .to_owned(),
            ),
        };
        let warnings = self.warnings.iter().map(|warning| warning.text.clone());
        nesting.into_iter().chain(warnings).chain(self.no_times.clone()).collect()
    }

    fn packages(&self, room: &RowLimits) -> Table {
        let mut table = Table::new(
            [Column::path("package"), Column::number("modules")]
                .into_iter()
                .chain(columns_of_counts()),
        );
        for package in self.scan.packages.iter().take(room.packages) {
            let cells = [package.package.clone(), count(package.modules)];
            table.row(cells.into_iter().chain(cells_of(&package.counts)));
        }
        let cells = ["all imports".to_owned(), String::new()];
        table.total(cells.into_iter().chain(cells_of(&self.scan.imports)));
        table
    }

    /// The modules with the most operations; all of them, as a tree.
    fn modules(&self, room: &RowLimits, all: bool) -> Table {
        let has_times = self.scan.modules.iter().any(|import| import.time.is_some());
        let mut columns = vec![
            Column::path("import"),
            Column::number("ops"),
            Column::number("failed"),
            Column::number("with nested"),
        ];
        if has_times {
            columns.extend([Column::number("time"), Column::number("with nested")]);
        }
        columns.push(Column::path("imported by").spare());
        let mut table = Table::new(columns);
        let mut imports: Vec<&Import> = self.scan.modules.iter().collect();
        if !all {
            imports.retain(|import| import.own.metadata_ops > 0);
            imports.sort_by_key(|import| std::cmp::Reverse(import.own.metadata_ops));
        }
        let time = |time: Option<Micros>| time.map(number::time).unwrap_or_default();
        for import in imports.into_iter().take(room.modules) {
            let indent =
                if all { "  ".repeat(import.depth.min(20) as usize) } else { String::new() };
            let mut cells = vec![
                format!("{indent}{}", import.module),
                count(import.own.metadata_ops),
                count(import.own.enoent),
                count(import.cumulative.metadata_ops),
            ];
            if has_times {
                cells.push(time(import.time.map(|time| time.own)));
                cells.push(time(import.time.map(|time| time.cumulative)));
            }
            let parent = import.parent.and_then(|parent| self.scan.modules.get(parent));
            cells.push(parent.map(|parent| parent.module.clone()).unwrap_or_default());
            table.row(cells);
        }
        table
    }

    fn reasons(&self, room: &RowLimits) -> Table {
        let mut table = Table::new([Column::path("reason")].into_iter().chain(columns_of_counts()));
        for by in self.scan.reasons.iter().take(room.reasons) {
            let name = by.reason.name().to_owned();
            table.row([name].into_iter().chain(cells_of(&by.counts)));
        }
        table
    }

    fn entries(&self, room: &RowLimits) -> Table {
        let mut table = Table::new(
            [Column::path("sys.path")]
                .into_iter()
                .chain(columns_of_counts())
                .chain([Column::number("itself"), Column::number("found").spare()]),
        );
        let mut entries: Vec<_> = self.scan.sys_path.iter().collect();
        if room.entries < entries.len() {
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.counts.metadata_ops));
        }
        for entry in entries.into_iter().take(room.entries) {
            let cells = [entry.path.clone()].into_iter().chain(cells_of(&entry.counts));
            table.row(cells.chain([count(entry.itself), count(entry.found)]));
        }
        table
    }

    fn slope(&self, columns: usize) -> String {
        let Some(slope) = self.scan.slope else { return String::new() };
        let each = slope.metadata_ops_per_entry;
        let text = match slope.of_pythonpath {
            true => format!(
                "{} costs {each:.0} metadata operations by itself, found or not; one more costs as many.",
                match slope.entries {
                    1 => "PYTHONPATH's only entry".to_owned(),
                    some => format!("Each of PYTHONPATH's {} entries", count(some)),
                }
            ),
            false => format!(
                "An entry on PYTHONPATH would cost some {each:.0} metadata operations by itself, \
                 found or not."
            ),
        };
        width::wrap(&text, columns)
    }
}

fn columns_of_counts() -> [Column; 3] {
    [Column::number("ops"), Column::number("failed"), Column::number("distinct")]
}

fn cells_of(counts: &ImportCounts) -> [String; 3] {
    [count(counts.metadata_ops), count(counts.enoent), count(counts.distinct)]
}
