//! Locales, message catalogues and character set converters, read again by each program.

use std::collections::HashSet;

use recording::{Cause, Exec, Name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::survey::{OpId, OpSurvey, variable};
use crate::tally::OpTally;
use crate::words::{counted, operations, percent};

/// What makes programs look for locales.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LocaleSource {
    /// The variable that chose the locale.
    LocaleVariable {
        /// With its value: `LANG=de_AT.UTF-8`; none where no variable did.
        setting: Option<String>,
        /// Execs that looked for a locale.
        execs: u64,
        /// Metadata operations where the variable was so.
        metadata_ops: u64,
        /// Of those, failed lookups.
        enoent: u64,
    },
    /// One locale.
    Locale {
        /// As the C library compares it: `de_AT.utf8`.
        locale: Name,
        /// Metadata operations on its files.
        metadata_ops: u64,
        /// Of those, failed lookups: where it is all of them, the locale is not there.
        enoent: u64,
    },
    /// The program that looks most.
    LocaleProgram {
        /// The program.
        program: String,
        /// Metadata operations.
        metadata_ops: u64,
    },
}

impl LocaleSource {
    pub(super) fn sentence(&self) -> String {
        match self {
            LocaleSource::LocaleVariable { setting, execs, metadata_ops, enoent } => format!(
                "{}: {} made {}, {} of these failed",
                setting.as_deref().unwrap_or("no locale variable"),
                counted(*execs, "program", "programs"),
                operations(*metadata_ops),
                percent(*enoent, *metadata_ops)
            ),
            LocaleSource::Locale { locale, metadata_ops, enoent } if enoent == metadata_ops => {
                format!("the locale {locale} is not there: {}, all failed", operations(*enoent))
            }
            LocaleSource::Locale { locale, metadata_ops, .. } => {
                format!("files of the locale {locale}: {}", operations(*metadata_ops))
            }
            LocaleSource::LocaleProgram { program, metadata_ops } => {
                format!("{program} made most: {}", operations(*metadata_ops))
            }
        }
    }
}

pub(super) fn detect(survey: &OpSurvey) -> Option<DetectedStorm> {
    let ops = survey.free().filter(|(_, op)| op.why.cause == Cause::Locale);
    let claim: Vec<_> = ops.map(|(id, _)| id).collect();
    let avoidable = claim.len() as u64;
    if avoidable == 0 {
        return None;
    }
    let execs: HashSet<_> = claim
        .iter()
        .map(|id| survey.op(*id))
        .map(|op| (op.process(), op.exec.map(|exec| exec.at)))
        .collect();
    let execs = execs.len() as u64;
    Some(DetectedStorm {
        storm: Storm::Locale,
        title: format!("{} looked for a locale", counted(execs, "program", "programs")),
        cause: "a program that sets its locale opens one file for each category and one for its \
                messages, in the directory of each variant of the locale's name"
            .to_owned(),
        observed:
            "inferred from the path: files of locale and gconv directories, which only the C \
                   library reads"
                .to_owned(),
        avoidable,
        inferred: None,
        time: None,
        sources: sources(survey, &claim, execs).into_iter().map(StormSource::Locale).collect(),
        evidence: "prefix",
        claim,
    })
}

fn sources(survey: &OpSurvey, claim: &[OpId], execs: u64) -> Vec<LocaleSource> {
    let (mut settings, mut programs) = (OpTally::default(), OpTally::default());
    let mut names = OpTally::default();
    for op in claim.iter().map(|id| survey.op(*id)) {
        let failed = op.is_enoent();
        programs.add(op.program, failed);
        if let Some(exec) = op.exec {
            settings.add(setting(exec), failed);
        }
        if let Some(name) = locale_of(op.path) {
            names.add(plain_name(name), failed);
        }
    }
    let mut sources = Vec::new();
    if let Some((setting, counted)) = settings.top() {
        sources.push(LocaleSource::LocaleVariable {
            setting,
            execs,
            metadata_ops: counted.ops,
            enoent: counted.failed,
        });
    }
    // The C library also tries shorter names; the one that was set comes first.
    let set = settings.top().and_then(|(setting, _)| setting).unwrap_or_default();
    let set = set.split_once('=').map(|(_, value)| plain_name(value.as_bytes()));
    let mut names = names.by_failed();
    names.sort_by_key(|(name, _)| Some(name) != set.as_ref());
    for (name, counted) in names.into_iter().take(2) {
        let locale = survey.name_of(&name);
        let (metadata_ops, enoent) = (counted.ops, counted.failed);
        sources.push(LocaleSource::Locale { locale, metadata_ops, enoent });
    }
    if let Some((program, counted)) = programs.top() {
        let program = survey.full_name(program).to_owned();
        sources.push(LocaleSource::LocaleProgram { program, metadata_ops: counted.ops });
    }
    sources
}

/// The variable that chose the locale: LC_ALL, else LC_MESSAGES or another category, else LANG
/// (locale(7)).
fn setting(exec: &Exec) -> Option<String> {
    let set = |name: &str| {
        variable(exec, name)
            .filter(|value| !value.is_empty())
            .map(|value| format!("{name}={value}"))
    };
    let category = || {
        let known = exec.env.iter().map(|(name, _)| name.as_str());
        known.filter(|name| name.starts_with("LC_")).find_map(set)
    };
    set("LC_ALL").or_else(category).or_else(|| set("LANG"))
}

/// The locale that a path names: `en_US.UTF-8` in `/usr/lib/locale/en_US.UTF-8/LC_TIME` and in
/// `/usr/share/locale/en_US.UTF-8/LC_MESSAGES/coreutils.mo`.
fn locale_of(path: &[u8]) -> Option<&[u8]> {
    let mut parts = path.split(|byte| *byte == b'/');
    parts.find(|part| *part == b"locale" || *part == b"locale-langpack")?;
    let name = parts.next()?;
    parts.next().map(|_| name)
}

/// A locale's name as the C library compares it: `C.UTF-8` and `C.utf8` are one
/// (`_nl_normalize_codeset`).
fn plain_name(name: &[u8]) -> Vec<u8> {
    match name.iter().position(|byte| *byte == b'.') {
        Some(dot) => {
            let codeset = name[dot..].iter().filter(|byte| **byte != b'-' && **byte != b'_');
            let codeset = codeset.map(u8::to_ascii_lowercase);
            name[..dot].iter().copied().chain(codeset).collect()
        }
        None => name.to_vec(),
    }
}
