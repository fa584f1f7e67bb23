//! `becalm fork lines --processes`: the processes as the tree that they are.

use script::lines::StartedProcess;
use term::number::{count, time};
use term::{Column, Table};

/// Rows, if not all are asked for.
const ROWS: usize = 40;

/// A row a process, below and further right than its parent.
pub fn table(processes: &[StartedProcess], all: bool) -> Table {
    let mut table = Table::new([
        Column::path("process"),
        Column::path("line"),
        Column::number("lived"),
        Column::number("starting"),
        Column::number("own work"),
        Column::number("waiting"),
        Column::number("fork").spare(),
        Column::number("setup").spare(),
        Column::number("exec").spare(),
        Column::number("loader").spare(),
        Column::number("pid").spare(),
    ]);
    let rows = if all { usize::MAX } else { ROWS };
    for process in processes.iter().take(rows) {
        let name = process.program.as_deref().unwrap_or("subshell");
        let line = process.line.as_deref().unwrap_or_default();
        table.row([
            format!("{}{name}", "  ".repeat(process.depth as usize)),
            line.rsplit('/').next().unwrap_or(line).to_owned(),
            time(process.lived),
            time(process.phases.start()),
            time(process.phases.own_work()),
            time(process.phases.waiting),
            time(process.phases.fork),
            time(process.phases.setup),
            time(process.phases.exec),
            time(process.phases.loader),
            process.pid.to_string(),
        ]);
    }
    if processes.len() > rows {
        table.row([format!("({} more: --all)", count((processes.len() - rows) as u64))]);
    }
    table
}
