//! `becalm fork collapse`: what huge pages brought a running process.

use fork::collapse::{Collapsed, Memory};
use recording::{Bytes, Nanos};
use serde::Serialize;

use crate::number::{bytes, time};
use crate::{Column, Table, plain, style, width};

/// What `becalm fork collapse` answers: as JSON, docs/schema/becalm.fork.collapse.md.
#[derive(Clone, Debug, Serialize)]
pub struct ForkCollapse {
    schema: &'static str,
    headline: String,
    /// How many times less a fork takes; none where it could not be timed.
    times: Option<f64>,
    #[serde(flatten)]
    collapsed: Collapsed,
}

impl ForkCollapse {
    /// The answer.
    pub fn of(collapsed: Collapsed) -> ForkCollapse {
        let times = fork(&collapsed.fork_before_ns)
            .zip(fork(&collapsed.fork_after_ns))
            .map(|(before, after)| before.0 as f64 / after.0.max(1) as f64);
        let headline = headline(&collapsed, times);
        ForkCollapse { schema: "becalm.fork.collapse/1", headline, times, collapsed }
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
                bytes(Bytes(collapsed.refused_bytes))
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
            let size = |memory| bytes(Bytes(of(memory)));
            table.row([what.to_owned(), size(&collapsed.before), size(&collapsed.after)]);
        };
        row("anonymous memory", &|memory| memory.anonymous_bytes);
        row("  in huge pages", &|memory| memory.huge_bytes);
        row("resident", &|memory| memory.resident_bytes);
        let fork = |times: &[u64]| fork(times).map_or_else(|| "not timed".to_owned(), time);
        table.row([
            "a fork of it".to_owned(),
            fork(&collapsed.fork_before_ns),
            fork(&collapsed.fork_after_ns),
        ]);
        text.push('\n');
        text.push_str(&table.render(columns));
        let cost = format!(
            "It took {}, in which the process ran; one of its threads was stopped for {}. What it \
             allocates from now on is in small pages again.",
            time(Nanos(collapsed.took_ns)),
            time(Nanos(collapsed.stopped_ns))
        );
        text.push('\n');
        text + &width::wrap(&cost, columns)
    }
}

/// The median of forks.
fn fork(times: &[u64]) -> Option<Nanos> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().map(Nanos)
}

fn headline(collapsed: &Collapsed, times: Option<f64>) -> String {
    let who = format!("Process {} ({})", collapsed.pid, collapsed.name);
    let more = collapsed.after.huge_bytes.saturating_sub(collapsed.before.huge_bytes);
    let forks = fork(&collapsed.fork_before_ns).zip(fork(&collapsed.fork_after_ns));
    match (more, forks, times) {
        (0, _, _) => format!("{who} has no more memory in huge pages than before."),
        (_, Some((before, after)), Some(times)) if times >= 1.1 => format!(
            "{who} forks in {} instead of {} ({times:.1} times faster): {} more are in huge pages.",
            time(after),
            time(before),
            bytes(Bytes(more))
        ),
        (_, Some((before, after)), _) => format!(
            "{who} has {} more in huge pages, but forks no faster: {} before, {} after.",
            bytes(Bytes(more)),
            time(before),
            time(after)
        ),
        _ => format!("{who} has {} more in huge pages.", bytes(Bytes(more))),
    }
}
