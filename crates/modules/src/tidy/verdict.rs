//! Two surveys: whether anybody sees or waits otherwise.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use stats::{independent, median};

use super::survey::Asking;
use super::{
    CheckedCommand, CommandOutput, CommandSurvey, Effort, MeasuredCommand, SurveyError, TidyView,
    Tidying,
};

/// A command is called slower if it took a tenth longer, with certainty: two surveys that lie minutes
/// apart say no less of one that takes 20 ms.
const SLOWER: f64 = 1.0 / 1.1;
/// What seems slower is measured again this often: a machine has other things to do.
const AGAIN: usize = 4;

/// What became of answers and costs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TidyVerdict {
    /// Whose answers were compared.
    pub users: Vec<String>,
    /// How many commands each was answered.
    pub commands: usize,
    /// Answers that changed.
    pub differences: Vec<OutputDifference>,
    /// What commands cost the last of the users.
    pub changes: Vec<CostChange>,
}

/// An answer that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutputDifference {
    /// Whose.
    pub user: String,
    /// The command.
    pub command: String,
    /// The first line that is another, before.
    pub before: String,
    /// And after.
    pub after: String,
}

/// What a command costs, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostChange {
    /// The command.
    pub command: String,
    /// Its system calls before.
    pub calls_before: u64,
    /// And after.
    pub calls_after: u64,
    /// The median of its times before, in seconds.
    pub seconds_before: f64,
    /// And after.
    pub seconds_after: f64,
    /// Whether it takes more calls, or certainly more time.
    pub is_slower: bool,
}

impl TidyVerdict {
    /// Compares. What seems slower is measured again.
    ///
    /// # Errors
    /// If that cannot be done.
    pub fn of(
        tidying: &Tidying,
        before: &CommandSurvey,
        after: &CommandSurvey,
        asking: &Asking<'_>,
        views: &[TidyView],
    ) -> Result<TidyVerdict, SurveyError> {
        let users = before.answers.iter().map(|(user, _)| user.name.clone()).collect();
        let mut differences = Vec::new();
        for ((user, before_it), (_, after_it)) in before.answers.iter().zip(&after.answers) {
            let pairs = before.questions.iter().zip(before_it.iter().zip(after_it));
            differences.extend(pairs.filter_map(|(question, (before, after))| {
                let (before, after) = difference(tidying, question, before, after)?;
                let (user, command) = (user.name.clone(), question.text());
                Some(OutputDifference { user, command, before, after })
            }));
        }
        let mut changes = Vec::new();
        for (before, after) in before.costs.iter().zip(&after.costs) {
            changes.push(change(before, after, asking, views)?);
        }
        Ok(TidyVerdict { users, commands: before.questions.len(), differences, changes })
    }

    /// Whether nobody sees otherwise, and nothing is slower. A slower `load` may be accepted.
    pub fn is_good(&self, slower_load: bool) -> bool {
        let accepted =
            |change: &CostChange| slower_load && change.command.starts_with("module load ");
        self.differences.is_empty()
            && self.changes.iter().all(|change| !change.is_slower || accepted(change))
    }
}

fn change(
    before: &MeasuredCommand,
    after: &MeasuredCommand,
    asking: &Asking<'_>,
    views: &[TidyView],
) -> Result<CostChange, SurveyError> {
    let mut effort = after.effort.clone();
    for _ in 0..AGAIN {
        let Some(view) = views.last().filter(|_| is_slower(&before.effort, &effort)) else { break };
        effort = asking.effort(&view.user, &before.question)?;
    }
    Ok(CostChange {
        command: before.question.text(),
        calls_before: before.effort.calls,
        calls_after: effort.calls,
        seconds_before: median(&before.effort.seconds).unwrap_or(0.0),
        seconds_after: median(&effort.seconds).unwrap_or(0.0),
        is_slower: is_slower(&before.effort, &effort),
    })
}

/// More calls; or more time: beside what Modules itself takes at that moment, by the clock, and in
/// the quickest run. On a machine that others use, any one of these alone may be theirs.
fn is_slower(before: &Effort, after: &Effort) -> bool {
    let interval = independent(&before.relative, &after.relative).and_then(|ratio| ratio.interval);
    let by = |time: fn(&[f64]) -> Option<f64>| {
        let times = time(&before.seconds).zip(time(&after.seconds));
        times.is_some_and(|(before, after)| before / after < SLOWER)
    };
    let quickest = |seconds: &[f64]| seconds.iter().copied().reduce(f64::min);
    let takes_longer =
        interval.is_some_and(|interval| interval.high < SLOWER) && by(median) && by(quickest);
    after.calls > before.calls || takes_longer
}

/// Where two answers differ first. What failed may fail in other words.
fn difference(
    tidying: &Tidying,
    question: &CheckedCommand,
    before: &CommandOutput,
    after: &CommandOutput,
) -> Option<(String, String)> {
    if before.is_failure(question) && after.is_failure(question) {
        return None;
    }
    let (before, after) = (whole(before, &[]), whole(after, &renamed(tidying)));
    let is_virtual = !tidying.virtuals.is_empty();
    if before == after || question.is_json() && same_json(&before, &after) {
        return None;
    }
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| if is_virtual { heading(line) } else { line.into() }).collect()
    };
    let (before, after) = (lines(&before), lines(&after));
    let at = (0..before.len().max(after.len())).find(|at| before.get(*at) != after.get(*at))?;
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
    Some((line(&before), line(&after)))
}

/// Directories that are called otherwise from then on.
fn renamed(tidying: &Tidying) -> Vec<(PathBuf, PathBuf)> {
    let renamed = tidying.virtuals.iter();
    renamed.map(|made| (made.path.clone(), made.instead_of.clone())).collect()
}

fn whole(answer: &CommandOutput, renamed: &[(PathBuf, PathBuf)]) -> String {
    let mut text = format!("{:?}\n{}\n{}", answer.ended, answer.stdout, answer.stderr);
    for (now, before) in renamed {
        text = text.replace(&*now.to_string_lossy(), &before.to_string_lossy());
    }
    text
}

/// A heading without the dashes around it, which are as many as the path's length leaves room for.
fn heading(line: &str) -> String {
    match line.starts_with('-') && line.ends_with('-') {
        true => line.trim_matches(['-', ' ']).to_owned(),
        false => line.to_owned(),
    }
}

fn same_json(before: &str, after: &str) -> bool {
    let parse = |text: &str| {
        let at = text.find('{')?;
        serde_json::from_str::<Value>(text[at..].trim()).ok()
    };
    parse(before).is_some_and(|before| parse(after) == Some(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that took some 20 ms, times a factor, and what Modules took beside them.
    fn effort(calls: u64, factor: f64, beside: f64) -> Effort {
        let seconds: Vec<f64> =
            (0..11).map(|run| factor * (0.02 + f64::from(run) * 1e-5)).collect();
        let relative = seconds.iter().map(|seconds| seconds / beside).collect();
        Effort { calls, seconds, relative }
    }

    #[test]
    fn more_calls_or_certainly_more_time_is_slower() {
        let before = effort(400, 1.0, 0.01);
        assert!(is_slower(&before, &effort(401, 1.0, 0.01)));
        assert!(is_slower(&before, &effort(400, 1.12, 0.01)));
        assert!(!is_slower(&before, &effort(400, 1.0, 0.01)));
        assert!(!is_slower(&before, &effort(400, 1.05, 0.01)), "less than anybody can be sure of");
    }

    #[test]
    fn a_machine_that_became_slower_or_quicker_is_not_the_commands_doing() {
        let before = effort(400, 1.0, 0.01);
        assert!(!is_slower(&before, &effort(400, 1.5, 0.015)), "all is slower");
        assert!(!is_slower(&before, &effort(400, 1.0, 0.008)), "what is beside it is quicker");
        let mut disturbed = effort(400, 1.2, 0.01);
        disturbed.seconds[0] = 0.02;
        assert!(!is_slower(&before, &disturbed), "it can be as quick as before");
    }
}
