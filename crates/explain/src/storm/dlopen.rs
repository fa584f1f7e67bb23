//! Libraries searched by a running program: plug-ins, extension modules, name services.

use recording::Phase;

use super::loader::{Blame, culprits, next, searched};
use super::{Case, culprit};
use crate::findings::Storm;
use crate::library::search;
use crate::survey::Survey;
use crate::tally::Tally;
use crate::threshold::is_storm;
use crate::words::questions;

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let search = search(survey, Phase::Running);
    let avoidable = search.claim.len() as u64 - search.found;
    if !is_storm(avoidable, survey.total()) {
        return None;
    }
    let blame = Blame::of(&search);
    let mut programs = Tally::default();
    for ask in search.claim.iter().map(|id| &survey.asks[*id]) {
        programs.add(ask.program, ask.is_missing());
    }
    let mut culprits = culprits(survey, &search, &blame);
    if let Some((program, asked)) = programs.top() {
        let program = survey.full_name(program);
        let text = format!("{program} opened them while it ran: {}", questions(asked.asks));
        let numbers = [("operations", asked.asks), ("missing", asked.missing)];
        culprits.push(culprit("program", program, text, &numbers));
    }
    Some(Case {
        storm: Storm::Dlopen,
        title: format!(
            "{} searched over {} while the program ran",
            searched(&search),
            blame.list_name()
        ),
        cause: "a running program opens libraries by name (plug-ins, extension modules), and \
                each brings the libraries it needs; all are searched directory by directory"
            .to_owned(),
        observed: "calls made by the dynamic loader after the program's first instruction; which \
                   file's list was searched follows from what the files say"
            .to_owned(),
        avoidable,
        guessed: None,
        time: None,
        culprits,
        next: next(survey, &blame),
        evidence: "library".to_owned(),
        claim: search.claim,
    })
}
