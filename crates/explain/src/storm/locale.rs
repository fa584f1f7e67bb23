//! Locales, message catalogues and character set converters, read again by each program.

use std::collections::HashSet;

use recording::{Cause, Exec};

use super::{Case, culprit};
use crate::findings::{Culprit, Storm};
use crate::survey::{AskId, Survey, variable};
use crate::tally::Tally;
use crate::threshold::is_storm;
use crate::words::{counted, percent, questions};

pub(super) fn detect(survey: &Survey) -> Option<Case> {
    let asks = survey.free().filter(|(_, ask)| ask.why.cause == Cause::Locale);
    let claim: Vec<_> = asks.map(|(id, _)| id).collect();
    let avoidable = claim.len() as u64;
    if !is_storm(avoidable, survey.total()) {
        return None;
    }
    let starts: HashSet<_> = claim
        .iter()
        .map(|id| &survey.asks[*id])
        .map(|ask| (ask.process(), ask.exec.map(|exec| exec.at)))
        .collect();
    let starts = starts.len() as u64;
    Some(Case {
        storm: Storm::Locale,
        title: format!(
            "{} looked for a locale",
            counted(starts, "program start", "program starts")
        ),
        cause: "a program that sets its locale opens one file for each category and one for its \
                messages, in the directory of each variant of the locale's name"
            .to_owned(),
        observed:
            "a guess by path: files of locale and gconv directories, which only the C library \
                   reads"
                .to_owned(),
        avoidable,
        guessed: None,
        time: None,
        culprits: culprits(survey, &claim, starts),
        next: Vec::new(),
        evidence: "prefix".to_owned(),
        claim,
    })
}

fn culprits(survey: &Survey, claim: &[AskId], starts: u64) -> Vec<Culprit> {
    let (mut settings, mut programs) = (Tally::default(), Tally::default());
    let mut names = Tally::default();
    for ask in claim.iter().map(|id| &survey.asks[*id]) {
        let missing = ask.is_missing();
        programs.add(ask.program, missing);
        if let Some(exec) = ask.exec {
            settings.add(setting(exec), missing);
        }
        if let Some(name) = locale_of(ask.path) {
            names.add(plain_name(name), missing);
        }
    }
    let mut culprits = Vec::new();
    if let Some((setting, asked)) = settings.top() {
        let text = format!(
            "{setting} made {} ask {}, {} answered no",
            counted(starts, "start", "starts"),
            questions(asked.asks),
            percent(asked.missing, asked.asks)
        );
        let numbers = [("starts", starts), ("operations", asked.asks), ("missing", asked.missing)];
        culprits.push(culprit("variable", setting, text, &numbers));
    }
    // The C library also tries shorter names; the one that was set comes first.
    let set = settings.top().map(|(setting, _)| setting).unwrap_or_default();
    let set = set.split_once('=').map(|(_, value)| plain_name(value.as_bytes()));
    let mut names = names.by_missing();
    names.sort_by_key(|(name, _)| Some(name) != set.as_ref());
    for (name, asked) in names.into_iter().take(2) {
        let name = survey.shown(&name);
        let text = match asked.missing {
            missing if missing == asked.asks => {
                format!("the locale {name} is not there: {}, all answered no", questions(missing))
            }
            _ => format!("files of the locale {name}: {}", questions(asked.asks)),
        };
        let numbers = [("operations", asked.asks), ("missing", asked.missing)];
        culprits.push(culprit("locale", name, text, &numbers));
    }
    if let Some((program, asked)) = programs.top() {
        let program = survey.full_name(program);
        let text = format!("{program} asked most: {}", questions(asked.asks));
        culprits.push(culprit("program", program, text, &[("operations", asked.asks)]));
    }
    culprits
}

/// The variable that chose the locale: LC_ALL, else LC_MESSAGES or another category, else LANG
/// (locale(7)).
fn setting(exec: &Exec) -> String {
    let set = |name: &str| {
        variable(exec, name)
            .filter(|value| !value.is_empty())
            .map(|value| format!("{name}={value}"))
    };
    let category = || {
        let known = exec.env.iter().map(|(name, _)| name.as_str());
        known.filter(|name| name.starts_with("LC_")).find_map(set)
    };
    let found = set("LC_ALL").or_else(category).or_else(|| set("LANG"));
    found.unwrap_or_else(|| "no locale variable".to_owned())
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
