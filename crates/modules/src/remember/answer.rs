//! An answer with all that it depended on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use launch::Ended;
use serde::{Deserialize, Serialize};
use watch::dependencies::{AnswerDependency, DependencyTrace, LeftBecause, WrittenTo};

use super::ModuleQuestion;

/// What is kept of a question that was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RememberedAnswer {
    /// The question.
    pub question: ModuleQuestion,
    /// When it was answered, in seconds since 1970.
    pub answered: u64,
    /// What the tool asked for and was told, up to its end or to where it was let go of.
    pub dependencies: Vec<AnswerDependency>,
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
        /// How it ended.
        ended: Ended,
    },
    /// It did what cannot be repeated, and would again. It is to be run, and not followed.
    Unrepeatable(String),
    /// It was disturbed. It is to be run, and followed again.
    Disturbed(String),
}

impl RememberedAnswer {
    /// What is to be kept of a run.
    pub(super) fn of(question: ModuleQuestion, trace: DependencyTrace) -> RememberedAnswer {
        let outcome = match trace.end {
            Ok(ended @ Ended::Exited(_)) => AnswerOutcome::Answered { output: trace.output, ended },
            Ok(Ended::Signaled(signal)) => {
                AnswerOutcome::Disturbed(format!("it was ended by signal {signal}"))
            }
            Err(LeftBecause::Unrepeatable(why)) => AnswerOutcome::Unrepeatable(why),
            Err(LeftBecause::Disturbed(why)) => AnswerOutcome::Disturbed(why),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let answered = now.as_secs();
        RememberedAnswer { question, answered, dependencies: trace.dependencies, outcome }
    }

    /// The first dependency that is not as it was.
    pub fn changed(&self) -> Option<&AnswerDependency> {
        self.dependencies.iter().find(|dependency| !dependency.holds())
    }

    /// How long ago it was answered.
    pub fn age(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_secs(self.answered))
    }
}
