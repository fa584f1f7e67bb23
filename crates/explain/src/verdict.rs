//! What a start is called.

use cost::PredictedWait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::findings::{Finding, RunTotals};
use crate::threshold;

/// What a start is called, by its storms and its [threshold](crate::threshold).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartVerdict {
    /// It has a storm.
    SlowStart,
    /// It has none, and one rank waits for more than a second all the same, or noticeably for a
    /// start of which more than a quarter are failed lookups.
    NoStorm,
    /// It has none, and one rank waits for a second at most.
    Calm,
    /// It has none, and what is waited for is not known, or not all: the recording is cut.
    NotKnown,
}

impl StartVerdict {
    /// Of a start with these storms; no wait: the recording does not tell it. What `becalm run`
    /// itself waits for, `own`, before the command starts is told beside, and is no part of it.
    pub(crate) fn of(
        storms: &[Finding],
        totals: &RunTotals,
        wait: Option<PredictedWait>,
        own: f64,
    ) -> StartVerdict {
        let RunTotals { metadata_ops, enoent, .. } = *totals;
        let is_calm = |wait| threshold::is_calm(wait, metadata_ops, enoent);
        match wait {
            _ if !storms.is_empty() => StartVerdict::SlowStart,
            Some(wait) if is_calm(wait.one_rank - own) => StartVerdict::Calm,
            Some(_) => StartVerdict::NoStorm,
            None => StartVerdict::NotKnown,
        }
    }

    /// The words that a report begins with.
    pub fn name(self) -> &'static str {
        match self {
            StartVerdict::SlowStart => "SLOW START",
            StartVerdict::NoStorm => "NO STORM",
            StartVerdict::Calm => "CALM",
            StartVerdict::NotKnown => "NOT KNOWN",
        }
    }
}
