//! `becalm lab aslr verify`: whether ranks have one layout.

use lab::aslr::verify::LayoutVerdict;
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{count, counted};
use term::{Column, Table, plain, style, width};

/// What `becalm lab aslr verify` answers: as JSON, docs/schema/becalm.lab.aslr.verify.md; as text,
/// [`AslrVerified::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AslrVerified {
    /// `becalm.lab.aslr.verify/1`.
    schema: &'static str,
    /// The answer in words.
    headline: String,
    /// Whether it is one layout, and every line could be read.
    one: bool,
    #[serde(flatten)]
    verdict: LayoutVerdict,
}

/// So many layouts are shown.
const SHOWN: usize = 10;

impl From<LayoutVerdict> for AslrVerified {
    fn from(verdict: LayoutVerdict) -> AslrVerified {
        let headline = headline(&verdict);
        AslrVerified {
            schema: "becalm.lab.aslr.verify/1",
            headline,
            one: verdict.is_one(),
            verdict,
        }
    }
}

impl AslrVerified {
    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let LayoutVerdict { groups, differences, moved, .. } = &self.verdict;
        let mut text = style::headline(&plain(&self.headline), columns);
        if groups.is_empty() {
            return text;
        }
        let mut layouts = Table::new([
            Column::text("layout"),
            Column::number("ranks"),
            Column::number("nodes"),
            Column::path("first of them"),
        ]);
        for group in groups.iter().take(SHOWN) {
            let first: Vec<_> = group.first.iter().map(u32::to_string).collect();
            layouts.row([
                group.layout.clone(),
                count(group.ranks as u64),
                count(group.nodes as u64),
                first.join(" "),
            ]);
        }
        text.push_str(&layouts.render(columns));
        if groups.len() > SHOWN {
            text.push_str(&format!("and {} more: --json\n", count((groups.len() - SHOWN) as u64)));
        }
        if groups.len() < 2 {
            return text;
        }
        text.push('\n');
        text.push_str(&width::wrap(&plain(&format!("Elsewhere: {}.", moved.join(", "))), columns));
        let mut table = Table::new([
            Column::text("what differs"),
            Column::path("in the first layout"),
            Column::path("in the second"),
        ]);
        for difference in differences {
            let value = |at: usize| difference.values.get(at).cloned().unwrap_or_default();
            table.row([difference.what.clone(), value(0), value(1)]);
        }
        if self.verdict.randomised {
            let why = "The kernel lays memory out at random in some of them: `becalm run --aslr \
                       job` gives all one layout.";
            text.push_str(&width::wrap(why, columns));
        } else if differences.is_empty() {
            text.push_str("Nothing that is known to move memory differs between them.\n");
        }
        if differences.is_empty() {
            return text;
        }
        text.push('\n');
        text + &table.render(columns)
    }
}

fn headline(verdict: &LayoutVerdict) -> String {
    let unreadable = match verdict.unreadable {
        0 => String::new(),
        cut => format!(" {} cut.", counted(cut as u64, "line is", "lines are")),
    };
    let ranks = count(verdict.ranks as u64);
    match verdict.groups.as_slice() {
        [] => format!("No rank told of its layout.{unreadable}"),
        [_] => format!("One layout: the same in {ranks} of {ranks} ranks.{unreadable}"),
        [most, ..] => format!(
            "{} layouts: {} of {ranks} ranks share the most common one.{unreadable}",
            count(verdict.groups.len() as u64),
            count(most.ranks as u64)
        ),
    }
}
