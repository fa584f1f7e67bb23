//! What operations cost on a cold shared filesystem: a simple model, stated.
//!
//! A node asks each distinct question once and keeps the answer; ranks on the same node share
//! it. The server answers one question after the other at a fixed rate; alone, a client waits
//! one round trip a question. Then a closed queue's two bounds (Denning and Buzen, 'The
//! operational analysis of queueing network models', 1978) give the wait of all ranks: the
//! longer of one rank's own round trips and the server's work for all of them.
//!
//! Where a client keeps no 'no' (NFS mounted with `lookupcache=positive`, for one), every rank
//! asks such a question each time: the second number.
//!
//! Left out: data, what the kernel serves from memory, slow starts that spread the ranks out.

use std::collections::HashMap;

use recording::{Kind, PathId};

use crate::ExplainOptions;
use crate::findings::{Cost, Model};
use crate::survey::{OpId, OpSurvey};
use crate::words::count;

/// Seconds a question: a round trip on a cluster's network and a lookup on a server that is
/// not busy. NFS and Lustre take 0.2 to 1 ms.
const SECONDS_A_QUESTION: f64 = 0.000_5;
/// Questions a second. Measured Lustre servers answer 2,000 (one thread) to 400,000.
const SERVER_PER_SECOND: f64 = 100_000.0;

/// The model for these options.
pub(crate) fn model(options: &ExplainOptions) -> Model {
    let (ranks, per_node) = (options.ranks.max(1), options.ranks_per_node.max(1));
    let nodes = ranks.div_ceil(per_node);
    Model {
        ranks,
        ranks_per_node: per_node,
        nodes,
        seconds_a_question: SECONDS_A_QUESTION,
        server_per_second: SERVER_PER_SECOND,
        words: format!(
            "a question takes {} ms; one server answers {} a second; {} ranks share {} cold \
             nodes; a node ops each distinct question once and keeps the answer (unkept: it \
             keeps no 'no'); data, and files the kernel serves from memory, are not counted",
            SECONDS_A_QUESTION * 1e3,
            count(SERVER_PER_SECOND as u64),
            count(ranks),
            count(nodes),
        ),
    }
}

/// What these operations cost.
pub(crate) fn cost(survey: &OpSurvey, ops: impl Iterator<Item = OpId>, model: &Model) -> Cost {
    let mut asked: HashMap<(Kind, Option<PathId>, Option<PathId>), bool> = HashMap::new();
    let mut on_server: HashMap<Option<PathId>, bool> = HashMap::new();
    let (mut changes, mut no) = (0, 0);
    for id in ops {
        let op = &survey.ops[id];
        let header = &survey.recording.header;
        let served =
            on_server.entry(op.path_id).or_insert_with(|| !header.is_answered_on_node(op.path));
        if !*served {
            continue;
        }
        // No answer can be kept to what changes the tree.
        if op.kind == Kind::Change {
            changes += 1;
            continue;
        }
        no += u64::from(op.is_enoent());
        let question = (op.kind, op.path_id, op.event.other_path);
        *asked.entry(question).or_default() |= !op.is_enoent();
    }
    let yes = asked.values().filter(|yes| **yes).count() as u64;
    let distinct_no = asked.len() as u64 - yes;
    let (nodes, ranks) = (model.nodes, model.ranks);
    let one = |questions: u64| questions as f64 * model.seconds_a_question;
    let all = |own: u64, of_all: u64| one(own).max(of_all as f64 / model.server_per_second);
    let kept = yes + distinct_no + changes;
    let unkept = yes + no + changes;
    Cost {
        questions: kept,
        questions_unkept: unkept,
        one_rank: one(kept),
        one_rank_unkept: one(unkept),
        all_ranks: all(kept, nodes * (yes + distinct_no) + ranks * changes),
        all_ranks_unkept: all(unkept, nodes * yes + ranks * (no + changes)),
    }
}
