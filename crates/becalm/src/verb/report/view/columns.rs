//! The columns of a report's table: some for all groupings, some for one.

use recording::query::{GroupBy, NameSearch, Programs, QueryRow, QueryTable};
use term::number::{bytes, count, percent, time};
use term::{Cell, Column};

/// A column, and what a row has in it. `None` leaves the cell empty.
struct ReportField {
    column: Column,
    cell: fn(&QueryRow, &QueryTable) -> Option<String>,
}

fn field(column: Column, cell: fn(&QueryRow, &QueryTable) -> Option<String>) -> ReportField {
    ReportField { column, cell }
}

/// The first `rows` rows of a table, the rest of them as one row, and the total.
pub(super) fn table(table: &QueryTable, rows: usize) -> term::Table {
    let fields = fields(table);
    let mut shown = term::Table::new(fields.iter().map(|field| field.column.clone()));
    let cells = |row: &QueryRow| -> Vec<Cell> {
        fields.iter().map(|field| (field.cell)(row, table).unwrap_or_default().into()).collect()
    };
    let (first, rest) = table.rows.split_at(rows.min(table.rows.len()));
    for row in first {
        shown.row(cells(row));
    }
    if !rest.is_empty() {
        shown.row(cells(&sum(rest)));
    }
    shown.total(cells(&table.total));
    shown
}

/// The rows that are not shown, as one. How many different paths they name together is not
/// known, so that cell stays empty.
fn sum(rows: &[QueryRow]) -> QueryRow {
    let mut sum =
        QueryRow { key: format!("({} more)", count(rows.len() as u64)), ..QueryRow::default() };
    for row in rows {
        sum.calls += row.calls;
        sum.errors += row.errors;
        sum.metadata_ops += row.metadata_ops;
        sum.enoent += row.enoent;
        sum.inferred += row.inferred;
        sum.time += row.time;
    }
    sum
}

/// The columns in their order. Those that can be spared are left out from the right.
fn fields(table: &QueryTable) -> Vec<ReportField> {
    let key = field(Column::path(header(table.by)), |row, _| Some(row.key.clone()));
    let ops = field(Column::number("ops"), |row, _| Some(count(row.metadata_ops)));
    let failed = field(Column::number("failed"), |row, _| Some(count(row.enoent)));
    let mut fields = vec![key, ops, failed];
    match table.by {
        GroupBy::Process | GroupBy::Line => fields.extend(of_programs()),
        GroupBy::Library | GroupBy::Module => fields.extend(of_searches()),
        GroupBy::Cause | GroupBy::Prefix | GroupBy::Syscall => fields.extend(of_calls()),
    }
    // Only where something was inferred: an observed table needs no column of zeros.
    if table.total.inferred > 0 {
        fields.push(field(Column::number("inferred").spare(), |row, _| Some(count(row.inferred))));
    }
    fields
}

fn share() -> ReportField {
    field(Column::number("share").spare(), |row, table| {
        Some(percent(row.metadata_ops, table.total.metadata_ops))
    })
}

fn header(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Prefix => "directory",
        GroupBy::Process => "program",
        other => other.name(),
    }
}

fn of_calls() -> Vec<ReportField> {
    vec![
        share(),
        field(Column::number("paths").spare(), |row, _| {
            (row.distinct > 0).then(|| count(row.distinct))
        }),
        field(Column::number("calls").spare(), |row, _| Some(count(row.calls))),
        field(Column::number("errors").spare(), |row, _| Some(count(row.errors))),
        field(Column::number("time").spare(), |row, _| Some(time(row.time))),
    ]
}

fn of_programs() -> Vec<ReportField> {
    vec![
        share(),
        field(Column::number("processes").spare(), |row, _| {
            programs(row, |of| count(of.processes))
        }),
        field(Column::number("user").spare(), |row, _| programs(row, |of| time(of.user))),
        field(Column::number("system").spare(), |row, _| programs(row, |of| time(of.system))),
        field(Column::number("max rss").spare(), |row, _| programs(row, |of| bytes(of.max_rss))),
    ]
}

fn programs(row: &QueryRow, show: fn(&Programs) -> String) -> Option<String> {
    row.programs.as_ref().map(show)
}

fn of_searches() -> Vec<ReportField> {
    vec![
        field(Column::number("searches").spare(), |row, _| search(row, |of| count(of.searches))),
        field(Column::path("found").spare(), |row, _| search(row, found)),
        share(),
        field(Column::number("probes").spare(), |row, _| search(row, |of| count(of.probes))),
    ]
}

fn search(row: &QueryRow, show: fn(&NameSearch) -> String) -> Option<String> {
    row.search.as_ref().map(show)
}

/// Where a search ended most often, and how many other places it ended at.
fn found(search: &NameSearch) -> String {
    match search.found.as_slice() {
        [] if search.not_found > 0 => "nowhere".to_owned(),
        [] => String::new(),
        [only] => only.path.clone(),
        [first, others @ ..] => format!("{} (+{})", first.path, others.len()),
    }
}
