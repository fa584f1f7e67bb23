//! An answer with all that it depended on.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use launch::Ended;
use serde::{Deserialize, Serialize};
use watch::dependencies::{
    AnswerDependency, DependencyTrace, LeftBecause, WrittenTo, descriptor_kind, folded,
};

use super::ModuleQuestion;
use super::trees::{IndexedTree, take_indexed};
use crate::at_once::first_failing;

/// What an answer may depend on besides whole modulepaths, all of which is looked at each time.
const DEPENDENCIES_MOST: usize = 20_000;
/// The same of what cannot be repeated: it is looked at before the tool is run.
const REFUSAL_MOST: usize = 1_000;

/// What is kept of a question that was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RememberedAnswer {
    /// The question.
    pub question: ModuleQuestion,
    /// When it was answered, in seconds since 1970.
    pub answered: u64,
    /// What the tool asked for and was told, up to its end or to where it was let go of.
    pub dependencies: Vec<AnswerDependency>,
    /// The modulepaths of which it depends on nearly all.
    pub trees: Vec<IndexedTree>,
    /// What came of it.
    pub outcome: AnswerOutcome,
}

/// What came of a question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AnswerOutcome {
    /// The tool's answer.
    Answered {
        /// What it wrote, in order.
        output: Vec<(WrittenTo, Vec<u8>)>,
        /// The words that start its pager, if it started one.
        pager: Vec<Vec<u8>>,
        /// How it ended.
        ended: Ended,
    },
    /// It did what cannot be repeated, and would again. It is to be run, and not followed.
    Unrepeatable(String),
    /// It was disturbed. It is to be run, and followed again.
    Disturbed(String),
}

impl RememberedAnswer {
    /// What is to be kept of a run that began at a moment, in seconds since 1970.
    pub(super) fn of(
        question: ModuleQuestion,
        trace: DependencyTrace,
        pager: Vec<Vec<u8>>,
        began: i64,
    ) -> RememberedAnswer {
        let outcome = match (trace.end, trace.disturbed) {
            (Ok(Ended::Exited(_)), Some(why)) => AnswerOutcome::Disturbed(why),
            (Ok(ended @ Ended::Exited(_)), None) => {
                AnswerOutcome::Answered { output: trace.output, pager, ended }
            }
            (Ok(Ended::Signaled(signal)), _) => {
                AnswerOutcome::Disturbed(format!("it was ended by signal {signal}"))
            }
            (Err(LeftBecause::Unrepeatable(why)), _) => AnswerOutcome::Unrepeatable(why),
            (Err(LeftBecause::Disturbed(why)), _) => AnswerOutcome::Disturbed(why),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let answered = now.as_secs();
        let mut dependencies = without_implied(trace.dependencies);
        let mut trees = Vec::new();
        let mut outcome = outcome;
        if matches!(outcome, AnswerOutcome::Answered { .. }) {
            trees = take_indexed(&mut dependencies, began);
            dependencies = folded(dependencies, began);
            if dependencies.len() > DEPENDENCIES_MOST {
                outcome = AnswerOutcome::Unrepeatable("it depends on too much".to_owned());
                trees.clear();
            }
        }
        if matches!(outcome, AnswerOutcome::Unrepeatable(_)) {
            // The last ones led there.
            let most = dependencies.len().saturating_sub(REFUSAL_MOST);
            dependencies.drain(..most);
        }
        RememberedAnswer { question, answered, dependencies, trees, outcome }
    }

    /// The first dependency that is not as it was.
    pub fn changed(&self) -> Option<&AnswerDependency> {
        self.changed_among(|_| true)
    }

    /// The same, of those that count; of a modulepath, its directory.
    pub(super) fn changed_among(
        &self,
        counts: impl Fn(&AnswerDependency) -> bool,
    ) -> Option<&AnswerDependency> {
        let counting: Vec<_> = self.dependencies.iter().filter(|one| counts(one)).collect();
        let changed = first_failing(&counting, |one| one.holds()).map(|at| counting[at]);
        changed.or_else(|| self.trees.iter().find_map(IndexedTree::changed))
    }

    /// How long ago it was answered.
    pub fn age(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_secs(self.answered))
    }
}

/// Without what need not be asked: who may read a file that has the same attributes for the same user,
/// attributes that are those of a content, and that what is a file or a pipe is no terminal.
fn without_implied(mut dependencies: Vec<AnswerDependency>) -> Vec<AnswerDependency> {
    let mut known = HashMap::new();
    for dependency in &dependencies {
        if let AnswerDependency::Content { path, told } = dependency {
            known.insert(path.clone(), *told);
        }
    }
    dependencies.retain(|dependency| match dependency {
        AnswerDependency::Attributes { path, follow: true, told: Ok(told) } => {
            known.get(path) != Some(told)
        }
        AnswerDependency::Access { path, mode, effective: false, told: 0 } => {
            // To write, or to execute a file, depends on how the filesystem is mounted, too.
            let implied = known.get(path).map_or(0, |told| match told.mode & libc::S_IFMT {
                libc::S_IFDIR => libc::R_OK | libc::X_OK,
                _ => libc::R_OK,
            });
            !known.contains_key(path) || mode & !(implied as u32) != 0
        }
        // An answer is found by these.
        AnswerDependency::Descriptor { fd, told } => *told != descriptor_kind(*fd),
        AnswerDependency::Terminal { fd, told: Err(libc::ENOTTY), .. } => {
            !matches!(descriptor_kind(*fd), libc::S_IFREG | libc::S_IFIFO)
        }
        _ => true,
    });
    dependencies
}
