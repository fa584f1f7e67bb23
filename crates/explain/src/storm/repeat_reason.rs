//! Why a path is looked up again and again, where a recording tells.

use recording::Cause;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source_path::SourcePath;
use crate::survey::{MetadataOp, OpId, OpSurvey, split};
use crate::tally::OpTally;

/// Why a path is looked up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RepeatReason {
    /// glibc's tzset(3): without TZ, each localtime(3) and strftime(3) looks whether the file of the
    /// time zone is still the same.
    TimeZone,
    /// The C library's name services: users, groups, hosts (nsswitch.conf(5)).
    NameService,
    /// realpath: each path below it is resolved component by component.
    Components,
    /// This library made the calls, and neither the program nor the C library.
    Library {
        /// Its file.
        library: SourcePath,
    },
}

impl RepeatReason {
    pub(super) fn sentence(&self) -> String {
        match self {
            RepeatReason::TimeZone => "the C library looks at it for each time that it converts \
                                       (tzset), because TZ is not set"
                .to_owned(),
            RepeatReason::NameService => {
                "the C library reads it for each user, group or host that is asked for".to_owned()
            }
            RepeatReason::Components => "paths below it are resolved component by component \
                                         (realpath), each from the root"
                .to_owned(),
            RepeatReason::Library { library } => format!("the calls were made by {library}"),
        }
    }

    /// Of the operations on one path; none where nothing tells.
    pub(super) fn of(survey: &OpSurvey, ops: &[OpId]) -> Option<RepeatReason> {
        let each = || ops.iter().map(|id| survey.op(*id));
        let most = |is: &dyn Fn(&MetadataOp) -> bool| {
            each().filter(|op| is(op)).count() * 10 >= ops.len() * 9
        };
        if most(&|op| op.path == b"/etc/localtime" && is_of_c_library(survey, op)) {
            return Some(RepeatReason::TimeZone);
        }
        if most(&|op| op.why.cause == Cause::Nss) {
            return Some(RepeatReason::NameService);
        }
        let goes_below = ops.iter().filter(|id| is_resolved_further(survey, **id)).count();
        if goes_below * 10 >= ops.len() * 9 {
            return Some(RepeatReason::Components);
        }
        library(survey, ops)
    }
}

/// Whether the call lies in the C library; where that is part of the program, in no other file.
fn is_of_c_library(survey: &OpSurvey, op: &MetadataOp) -> bool {
    let Some(site) = op.event.site else { return true };
    is_c_library(survey.recording.path(site)) || op.exec.is_some_and(|exec| exec.image == site)
}

fn is_c_library(file: &[u8]) -> bool {
    let name = split(file).1;
    [&b"libc.so"[..], b"libc-2.", b"libc.musl", b"ld-musl", b"libpthread"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Whether the thread next looks, as this call does, for no link's target right below this path.
fn is_resolved_further(survey: &OpSurvey, id: OpId) -> bool {
    let op = survey.op(id);
    let rest = survey.ops_from(id + 1).take(64);
    let next = rest.filter(|next| next.event.thread == op.event.thread).take(1).next();
    op.event.is_nofollow()
        && next.is_some_and(|next| next.event.is_nofollow() && split(next.path).0 == op.path)
}

/// The library that nearly all calls lie in.
fn library(survey: &OpSurvey, ops: &[OpId]) -> Option<RepeatReason> {
    let mut sites = OpTally::default();
    for op in ops.iter().map(|id| survey.op(*id)) {
        let is_own = |site| op.exec.is_some_and(|exec| exec.image == site);
        if let Some(site) = op.event.site.filter(|site| !is_own(*site)) {
            sites.add(site, false);
        }
    }
    let (site, counted) = sites.top()?;
    let is_other = !is_c_library(survey.recording.path(site));
    (is_other && counted.ops as usize * 10 >= ops.len() * 9)
        .then(|| RepeatReason::Library { library: survey.source_path(site) })
}
