//! Versions of Modules.

use serde::{Deserialize, Serialize};

use crate::tcl::dictionary;

/// A release of Modules: `5.2.0`, `5.7.0+29-g1b2c3d4`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    text: String,
}

impl Release {
    /// From its text.
    pub fn parse(text: &str) -> Release {
        Release { text: text.to_owned() }
    }

    /// As Modules writes it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its first two numbers: 5 and 2 of `5.2.0`. What is no number is 0.
    pub fn number(&self) -> (u32, u32) {
        let mut parts = self.text.split('.').map(|part| {
            let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse().unwrap_or(0)
        });
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Whether `other` is a later one, as Modules compares them (`versioncmp`).
    pub fn is_older_than(&self, other: &str) -> bool {
        dictionary(&self.text, other).is_lt()
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
