//! A recording that ends before its program does: it was watched for its start alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// When a program was let go of, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LetGo {
    /// When, counted from the recording's start.
    pub at: Nanos,
    /// Why.
    pub why: LetGoReason,
    /// When MPI_Init was first called, counted from the recording's start; not there where it was not,
    /// or was not waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_init: Option<Nanos>,
}

/// What ended the watching.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LetGoReason {
    /// MPI_Init had returned from every process that has one.
    MpiInit,
    /// Nothing new had been opened for so long.
    Quiet {
        /// How long.
        nanos: Nanos,
    },
    /// So much time had passed.
    Passed {
        /// How much.
        nanos: Nanos,
    },
    /// A program was executed.
    Exec {
        /// As it was named.
        name: String,
    },
    /// A file was opened.
    Open {
        /// Its path, lossily decoded.
        path: String,
    },
    /// The user asked for it: Ctrl-\, or Ctrl-C of what was attached to.
    Asked,
}

impl LetGo {
    /// For a reader: how long it was watched, and until what.
    pub fn words(&self) -> String {
        let seconds = |nanos: Nanos| term::number::time(std::time::Duration::from_nanos(nanos.0));
        let why = match &self.why {
            LetGoReason::MpiInit => "MPI_Init had returned".to_owned(),
            LetGoReason::Quiet { nanos } => {
                format!("nothing new was opened for {}", seconds(*nanos))
            }
            LetGoReason::Passed { nanos } => format!("{} had passed", seconds(*nanos)),
            LetGoReason::Exec { name } => format!("{} was executed", term::plain(name)),
            LetGoReason::Open { path } => format!("{} was opened", term::plain(path)),
            LetGoReason::Asked => "it was asked to stop".to_owned(),
        };
        format!("watched until {why} ({}), then let go", seconds(self.at))
    }
}
