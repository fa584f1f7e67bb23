//! `becalm lab aslr explain`: why a layout is slow.

use lab::aslr::explain::{LayoutCause, LayoutCount, LayoutCounts, LayoutTrials, RegionTrial};
use recording::Name;
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{count, counted};
use term::{Column, Table, plain, shell_line, style, width};

/// What `becalm lab aslr explain` answers: as JSON, docs/schema/becalm.lab.aslr.explain.md; as text,
/// [`AslrExplained::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AslrExplained {
    /// `becalm.lab.aslr.explain/1`.
    schema: &'static str,
    /// The answer in words.
    headline: String,
    /// What was run.
    command: Vec<Name>,
    /// Which time counts: `CPU` or `wall`.
    by: &'static str,
    #[serde(flatten)]
    trials: LayoutTrials,
    /// What was counted.
    counted: LayoutCounts,
}

/// So many regions are shown.
const SHOWN: usize = 20;

impl AslrExplained {
    /// What trials of a command have shown, timed `by` a clock of this name.
    pub fn of(
        trials: LayoutTrials,
        counted: LayoutCounts,
        command: Vec<Name>,
        by: &'static str,
    ) -> AslrExplained {
        let headline = headline(&trials);
        let schema = "becalm.lab.aslr.explain/1";
        AslrExplained { schema, headline, command, by, trials, counted }
    }

    /// Whether the layout is slow, and it is said by what.
    pub fn names_a_cause(&self) -> bool {
        !matches!(self.trials.cause, LayoutCause::NotSlow | LayoutCause::Unclear)
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let trials = &self.trials;
        let mut text = style::headline(&plain(&self.headline), columns);
        let how = format!(
            "{}; {} took {:.6} s ({} time) from its first instruction, the quickest of each counts.",
            counted(trials.runs, "run", "runs"),
            trials.reference,
            trials.reference_time,
            self.by
        );
        text.push_str(&width::wrap(&plain(&how), columns));
        if !trials.regions.is_empty() {
            text.push('\n');
            text.push_str(&regions(trials).render(columns));
            let hidden = trials.regions.len().saturating_sub(SHOWN);
            if hidden > 0 {
                text.push_str(&format!("and {} more: --json\n", count(hidden as u64)));
            }
            let note = "alone: times the reference with this region alone where the layout has it; \
                        all but it: with all others there. Regions are spread for that, and keep the \
                        lower 32 bits of their addresses.";
            text.push_str(&width::wrap(note, columns));
        }
        text.push('\n');
        text.push_str(&counts(trials, &self.counted).render(columns));
        for refused in &self.counted.refused {
            let line = format!("Not counted: {}: {}.", refused.names.join(", "), refused.why);
            text.push_str(&width::wrap(&plain(&line), columns));
        }
        if trials.cause == LayoutCause::NotSlow {
            return text;
        }
        let command = shell_line(&self.command);
        text + &style::next(&format!("becalm run --aslr {} -- {command}", trials.reference))
    }
}

fn headline(trials: &LayoutTrials) -> String {
    let LayoutTrials { layout, reference, times_reference: ratio, .. } = trials;
    let matter: Vec<_> = trials.regions.iter().filter(|region| region.matters).collect();
    let names = |word| {
        let names: Vec<_> = matter.iter().map(|region| region.name.as_str()).collect();
        names.join(word)
    };
    let slow = format!("{layout} takes {ratio:.2} times what {reference} does");
    match trials.cause {
        LayoutCause::NotSlow => format!("{layout} is not slow: {ratio:.2} times {reference}."),
        LayoutCause::Alone if matter.len() == 1 => {
            format!("{slow}, because of where one region lies: {}.", names(""))
        }
        LayoutCause::Alone => {
            format!("{slow}; any of these regions makes it so, alone: {}.", names(", "))
        }
        LayoutCause::Together => {
            format!("{slow}, because of where regions lie together: {}.", names(" and "))
        }
        LayoutCause::Distance => format!(
            "{slow}, but not with its regions further from each other: a distance between them is \
             the cause, or a bit of an address above the 32nd."
        ),
        LayoutCause::Unclear => format!("{slow}; no region is found that it takes."),
    }
}

fn regions(trials: &LayoutTrials) -> Table {
    let mut table = Table::new([
        Column::path("region"),
        Column::number(&trials.reference),
        Column::number(&trials.layout),
        Column::number("alone"),
        Column::number("all but it"),
    ]);
    // Those that matter first, each group as it was loaded.
    let mut sorted: Vec<&RegionTrial> = trials.regions.iter().collect();
    sorted.sort_by_key(|region| !region.matters);
    for region in sorted.into_iter().take(SHOWN) {
        let address = |at: Option<u64>| at.map_or_else(String::new, |at| format!("{at:#x}"));
        table.row([
            region.name.clone(),
            address(region.reference_at),
            address(region.layout_at),
            format!("{:.2}", region.alone),
            format!("{:.2}", region.all_but),
        ]);
    }
    table
}

fn counts(trials: &LayoutTrials, counted: &LayoutCounts) -> Table {
    let mut table = Table::new([
        Column::path("counted"),
        Column::number(&trials.reference),
        Column::number(&trials.layout),
        Column::number("x"),
    ]);
    for LayoutCount { name, reference, layout } in &counted.counts {
        let ratio = match *reference {
            0.0 => String::new(),
            reference => format!("{:.2}", layout / reference),
        };
        let shown = |number: f64| count(number.round() as u64);
        table.row([name.clone(), shown(*reference), shown(*layout), ratio]);
    }
    table
}
