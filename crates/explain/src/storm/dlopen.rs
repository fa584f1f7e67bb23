//! Libraries searched by a running program: plug-ins, extension modules, name services.

use recording::Phase;

use super::loader::{LoaderSource, WorstLists, searched, sources};
use super::{DetectedStorm, Storm, StormSource};
use crate::library::search;
use crate::survey::OpSurvey;
use crate::tally::OpTally;

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let search = search(survey, Phase::Running);
    let avoidable = search.claim.len() as u64 - search.found;
    if avoidable == 0 {
        return None;
    }
    let worst_lists = WorstLists::of(&search);
    let mut programs = OpTally::default();
    for op in search.claim.iter().map(|id| survey.op(*id)) {
        programs.add(op.program, op.is_enoent());
    }
    let mut sources = sources(survey, &search, &worst_lists);
    if let Some((program, counted)) = programs.top() {
        sources.push(StormSource::Loader(LoaderSource::OpenedBy {
            program: survey.full_name(program).to_owned(),
            metadata_ops: counted.ops,
            enoent: counted.failed,
        }));
    }
    Some(DetectedStorm {
        storm: Storm::Dlopen,
        title: format!(
            "{} searched over {} while the program ran",
            searched(&search),
            worst_lists.list_name()
        ),
        cause: "a running program opens libraries by name (plug-ins, extension modules), and \
                each brings the libraries it needs; all are searched directory by directory"
            .to_owned(),
        observed: "calls made by the dynamic loader after the program's first instruction; which \
                   file's list was searched follows from what the files say"
            .to_owned(),
        avoidable,
        inferred: None,
        time: None,
        sources,
        evidence: "library",
        claim: search.claim,
    })
}
