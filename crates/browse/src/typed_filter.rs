//! Which calls are counted: a few words that a person types.

use recording::{Cause, Event, Outcome, Recording, errno_name};

use crate::counts::CallFacts;

/// Which calls are counted. Every part holds; the default lets all through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypedFilter {
    /// As it was typed.
    pub words: String,
    /// By the place of the cause in [`Cause::ALL`]; none: all.
    causes: Option<[bool; Cause::ALL.len()]>,
    result: Option<ResultFilter>,
    /// A part of the call's name, in lower case.
    call: Option<String>,
    /// Parts of the path, in lower case.
    texts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum ResultFilter {
    Failed,
    Succeeded,
    /// By the error's name.
    Error(String),
}

impl TypedFilter {
    /// Reads what was typed: `cause=python errno=ENOENT call=stat numpy`.
    ///
    /// # Errors
    /// What is wrong, in a line.
    pub fn parse(words: &str) -> Result<TypedFilter, String> {
        let mut filter = TypedFilter { words: words.trim().to_owned(), ..TypedFilter::default() };
        for word in words.split_whitespace() {
            match word.split_once('=') {
                Some(("cause", cause)) => filter.causes = Some(causes(cause)?),
                Some(("errno", error)) => filter.result = Some(ResultFilter::of(error)?),
                Some(("call", call)) => filter.call = Some(call.to_lowercase()),
                _ => filter.texts.push(word.to_lowercase()),
            }
        }
        Ok(filter)
    }

    /// The calls that it lets through.
    pub fn select(&self, recording: &Recording, facts: &CallFacts) -> SelectedCalls {
        if *self == TypedFilter::default() {
            return SelectedCalls::default();
        }
        let paths = Matching::of(recording, &self.texts);
        let events = recording.events.iter().enumerate();
        let select = |(call, event)| self.has(event, facts.cause_number(call), &paths);
        SelectedCalls { selected: Some(events.map(select).collect()) }
    }

    fn has(&self, event: &Event, cause: usize, paths: &Matching) -> bool {
        self.causes.is_none_or(|causes| causes[cause])
            && self.result.as_ref().is_none_or(|result| result.has(event.outcome))
            && self.call.as_ref().is_none_or(|part| event.call.label().contains(part.as_str()))
            && (self.texts.is_empty() || paths.has(event))
    }
}

/// The causes whose names have that part.
fn causes(part: &str) -> Result<[bool; Cause::ALL.len()], String> {
    let part = part.to_lowercase();
    let causes = Cause::ALL.map(|cause| cause.name().to_lowercase().contains(&part));
    if !part.is_empty() && causes.contains(&true) {
        return Ok(causes);
    }
    let words = ["start", "dlopen", "python", "module", "shell", "locale", "nss", "program"];
    Err(format!("cause= takes one of {}", words.join(", ")))
}

impl ResultFilter {
    fn of(word: &str) -> Result<ResultFilter, String> {
        let name = word.to_uppercase();
        let is_error = (1..600).any(|number| errno_name(number) == name.as_str());
        match name.as_str() {
            "ANY" => Ok(ResultFilter::Failed),
            "NONE" | "0" => Ok(ResultFilter::Succeeded),
            _ if is_error => Ok(ResultFilter::Error(name)),
            _ => Err("errno= takes a name like ENOENT, or any, or none".to_owned()),
        }
    }

    fn has(&self, outcome: Outcome) -> bool {
        match (self, outcome) {
            (ResultFilter::Failed, outcome) => outcome.failed(),
            (ResultFilter::Succeeded, outcome) => !outcome.failed(),
            (ResultFilter::Error(name), Outcome::Failed(number)) => errno_name(number) == *name,
            (ResultFilter::Error(_), Outcome::Returned(_)) => false,
        }
    }
}

/// The paths of a recording that have some text in them: each is looked at once.
pub struct Matching {
    paths: Vec<bool>,
}

impl Matching {
    /// The paths that have all these texts, whatever their case.
    pub fn of(recording: &Recording, texts: &[String]) -> Matching {
        let has_all = |path: &[u8]| {
            let path = String::from_utf8_lossy(path).to_lowercase();
            texts.iter().all(|text| path.contains(text.as_str()))
        };
        Matching { paths: recording.paths().map(has_all).collect() }
    }

    /// Whether a call named one of them.
    pub fn has(&self, event: &Event) -> bool {
        let named = [event.path, event.other_path].into_iter().flatten();
        named.into_iter().any(|path| self.paths.get(path.0 as usize).copied().unwrap_or(false))
    }
}

/// The calls that are counted.
#[derive(Clone, Debug, Default)]
pub struct SelectedCalls {
    /// Of each call whether it is; none: all are.
    selected: Option<Vec<bool>>,
}

impl SelectedCalls {
    /// Whether this call is counted.
    pub fn has(&self, call: usize) -> bool {
        match &self.selected {
            None => true,
            Some(selected) => selected.get(call).copied().unwrap_or(false),
        }
    }

    /// Whether all are.
    pub fn is_all(&self) -> bool {
        self.selected.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_name_no_cause_and_no_error_are_refused_with_those_that_there_are() {
        let wrong = |words| TypedFilter::parse(words).unwrap_err();
        assert!(wrong("cause=fork").contains("dlopen, python"));
        assert!(wrong("x errno=EFOO").contains("ENOENT"));
        assert_eq!(TypedFilter::parse("  ").unwrap(), TypedFilter::default());
    }

    #[test]
    fn every_cause_can_be_chosen_alone_by_a_word_that_is_told() {
        for (place, word) in
            ["start", "dlopen", "python", "module", "shell", "locale", "nss", "program"]
                .iter()
                .enumerate()
        {
            let chosen = causes(word).unwrap();
            assert!(chosen[place] && chosen.iter().filter(|chosen| **chosen).count() == 1);
        }
        assert_eq!(causes("LOADER").unwrap()[..3], [true, true, false]);
    }
}
