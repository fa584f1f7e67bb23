//! `becalm lab fork collapse`: what huge pages brought a running process.

use lab::collapse::{CollapseCaller, Collapsed, Memory};
use recording::{ByteUnits, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{bytes, count, time};
use term::{Column, Table, plain, style, width};

/// What `becalm lab fork collapse` answers: as JSON, docs/schema/becalm.lab.fork.collapse.md.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForkCollapse {
    /// `becalm.lab.fork.collapse/1`.
    schema: &'static str,
    /// The answer in words.
    headline: String,
    #[serde(flatten)]
    collapsed: Collapsed,
    #[serde(flatten)]
    untimed: Untimed,
}

/// Fields of the schema that say what becalm does not do: to be timed, a fork of the process
/// would have to be made by it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
struct Untimed {
    /// A fork of the process is not timed: it would have to be made.
    times: Option<f64>,
    /// Empty: no fork of it is made.
    fork_before_ns: [u64; 0],
    /// Empty.
    fork_after_ns: [u64; 0],
}

impl ForkCollapse {
    /// The answer.
    pub fn of(collapsed: Collapsed) -> ForkCollapse {
        let headline = headline(&collapsed);
        let schema = "becalm.lab.fork.collapse/1";
        ForkCollapse { schema, headline, collapsed, untimed: Untimed::default() }
    }

    /// Whether more of the process is in huge pages than before.
    pub fn has_gained(&self) -> bool {
        self.collapsed.after.huge_bytes > self.collapsed.before.huge_bytes
    }

    /// What must be known before believing the answer, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let collapsed = &self.collapsed;
        let mut lines = Vec::new();
        if collapsed.cut_short {
            lines.push("cut short by a signal: run it again for the rest".to_owned());
        }
        if let Some(why) = &collapsed.refused_why {
            lines.push(format!(
                "{} could not be put into huge pages; the kernel's last reason: {why}",
                bytes(ByteUnits(collapsed.refused_bytes))
            ));
        }
        lines
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let collapsed = &self.collapsed;
        let mut text = style::headline(&plain(&self.headline), columns);
        let mut table =
            Table::new([Column::text(""), Column::number("before"), Column::number("after")]);
        let mut row = |what: &str, of: &dyn Fn(&Memory) -> u64| {
            let size = |memory| bytes(ByteUnits(of(memory)));
            table.row([what.to_owned(), size(&collapsed.before), size(&collapsed.after)]);
        };
        row("anonymous memory", &|memory| memory.anonymous_bytes);
        row("  in huge pages", &|memory| memory.huge_bytes);
        row("resident", &|memory| memory.resident_bytes);
        table.row([
            "entries that a fork copies".to_owned(),
            count(collapsed.before.fork_entries),
            count(collapsed.after.fork_entries),
        ]);
        text.push('\n');
        text.push_str(&table.render(columns));
        let cost = format!(
            "It took {}, in which the process ran{}. What it allocates from now on is in small \
             pages again.",
            time(Nanos(collapsed.took_ns)),
            match collapsed.by {
                CollapseCaller::Becalm => String::new(),
                CollapseCaller::Thread => format!(
                    ", but for one thread that was lent for {}",
                    time(Nanos(collapsed.stopped_ns))
                ),
            },
        );
        text.push('\n');
        text + &width::wrap(&cost, columns)
    }
}

fn headline(collapsed: &Collapsed) -> String {
    let who = format!("Process {} ({})", collapsed.pid, collapsed.name);
    let (before, after) = (&collapsed.before, &collapsed.after);
    match after.huge_bytes.saturating_sub(before.huge_bytes) {
        0 => format!("{who} has no more memory in huge pages than before."),
        more => format!(
            "{who} has {} more in huge pages: a fork copies {} page table entries instead of {}.",
            bytes(ByteUnits(more)),
            count(after.fork_entries),
            count(before.fork_entries)
        ),
    }
}
