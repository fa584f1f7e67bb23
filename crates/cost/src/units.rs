//! Spans of time and bandwidths, as a profile writes them.

use std::str::FromStr;

use recording::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A span of time, written as `200us`, `0.5ms`, `30s`, `0` or `forever`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct TimeSpan(#[schemars(with = "String")] Nanos);

/// Bytes a second, written as `1GB/s` or `800MB/s` (powers of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct Bandwidth(#[schemars(with = "String")] f64);

impl TimeSpan {
    /// No time at all.
    pub const ZERO: TimeSpan = TimeSpan(Nanos(0));
    /// Without end.
    pub const FOREVER: TimeSpan = TimeSpan(Nanos(u64::MAX));
    pub(crate) const LONGEST_WAIT: TimeSpan = TimeSpan(Nanos(60_000_000_000));

    /// A span of so many nanoseconds.
    pub fn of(nanos: Nanos) -> TimeSpan {
        TimeSpan(nanos)
    }

    /// In nanoseconds; the largest number stands for 'forever'.
    pub fn nanos(self) -> Nanos {
        self.0
    }

    /// As the standard library has it, at most a hundred years.
    pub fn duration(self) -> std::time::Duration {
        const CENTURY: u64 = 100 * 365 * 86_400;
        std::time::Duration::from_nanos(self.0.0).min(std::time::Duration::from_secs(CENTURY))
    }
}

/// The part of `text` that is a number, and the unit that follows it.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text.get(..end)?.parse().ok()?;
    Some((number, text.get(end..)?.trim_start()))
}

impl FromStr for TimeSpan {
    type Err = String;
    fn from_str(text: &str) -> Result<TimeSpan, String> {
        const HOW: &str = "is no span of time: write 200us, 0.5ms, 30s, 0 or forever";
        if text == "forever" {
            return Ok(TimeSpan::FOREVER);
        }
        let bad = || format!("'{text}' {HOW}");
        let (number, unit) = number_and_unit(text).ok_or_else(bad)?;
        let scale = match unit {
            "" if number == 0.0 => 1.0,
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "min" => 60e9,
            "h" => 3600e9,
            _ => return Err(bad()),
        };
        Ok(TimeSpan(Nanos((number * scale).round() as u64)))
    }
}

impl std::fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.0;
        match nanos {
            0 => f.write_str("0"),
            u64::MAX => f.write_str("forever"),
            _ => {
                let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
                let (unit, size) =
                    units.into_iter().find(|(_, size)| nanos >= *size).unwrap_or(("ns", 1));
                write!(f, "{}{unit}", nanos as f64 / size as f64)
            }
        }
    }
}

impl FromStr for Bandwidth {
    type Err = String;
    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let bad = || format!("'{text}' is no rate: write 1GB/s or 800MB/s");
        let (number, unit) = number_and_unit(text).ok_or_else(bad)?;
        let scale = match unit {
            "B/s" => 1.0,
            "kB/s" => 1e3,
            "MB/s" => 1e6,
            "GB/s" => 1e9,
            _ => return Err(bad()),
        };
        // A transfer must end.
        if number * scale < 1e3 {
            return Err(format!("'{text}' is too slow: at least 1kB/s"));
        }
        Ok(Bandwidth(number * scale))
    }
}

impl std::fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
        let (unit, size) = units.into_iter().find(|(_, size)| self.0 >= *size).unwrap_or(units[2]);
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl Bandwidth {
    /// As a number.
    pub fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// How long so many bytes take.
    pub fn time_for(self, bytes: u64) -> Nanos {
        Nanos((bytes as f64 / self.0 * 1e9) as u64)
    }
}

impl TryFrom<String> for TimeSpan {
    type Error = String;
    fn try_from(text: String) -> Result<TimeSpan, String> {
        text.parse()
    }
}

impl TryFrom<String> for Bandwidth {
    type Error = String;
    fn try_from(text: String) -> Result<Bandwidth, String> {
        text.parse()
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_rates_are_read_as_they_are_written() {
        for (text, nanos) in [("200us", 200_000), ("0.5ms", 500_000), ("30s", 30_000_000_000)] {
            let span: TimeSpan = text.parse().unwrap();
            assert_eq!(span.nanos(), Nanos(nanos));
            assert_eq!(span.to_string().parse::<TimeSpan>().unwrap(), span);
        }
        assert_eq!("0".parse::<TimeSpan>().unwrap(), TimeSpan::ZERO);
        assert_eq!("forever".parse::<TimeSpan>().unwrap(), TimeSpan::FOREVER);
        for text in ["", "5", "-1s", "1 fortnight", "s", "1..2s", "nan", "inf"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
        let rate: Bandwidth = "800MB/s".parse().unwrap();
        assert_eq!(rate.time_for(800_000_000), Nanos(1_000_000_000));
        assert_eq!(rate.to_string(), "800MB/s");
        assert!("0GB/s".parse::<Bandwidth>().is_err());
    }
}
