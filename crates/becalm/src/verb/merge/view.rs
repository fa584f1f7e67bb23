//! `becalm merge`: which ranks are in the new file.

use std::path::{Path, PathBuf};

use recording::{RankedRecordings, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::counted;
use term::{plain, quoted_path, style};

use crate::verb::report::view::ranks::{absent, nodes_of, numbers};

/// What `becalm merge` answers: as JSON, docs/schema/becalm.merge.md; as text,
/// [`MergedRecordings::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MergedRecordings {
    /// `becalm.merge/1`.
    pub schema: &'static str,
    /// The file that was written.
    pub recording: String,
    /// What it was made of.
    pub files: Vec<String>,
    /// The launcher and its number for the run.
    pub run: String,
    /// How many ranks the run had, where the launcher says so.
    pub size: Option<u32>,
    /// The nodes.
    pub nodes: Vec<String>,
    /// The ranks that are in the new file.
    pub ranks: Vec<u32>,
    /// The ranks of the run that are in none of the files.
    pub absent: Vec<u32>,
    /// Whether every file had its end.
    pub whole: bool,
    #[serde(skip)]
    target: PathBuf,
    #[serde(skip)]
    only: bool,
}

impl MergedRecordings {
    /// What was joined from `files` to `target`; one rank only, if `only` says so.
    pub fn of(
        target: &Path,
        files: &[PathBuf],
        only: Option<u32>,
        joined: &RankedRecordings,
    ) -> MergedRecordings {
        let first = joined.members.first().map(|member| member.rank.clone()).unwrap_or_default();
        let there: Vec<u32> = joined.members.iter().map(|member| member.rank.rank).collect();
        let taken = joined.members.iter().filter(|it| only.is_none_or(|only| it.rank.rank == only));
        MergedRecordings {
            schema: "becalm.merge/1",
            recording: shown_name(target),
            files: files.iter().map(shown_name).collect(),
            run: first.run,
            size: first.size,
            nodes: nodes_of(taken.clone()).into_iter().map(|(node, _)| node).collect(),
            ranks: taken.map(|member| member.rank.rank).collect(),
            absent: absent(&there, first.size),
            whole: joined.whole,
            target: target.to_owned(),
            only: only.is_some(),
        }
    }

    /// What a reader must be told before relying on the file.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.absent.is_empty() {
            lines.push(format!("no recording of {}", numbers(&self.absent)));
        }
        if !self.whole {
            lines.push("a file was cut: it has no end, and ranks may be missing".to_owned());
        }
        lines
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let ranks = match (self.ranks.as_slice(), self.only) {
            ([rank], true) => format!("Rank {rank}"),
            (ranks, _) => match self.size {
                Some(size) => format!("{} of {size} ranks", ranks.len()),
                None => counted(ranks.len() as u64, "rank", "ranks"),
            },
        };
        let nodes = counted(self.nodes.len() as u64, "node", "nodes");
        let text = format!("{}: {ranks} of {}, {nodes}", plain(&self.recording), self.run);
        style::headline(&plain(&text), columns) + &style::next(&self.next())
    }

    fn next(&self) -> String {
        format!("becalm report {}", quoted_path(&self.target))
    }
}
