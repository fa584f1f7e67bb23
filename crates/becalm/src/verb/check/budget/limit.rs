//! One limit of `--budget`: `ops=500`, `loader.failed=0`, `wait=1s`.

use std::fmt;
use std::str::FromStr;

use recording::Cause;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use term::number::count;

use crate::predicted_wait::seconds;

/// What of a start is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Metadata operations.
    Ops,
    /// Of those, failed lookups.
    Failed,
    /// Distinct paths that they named.
    Distinct,
    /// Processes, the command's first one included.
    Processes,
    /// Seconds that one rank is predicted to wait for metadata operations.
    Wait,
}

impl Measure {
    const ALL: [Measure; 5] =
        [Measure::Ops, Measure::Failed, Measure::Distinct, Measure::Processes, Measure::Wait];

    fn name(self) -> &'static str {
        match self {
            Measure::Ops => "ops",
            Measure::Failed => "failed",
            Measure::Distinct => "distinct",
            Measure::Processes => "processes",
            Measure::Wait => "wait",
        }
    }
}

/// The words for causes, which have no spaces, so that they need no quotes.
const CAUSES: [(&str, Cause); 8] = [
    ("loader", Cause::LoaderStart),
    ("dlopen", Cause::LoaderDlopen),
    ("python", Cause::PythonImport),
    ("modules", Cause::ModuleTool),
    ("shell", Cause::Shell),
    ("locale", Cause::Locale),
    ("nss", Cause::Nss),
    ("program", Cause::Program),
];

/// What is limited: of a start, or of what one cause has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// What.
    pub measure: Measure,
    /// Of which cause; none: of all.
    pub cause: Option<Cause>,
}

impl Limited {
    /// Of the whole start.
    pub fn whole(measure: Measure) -> Limited {
        Limited { measure, cause: None }
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = CAUSES.iter().find(|(_, cause)| Some(*cause) == self.cause);
        match cause {
            Some((word, _)) => write!(f, "{word}.{}", self.measure.name()),
            None => f.write_str(self.measure.name()),
        }
    }
}

impl Serialize for Limited {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// How much of a measure there is, or may be.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Amount {
    /// So many.
    Count(u64),
    /// So long.
    Seconds(f64),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Count(number) => f.write_str(&count(*number)),
            Amount::Seconds(number) => f.write_str(&seconds(*number)),
        }
    }
}

/// A limit as it was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// What is limited.
    pub of: Limited,
    /// To how much.
    pub most: Amount,
}

/// What there is to limit.
const NAMES: &str = "ops, failed, distinct, processes, wait; of loader, dlopen, python, modules, shell, \
                     locale, nss and program ops and failed, as in loader.ops";

impl FromStr for Limit {
    type Err = String;

    fn from_str(word: &str) -> Result<Limit, String> {
        let (name, number) = word.split_once('=').ok_or("give NAME=NUMBER, as in ops=500")?;
        let (name, number) = (name.trim(), number.trim());
        let of = limited(name).ok_or_else(|| format!("there is no '{name}': there are {NAMES}"))?;
        let most = match of.measure {
            Measure::Wait => parse_seconds(number).map(Amount::Seconds),
            _ => number.parse().map(Amount::Count).ok(),
        };
        let most = most.ok_or_else(|| match of.measure {
            Measure::Wait => format!("'{number}' is no time: give 1s or 300ms"),
            _ => format!("'{number}' is no whole number"),
        })?;
        Ok(Limit { of, most })
    }
}

fn limited(name: &str) -> Option<Limited> {
    let measure = |name: &str| Measure::ALL.into_iter().find(|measure| measure.name() == name);
    let Some((cause, name)) = name.split_once('.') else {
        return measure(name).map(Limited::whole);
    };
    let cause = CAUSES.iter().find(|(word, _)| *word == cause)?.1;
    let measure = measure(name).filter(|it| matches!(it, Measure::Ops | Measure::Failed))?;
    Some(Limited { measure, cause: Some(cause) })
}

/// `1s`, `300ms`, `1.5`: seconds.
fn parse_seconds(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("min", 60.0), ("s", 1.0), ("", 1.0)];
    let (number, unit) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let seconds = number.trim().parse::<f64>().ok()? * unit;
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}

/// A tolerance: `5%`, or `5`.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let number = number.ok().filter(|it| it.is_finite() && *it >= 0.0);
    number.ok_or_else(|| "give a percentage, as in 5%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_name_and_a_number_and_reads_back_as_its_name() {
        let parsed = |word: &str| word.parse::<Limit>();
        for (word, name, most) in [
            ("ops=500", "ops", Amount::Count(500)),
            ("failed=0", "failed", Amount::Count(0)),
            ("loader.failed=3", "loader.failed", Amount::Count(3)),
            ("wait=1s", "wait", Amount::Seconds(1.0)),
            ("wait=1.5", "wait", Amount::Seconds(1.5)),
            ("wait=250ms", "wait", Amount::Seconds(0.25)),
            ("wait=2 min", "wait", Amount::Seconds(120.0)),
        ] {
            let limit = parsed(word).unwrap();
            assert_eq!((limit.of.to_string().as_str(), limit.most), (name, most), "{word}");
        }
        for word in ["ops", "ops=", "ops=-1", "ops=5.5", "wait=fast", "wait=-1s", "wait=inf"] {
            assert!(parsed(word).is_err(), "{word}");
        }
        for word in ["opens=3", "loader.wait=1s", "ruby.ops=3", "loader.=3", ".ops=3"] {
            assert!(parsed(word).unwrap_err().starts_with("there is no '"), "{word}");
        }
        assert_eq!((percent("5%"), percent("0.5")), (Ok(5.0), Ok(0.5)));
        assert!(percent("-1%").is_err() && percent("NaN").is_err());
    }
}
