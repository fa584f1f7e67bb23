//! A tidying, applied and proven.

use std::path::PathBuf;

use anyhow::Context;
use modules::site::{Environment, ModulesSite};
use modules::tidy::{Asking, CommandSurvey, TidyVerdict, TidyView, Tidying};

use crate::asked_to_end::not_asked_to_end;
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
    let first = CommandSurvey::begin(&before, asked)?;
    let applied = match steps.steps.is_empty() {
        true => None,
        false => Some(crate::verb::elf::bind::apply(steps, None)?.0),
    };
    // Whatever goes wrong from here on, the files are not left changed and unproven.
    let second = first.again(&after, asked);
    let verdict =
        second.and_then(|second| TidyVerdict::of(tidying, &first, &second, &after, asked));
    let verdict = verdict.map_err(Failure::from);
    match not_asked_to_end(&end).and(verdict) {
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

fn modulepath_text<'a>(roots: impl Iterator<Item = &'a PathBuf>) -> std::ffi::OsString {
    roots.map(|root| root.as_os_str()).collect::<Vec<_>>().join(std::ffi::OsStr::new(":"))
}
