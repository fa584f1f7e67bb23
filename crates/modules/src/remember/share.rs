//! How much of what is asked is answered from memory.

use std::collections::HashMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::{AnswerOutcome, AnswerStore, ModuleQuestion, RememberedAnswer};

/// Of the commands that a user has asked of a tool, counted once however often they were asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RememberedShare {
    /// How many there are.
    pub commands: u64,
    /// Those with an answer that was kept.
    pub remembered: u64,
    /// Those that are left to the tool each time: what they do cannot be repeated.
    pub refused: u64,
}

impl RememberedShare {
    /// Of a tool by its script; none where nothing was asked.
    pub fn of(store: &AnswerStore, script: &Path) -> Option<RememberedShare> {
        let mut last: HashMap<ModuleQuestion, RememberedAnswer> = HashMap::new();
        for answer in store.answers().unwrap_or_default() {
            let is_newer = |known: &RememberedAnswer| known.answered <= answer.answered;
            if answer.question.script == script && last.get(&answer.question).is_none_or(is_newer) {
                last.insert(answer.question.clone(), answer);
            }
        }
        let mut share =
            RememberedShare { commands: last.len() as u64, ..RememberedShare::default() };
        for answer in last.values() {
            match answer.outcome {
                AnswerOutcome::Answered { .. } => share.remembered += 1,
                AnswerOutcome::Unrepeatable(_) => share.refused += 1,
                AnswerOutcome::Disturbed(_) => {}
            }
        }
        (share.commands > 0).then_some(share)
    }
}
