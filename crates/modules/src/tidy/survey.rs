//! What Modules answers to several users, and what that costs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use launch::{CannotStart, Command, Ended, Stage};
use recording::query::{self, CallFilter, GroupBy};
use serde::{Deserialize, Serialize};

use super::{CheckedCommand, TidyView, question};
use crate::captured::captured;
use crate::recorded::recorded;
use crate::site::{Environment, ModulesSite, User, UserError};
use crate::tree::TreeEntryKind;

/// So many questions are asked in one process.
const AT_ONCE: usize = 64;
/// So long they may take.
const PATIENCE: Duration = Duration::from_secs(1200);
/// So often a command is timed, each time beside one that looks at no modulepath.
const RUNS: usize = 11;
/// So many modules of each modulepath are loaded, spread over it,
const LOADS: usize = 16;
/// and so many of them are timed.
const TIMED: usize = 4;

/// What one command answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// How it ended.
    pub ended: Ended,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// Whether Modules said that it failed: by its status, by what it gave the shell to do, or,
    /// asked for a path, by giving none.
    pub fn is_failure(&self, question: &CheckedCommand) -> bool {
        let is_path = question.words.first().is_some_and(|word| word == "path");
        self.ended != Ended::Exited(0)
            || self.stdout.contains("test 0 = 1")
            || is_path && self.stdout.trim().is_empty()
    }
}

/// What one command costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// System calls on files, descriptors and processes: the fewest of some runs.
    pub calls: u64,
    /// How long it took, in seconds, run by run.
    pub seconds: Vec<f64>,
    /// The same, as so many times what `modulecmd --version` took right before.
    pub relative: Vec<f64>,
}

/// A command and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCommand {
    /// Which.
    pub question: CheckedCommand,
    /// How much.
    pub effort: Effort,
}

/// What Modules answers to several users.
#[derive(Clone, Debug)]
pub struct CommandSurvey {
    /// What was asked: the same of all.
    pub questions: Vec<CheckedCommand>,
    /// Who was asked, and what they were answered, in the order of the questions.
    pub answers: Vec<(User, Vec<CommandOutput>)>,
    /// What commands cost the last of the users.
    pub costs: Vec<MeasuredCommand>,
}

/// Why nobody could be asked.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// A user cannot be asked.
    #[error(transparent)]
    User(#[from] UserError),
    /// Modules does not run.
    #[error("module {what}: {why}")]
    CannotRun {
        /// Which command.
        what: String,
        /// Why.
        why: String,
    },
    /// `module avail` would never end.
    #[error("{} is no file that can be read to its end: module avail may wait there for ever", .0.display())]
    Endless(std::path::PathBuf),
}

/// Who asks, and in which surroundings.
#[derive(Clone)]
pub struct Asking<'a> {
    /// The site's Modules.
    pub site: &'a ModulesSite,
    /// The environment of whoever asks.
    pub environment: &'a Environment,
    /// The modulepath.
    pub modulepath: OsString,
    /// Variables beside.
    pub variables: &'a [(String, String)],
    /// Told what is being done: what, how many are done, of how many.
    pub progress: &'a dyn Fn(&'static str, u64, u64),
}

impl CommandSurvey {
    /// Asks what must stay the same: what a modulepath shows in each form, what each of its
    /// names means, and some loads; and takes what that costs.
    ///
    /// This forks: call it while the process has one thread.
    ///
    /// # Errors
    /// [`SurveyError`].
    pub fn begin(asking: &Asking<'_>, views: &[TidyView]) -> Result<CommandSurvey, SurveyError> {
        if let Some(path) = endless(views) {
            return Err(SurveyError::Endless(path));
        }
        let listing = [question::names_question()];
        let mut listings = Vec::new();
        for view in views {
            let found = asking.answers(&view.user, &listing, "looking at names")?;
            let [answer] = &found[..] else { continue };
            if !question::lists_modules(answer, view, &asking.site.release) {
                let what = format!("{} as {}", listing[0].words.join(" "), view.user.name);
                let why = answer.stderr.lines().next().unwrap_or("it says nothing").to_owned();
                return Err(SurveyError::CannotRun { what, why });
            }
            listings.extend(found);
        }
        let names = question::names(views, listings.iter().map(|answer| answer.stderr.as_str()));
        let loads = |most| {
            let listed = listings.last().map(|answer| answer.stderr.as_str());
            listed.map_or_else(Vec::new, |listed| question::some_loads(listed, most))
        };
        let mut questions = question::general();
        questions.extend(listing);
        let timed = loads(TIMED);
        let all = loads(LOADS).into_iter().chain(timed.iter().cloned());
        questions.extend(all.collect::<BTreeSet<_>>());
        let lists = [CheckedCommand::new(&["avail"]), CheckedCommand::new(&["whatis"])];
        let timed: Vec<_> = lists.into_iter().chain(timed).collect();
        questions.extend(names.iter().map(|name| CheckedCommand::new(&["path", name])));
        CommandSurvey::take(asking, views, &questions, &timed)
    }

    /// Asks the same again.
    ///
    /// # Errors
    /// As [`CommandSurvey::begin`].
    pub fn again(
        &self,
        asking: &Asking<'_>,
        views: &[TidyView],
    ) -> Result<CommandSurvey, SurveyError> {
        let timed: Vec<_> = self.costs.iter().map(|cost| cost.question.clone()).collect();
        CommandSurvey::take(asking, views, &self.questions, &timed)
    }

    fn take(
        asking: &Asking<'_>,
        views: &[TidyView],
        questions: &[CheckedCommand],
        timed: &[CheckedCommand],
    ) -> Result<CommandSurvey, SurveyError> {
        let mut answers = Vec::new();
        for view in views {
            let of_user = asking.answers(&view.user, questions, "asking users")?;
            answers.push((view.user.clone(), of_user));
        }
        let mut costs = Vec::new();
        if let Some(view) = views.last() {
            for (done, question) in timed.iter().enumerate() {
                (asking.progress)("measuring", done as u64, timed.len() as u64);
                let effort = asking.effort(&view.user, question)?;
                costs.push(MeasuredCommand { question: question.clone(), effort });
            }
        }
        Ok(CommandSurvey { questions: questions.to_vec(), answers, costs })
    }
}

/// A FIFO or device that `module avail` would open.
fn endless(views: &[TidyView]) -> Option<std::path::PathBuf> {
    let trees = views.iter().flat_map(|view| &view.trees);
    let mut special = trees.flat_map(|tree| {
        let special = tree.entries.iter().filter(|entry| entry.kind == TreeEntryKind::Special);
        special.map(|entry| tree.root.join(&entry.name))
    });
    special.next()
}

impl Asking<'_> {
    fn stage(&self, user: &User) -> Stage {
        let mut stage = Stage { timeout: Some(PATIENCE), ..Stage::new() };
        let mut set = |name: &str, value: OsString| stage.environment.push((name.into(), value));
        // As in a session in which nothing is loaded yet.
        let loaded = self.environment.with_prefix("__MODULES_").map(|(name, _)| name);
        for name in loaded.chain(["LOADEDMODULES", "_LMFILES_"]) {
            if self.environment.get(name).is_some() {
                set(name, OsString::new());
            }
        }
        set("MODULEPATH", self.modulepath.clone());
        for (name, value) in self.variables {
            set(name, value.into());
        }
        if user.user != rustix::process::getuid().as_raw() {
            // What a user's own rc file says is the user's, not the site's.
            for name in ["HOME", "USER", "LOGNAME"] {
                let value = if name == "HOME" { "/nonexistent" } else { &user.name };
                set(name, value.into());
            }
        }
        stage
    }

    fn command(&self, words: &[String]) -> Command {
        Command::of(self.site.argv("bash", words))
    }

    fn answers(
        &self,
        user: &User,
        questions: &[CheckedCommand],
        doing: &'static str,
    ) -> Result<Vec<CommandOutput>, SurveyError> {
        let mut answers = Vec::new();
        for some in questions.chunks(AT_ONCE) {
            (self.progress)(doing, answers.len() as u64, questions.len() as u64);
            let ask = || -> Vec<Result<CommandOutput, String>> {
                let at_root = std::env::set_current_dir("/").map_err(|error| error.to_string());
                let one = |question: &CheckedCommand| {
                    at_root.clone()?;
                    answer(&self.command(&question.words))
                };
                some.iter().map(one).collect()
            };
            let found = user.play(&self.stage(user), ask)?;
            for (question, answer) in some.iter().zip(found) {
                let failed = |why| SurveyError::CannotRun { what: question.words.join(" "), why };
                answers.push(answer.map_err(failed)?);
            }
        }
        Ok(answers)
    }

    /// What a command costs a user.
    ///
    /// # Errors
    /// [`SurveyError`].
    pub(super) fn effort(
        &self,
        user: &User,
        question: &CheckedCommand,
    ) -> Result<Effort, SurveyError> {
        let measure = || -> Result<Effort, String> {
            std::env::set_current_dir("/").map_err(|error| error.to_string())?;
            effort(&self.command(&question.words), &self.command(&["--version".to_owned()]))
        };
        let failed = |why| SurveyError::CannotRun { what: question.words.join(" "), why };
        user.play(&self.stage(user), measure)?.map_err(failed)
    }
}

/// Runs a command, and reads what it writes.
fn answer(command: &Command) -> Result<CommandOutput, String> {
    let (streams, timed) =
        captured(|| launch::timed(command).map_err(|why: CannotStart| why.to_string()))?;
    let [stdout, stderr] = streams;
    Ok(CommandOutput { ended: timed.ended, stdout, stderr })
}

fn effort(command: &Command, control: &Command) -> Result<Effort, String> {
    let time = |command: &Command| {
        let timed = launch::timed(command).map_err(|why| why.to_string())?;
        Ok::<f64, String>(timed.wall.as_secs_f64())
    };
    let measure = || {
        let calls = calls(command)?.min(calls(command)?);
        let mut effort = Effort { calls, seconds: Vec::new(), relative: Vec::new() };
        for _ in 0..RUNS {
            let (beside, seconds) = (time(control)?, time(command)?);
            effort.seconds.push(seconds);
            effort.relative.push(seconds / beside);
        }
        Ok(effort)
    };
    captured(measure).map(|(_, effort)| effort)
}

/// The system calls of a run.
fn calls(command: &Command) -> Result<u64, String> {
    let (recording, _) = recorded(command)?;
    let filter = CallFilter { default_set: true, ..CallFilter::default() };
    Ok(query::table(&recording, GroupBy::Syscall, &filter).total.calls)
}
