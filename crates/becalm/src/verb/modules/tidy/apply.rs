//! A tidying, applied and proven.

use std::path::PathBuf;

use anyhow::Context;
use launch::StageError;
use modules::site::{Environment, ModulesSite, UserError};
use modules::tidy::{Asking, CommandSurvey, SurveyError, TidyVerdict, TidyView, Tidying};

use crate::asked_to_end::{FileChanges, asked_to_end, not_asked_to_end};
use crate::exit::Failure;
use crate::verb::undo;

/// Asks, applies, and asks again: the name in the journal, where files were to be changed.
pub fn apply(
    site: &ModulesSite,
    environment: &Environment,
    tidying: &Tidying,
    steps: &remedy::Plan,
    asked: &[TidyView],
) -> Result<(Option<String>, TidyVerdict), Failure> {
    // Before there are threads: those that are there would end becalm.
    let end = launch::EndRequests::wait_for().context("signals")?;
    let waiting = term::ProgressBar::new();
    let progress = |doing, done, of| waiting.tell(doing, done, of);
    let roots: Vec<_> = asked.iter().flat_map(|view| &view.trees).map(|tree| &tree.root).collect();
    let now = modulepath_text(roots.into_iter().take(tidying.modulepath.len()));
    let before = Asking { site, environment, modulepath: now, variables: &[], progress: &progress };
    let after = Asking {
        modulepath: tidying.modulepath_text(),
        variables: &tidying.environment,
        ..before.clone()
    };
    let first = CommandSurvey::begin(&before, asked).map_err(unasked)?;
    let applied = match steps.steps.is_empty() {
        true => None,
        false => Some(crate::verb::elf::bind::apply(steps, None, &FileChanges::begin())?),
    };
    // Whatever goes wrong from here on, the files are not left changed and unproven.
    let second = first.again(&after, asked);
    let verdict =
        second.and_then(|second| TidyVerdict::of(tidying, &first, &second, &after, asked));
    match not_asked_to_end(&end).and(verdict.map_err(unasked)) {
        Ok(verdict) => Ok((applied, verdict)),
        Err(Failure { status, error }) => {
            if let Some(id) = &applied {
                undo::take_back(id)?;
            }
            let error = error.context("changed, it could not be asked; all is as it was");
            Err(Failure { status, error })
        }
    }
}

/// Why nothing more could be asked; if becalm was asked to end, with the status for that.
fn unasked(error: SurveyError) -> Failure {
    match error {
        SurveyError::User(UserError::Stage(StageError::Interrupted(signal))) => {
            asked_to_end(signal, error.to_string())
        }
        error => error.into(),
    }
}

fn modulepath_text<'a>(roots: impl Iterator<Item = &'a PathBuf>) -> std::ffi::OsString {
    roots.map(|root| root.as_os_str()).collect::<Vec<_>>().join(std::ffi::OsStr::new(":"))
}
