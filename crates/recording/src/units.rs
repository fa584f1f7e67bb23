//! Numbers that say their unit.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A span of time, or a moment counted from the start of the recording, in nanoseconds.
#[derive(
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// As seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(parts: I) -> Nanos {
        parts.fold(Nanos(0), |sum, part| sum + part)
    }
}

/// A span of time in microseconds: what `getrusage` counts in.
#[derive(
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl Micros {
    /// As seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// A size in bytes.
#[derive(
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct ByteUnits(pub u64);

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Duration {
        Duration::from_micros(span.0)
    }
}

impl From<ByteUnits> for u64 {
    fn from(size: ByteUnits) -> u64 {
        size.0
    }
}
