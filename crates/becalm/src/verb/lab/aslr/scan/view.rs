//! `becalm lab aslr scan`: which layouts are slow.

use lab::aslr::scan::LayoutScan;
use recording::Name;
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{count, counted};
use term::{Column, Table, plain, shell_line, style, width};

/// What `becalm lab aslr scan` answers: as JSON, docs/schema/becalm.lab.aslr.scan.md; as text,
/// [`AslrScan::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AslrScan {
    /// `becalm.lab.aslr.scan/1`.
    schema: &'static str,
    /// The answer in words.
    headline: String,
    /// What was run.
    command: Vec<Name>,
    /// Which time counts: `CPU` or `wall`.
    by: &'static str,
    #[serde(flatten)]
    scan: LayoutScan,
}

/// So many slow layouts are shown.
const SHOWN: usize = 20;

impl AslrScan {
    /// What a walk found for a command, timed `by` a clock of this name.
    pub fn of(scan: LayoutScan, command: Vec<Name>, by: &'static str) -> AslrScan {
        let headline = headline(&scan);
        AslrScan { schema: "becalm.lab.aslr.scan/1", headline, command, by, scan }
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let scan = &self.scan;
        let mut text = style::headline(&plain(&self.headline), columns);
        let how = format!(
            "{}; the reference, {}, took {:.6} s ({} time), and half of its runs were within \
             {:.1} % of that; a run took {:.2} ms beside. {} slow once, and not again.",
            counted(scan.runs, "run", "runs"),
            scan.reference,
            scan.reference_time,
            self.by,
            scan.noise * 100.0,
            scan.beside * 1e3,
            counted(scan.passing, "layout was", "layouts were")
        );
        text.push_str(&width::wrap(&plain(&how), columns));
        let Some(worst) = scan.slow.first() else { return text };
        let mut table = Table::new([
            Column::path("layout"),
            Column::number("x reference"),
            Column::number("s"),
        ]);
        for slow in scan.slow.iter().take(SHOWN) {
            let ratio = format!("{:.2}", slow.times_reference);
            table.row([slow.layout.clone(), ratio, format!("{:.6}", slow.first)]);
        }
        text.push('\n');
        text.push_str(&table.render(columns));
        if scan.slow.len() > SHOWN {
            text.push_str(&format!(
                "and {} more: --json\n",
                count((scan.slow.len() - SHOWN) as u64)
            ));
        }
        let command = shell_line(&self.command);
        let from = match scan.reference.as_str() {
            "layout:0x0" => String::new(),
            other => format!("--from {other} "),
        };
        let by = if self.by == "wall" { "--by wall " } else { "" };
        let next = format!("becalm lab aslr explain {} {from}{by}-- {command}", worst.layout);
        text + &style::next(&next)
    }
}

fn headline(scan: &LayoutScan) -> String {
    let over = format!("{:.0} % slower than the reference", scan.threshold * 100.0);
    match scan.slow.len() {
        0 => format!("None of {} layouts is {over}.", count(scan.layouts)),
        1 => format!("1 of {} layouts is over {over}.", count(scan.layouts)),
        slow => {
            format!("{} of {} layouts are over {over}.", count(slow as u64), count(scan.layouts))
        }
    }
}
