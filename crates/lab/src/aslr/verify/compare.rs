//! All ranks of a job, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Read};

use schemars::JsonSchema;
use serde::Serialize;

use super::rank::{RankLayout, SCHEMA};

/// A longer line is none of becalm's.
const LONGEST_LINE: u64 = 1 << 20;
/// More ranks than any machine has.
const MOST_RANKS: usize = 10_000_000;
/// So many ranks are named of each group.
const NAMED: usize = 8;

/// Whether ranks have one layout.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LayoutVerdict {
    /// How many ranks there are.
    pub ranks: usize,
    /// Whether the kernel lays memory out at random in some of them.
    pub randomised: bool,
    /// Lines that are cut or no rank's.
    pub unreadable: usize,
    /// Their layouts, the most common first.
    pub groups: Vec<LayoutGroup>,
    /// What is not the same in all groups and can move memory.
    pub differences: Vec<LayoutDifference>,
    /// Mappings that lie elsewhere in another group.
    pub moved: Vec<String>,
}

/// Ranks of one layout.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LayoutGroup {
    /// Its hash.
    pub layout: String,
    /// How many.
    pub ranks: usize,
    /// The first of them.
    pub first: Vec<u32>,
    /// On how many nodes.
    pub nodes: usize,
}

/// A fact that differs between groups.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LayoutDifference {
    /// What.
    pub what: String,
    /// Its values, in the order of the groups; those of a group's first rank.
    pub values: Vec<String>,
}

impl LayoutVerdict {
    /// Whether it is one layout, and of all ranks.
    pub fn is_one(&self) -> bool {
        self.groups.len() == 1 && self.unreadable == 0
    }
}

/// Compares the ranks that a text tells of, among whatever else is in it.
///
/// # Errors
/// Those of reading, and too many ranks.
pub fn compare(texts: impl IntoIterator<Item = impl BufRead>) -> io::Result<LayoutVerdict> {
    let mut found: BTreeMap<String, (Vec<u32>, BTreeSet<String>, RankLayout)> = BTreeMap::new();
    let (mut ranks, mut unreadable) = (0, 0);
    for mut text in texts {
        let mut line = Vec::new();
        loop {
            line.clear();
            if (&mut text).take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            match rank(&line) {
                Some(Ok(rank)) => {
                    ranks += 1;
                    if ranks > MOST_RANKS {
                        return Err(io::Error::other(format!("over {MOST_RANKS} ranks")));
                    }
                    let fresh = || (Vec::new(), BTreeSet::new(), rank.clone());
                    let group = found.entry(rank.layout.clone()).or_insert_with(fresh);
                    group.0.push(rank.rank);
                    group.1.insert(rank.node);
                }
                Some(Err(_)) => unreadable += 1,
                None => {}
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(layout, (ranks, ..))| (std::cmp::Reverse(ranks.len()), layout.clone()));
    let firsts: Vec<&RankLayout> = found.iter().map(|(_, (.., first))| first).collect();
    let randomised = firsts.iter().any(|rank| is_randomised(rank));
    let (differences, moved) = (differences(&firsts), moved(&firsts));
    let groups = found.into_iter().map(|(layout, (mut numbers, nodes, _))| {
        numbers.sort_unstable();
        let ranks = numbers.len();
        numbers.truncate(NAMED);
        LayoutGroup { layout, ranks, first: numbers, nodes: nodes.len() }
    });
    Ok(LayoutVerdict {
        ranks,
        randomised,
        unreadable,
        groups: groups.collect(),
        differences,
        moved,
    })
}

/// The rank that a line tells of, also behind a launcher's label; none, if it is of something else.
fn rank(line: &[u8]) -> Option<Result<RankLayout, serde_json::Error>> {
    let start = format!("{{\"schema\":\"{SCHEMA}\"");
    let at = memchr::memmem::find(line, start.as_bytes())?;
    Some(serde_json::from_slice(&line[at..]))
}

/// By its personality (ADDR_NO_RANDOMIZE, 0x40000) and the setting of its node.
fn is_randomised(rank: &RankLayout) -> bool {
    let fact = |name| rank.facts.get(name).map(String::as_str).unwrap_or_default();
    let personality = u64::from_str_radix(fact("personality"), 16).unwrap_or(0);
    personality & 0x40000 == 0 && fact("randomize_va_space") != "0"
}

fn differences(firsts: &[&RankLayout]) -> Vec<LayoutDifference> {
    let names: BTreeSet<_> = firsts.iter().flat_map(|rank| rank.facts.keys()).collect();
    let of = |what: &String| LayoutDifference {
        what: what.clone(),
        values: firsts
            .iter()
            .map(|rank| rank.facts.get(what).cloned().unwrap_or_default())
            .collect(),
    };
    names.into_iter().map(of).filter(|found| !all_equal(&found.values)).collect()
}

fn moved(firsts: &[&RankLayout]) -> Vec<String> {
    let names: BTreeSet<_> = firsts.iter().flat_map(|rank| rank.maps.keys()).collect();
    let differs = |name: &&String| {
        let places: Vec<_> = firsts.iter().map(|rank| rank.maps.get(*name)).collect();
        !all_equal(&places)
    };
    names.into_iter().filter(differs).cloned().collect()
}

fn all_equal<T: PartialEq>(values: &[T]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}
