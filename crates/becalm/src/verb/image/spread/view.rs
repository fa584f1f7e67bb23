//! `becalm image spread`: what was brought where, by what, and how long it took.

use std::path::Path;
use std::time::{Duration, Instant};

use image::hot::HotPart;
use recording::{ByteUnits, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{bytes, counted, percent, time};
use term::{plain, quoted_path, style};

use super::brought::{NodeWithout, Nodes};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "as the verb is called, so is what it does")]
pub enum Spread {
    /// It was brought to the nodes.
    Spread,
    /// It was there.
    There,
    /// This node took it from standard input.
    Received,
    /// It was removed.
    Removed,
}

/// A means that was tried, and failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FailedMeans {
    /// Its name, as `by` has it.
    by: &'static str,
    /// What it said.
    why: String,
}

/// What `becalm image spread` answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SpreadOutcome {
    /// `becalm.image.spread/1`.
    schema: &'static str,
    /// What was done: `spread`, `there` (nothing was to be done), `received` or `removed`.
    did: Spread,
    /// The image's file, as it was given; `-` where a hot part came through standard input, none
    /// where it was removed.
    image: Option<String>,
    /// The same, as it is to be typed.
    #[serde(skip)]
    typed: Option<String>,
    /// Bytes of that file.
    image_bytes: u64,
    /// Bytes of it that a start reads, and that are in the hot part.
    bytes: u64,
    /// The hot part's digest: SHA-256, in hexadecimal.
    digest: Option<String>,
    /// The hot part's file on a node.
    file: Option<String>,
    /// What brought it: `sbcast`, `srun`, `mpirun` or `here`; none where nothing did.
    by: Option<&'static str>,
    /// How many nodes have it, or have it no more; none where nobody says.
    nodes: Option<u32>,
    /// How many files were removed, of all nodes; 0 where nothing was there.
    removed: u64,
    /// Nodes without it.
    without: Vec<NodeWithout>,
    /// What was tried before, and failed.
    failed: Vec<FailedMeans>,
    /// How long it took, in seconds.
    seconds: f64,
}

impl SpreadOutcome {
    /// Of a hot part that is here.
    pub fn of(did: Spread, image: &Path, part: &HotPart, begun: Instant) -> SpreadOutcome {
        let is_there = did == Spread::There;
        let mut outcome = SpreadOutcome {
            did,
            image: Some(shown_name(image)),
            typed: Some(quoted_path(image)),
            image_bytes: part.image_bytes(),
            bytes: part.bytes(),
            digest: Some(part.digest().to_owned()),
            file: is_there.then(|| shown_name(part.path())),
            nodes: job::nodes().filter(|_| is_there),
            ..SpreadOutcome::empty()
        };
        outcome.ended(begun);
        outcome
    }

    /// Of none.
    pub fn empty() -> SpreadOutcome {
        SpreadOutcome {
            schema: "becalm.image.spread/1",
            did: Spread::Removed,
            image: None,
            typed: None,
            image_bytes: 0,
            bytes: 0,
            digest: None,
            file: None,
            by: None,
            nodes: None,
            removed: 0,
            without: Vec::new(),
            failed: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Where it is on this node.
    pub fn at(&mut self, file: &Path) {
        self.file = Some(shown_name(file));
    }

    /// It was brought to nodes.
    pub fn brought(&mut self, by: &'static str, nodes: Nodes) {
        self.by = Some(by);
        self.nodes = nodes.with;
        self.without = nodes.without;
        self.removed += nodes.removed;
    }

    /// Files were removed here.
    pub fn removed(&mut self, files: u64) {
        self.removed += files;
    }

    /// Something was tried in vain.
    pub fn failed(&mut self, by: &'static str, why: String) {
        self.failed.push(FailedMeans { by, why });
    }

    /// All is done.
    pub fn ended(&mut self, begun: Instant) {
        self.seconds = begun.elapsed().as_secs_f64();
    }

    /// Whether nothing is left to be done.
    pub fn is_everywhere(&self) -> bool {
        (self.by.is_some() || self.did == Spread::There) && self.without.is_empty()
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let took = time(Duration::from_secs_f64(self.seconds));
        let nodes = match self.nodes {
            Some(nodes) => counted(nodes.into(), "node", "nodes"),
            None if self.did == Spread::There => "this node".to_owned(),
            None => "all nodes".to_owned(),
        };
        let image = plain(self.image.as_deref().unwrap_or_default());
        let part = format!(
            "{} of {} ({})",
            bytes(ByteUnits(self.bytes)),
            bytes(ByteUnits(self.image_bytes)),
            percent(self.bytes, self.image_bytes)
        );
        let headline = match (self.did, self.by) {
            (Spread::There, _) => format!("{image}: {part} are on {nodes} already"),
            (Spread::Received, _) => format!("{part} are on this node, in {took}"),
            (Spread::Removed, Some(_)) if self.removed == 0 => {
                format!("nothing to remove: this job has nothing on {nodes}")
            }
            (Spread::Removed, Some(by)) => format!("removed from {nodes} by {by} in {took}"),
            (Spread::Spread, Some(by)) => format!("{image}: {part} to {nodes} by {by} in {took}"),
            (Spread::Removed, None) => "not removed".to_owned(),
            (Spread::Spread, None) => {
                format!("{image}: not spread; jobs read it from its own file")
            }
        };
        let failed = self.failed.iter().map(|it| format!("- {}: {}\n", it.by, plain(&it.why)));
        let without = self
            .without
            .iter()
            .map(|it| format!("- {} is without: {}\n", plain(&it.node), plain(&it.why)));
        let lines: String = failed.chain(without).collect();
        let gap = if lines.is_empty() { "" } else { "\n" };
        let next = match (self.did, &self.typed) {
            (Spread::Spread | Spread::There, Some(image)) => {
                let launcher = match self.by {
                    Some("here") => "",
                    Some("mpirun") => "mpirun ",
                    _ if std::env::var_os("SLURM_JOB_ID").is_none() => "",
                    _ => "srun ",
                };
                let next = format!("{launcher}becalm run --image {image} -- CMD");
                format!("\n{}", style::next(&next))
            }
            _ => String::new(),
        };
        style::headline(&headline, columns) + gap + &lines + &next
    }
}
