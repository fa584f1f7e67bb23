//! Data that is fetched by page faults: mapped files that are touched page by page.
//!
//! It is no storm of operations: what it waits for are requests for data, which no call makes. So
//! it claims none, and its wait is what the model gives to page faults.

use recording::query::data::{self, DataOrder};
use recording::{ByteUnits, PathId, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectedStorm, Storm, StormSource};
use crate::cost::FaultWait;
use crate::source_path::SourcePath;
use crate::survey::OpSurvey;
use crate::words::{count, counted};

/// Files that are named.
const NAMED: usize = 4;

/// What is fetched by page faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DataSource {
    /// One file.
    MappedFile {
        /// The file.
        path: SourcePath,
        /// The program that touched it first.
        program: String,
        /// Bytes of it that were mapped, each counted once.
        mapped_bytes: u64,
        /// Bytes of it that were touched, in parts of 64 KiB.
        touched_bytes: u64,
        /// In what order.
        order: DataOrder,
        /// Requests that this takes on a node that has nothing of the file, after readahead.
        requests: u64,
        /// Bytes that they bring.
        requested_bytes: u64,
    },
}

impl DataSource {
    pub(super) fn sentence(&self) -> String {
        let DataSource::MappedFile { path, mapped_bytes, touched_bytes, order, requests, .. } =
            self;
        let mapped = match mapped_bytes {
            0 => String::new(),
            mapped => format!(" of {} mapped", bytes(*mapped)),
        };
        format!(
            "{path}: {}{mapped}, {}, in {}",
            bytes(*touched_bytes),
            in_order(*order),
            counted(*requests, "request", "requests"),
        )
    }
}

/// What page faults fetch, where that is waited for.
pub(crate) fn detect(survey: &OpSurvey, wait: &FaultWait) -> Option<DetectedStorm> {
    let recording = survey.recording;
    let (worst, most) = wait.files.first()?;
    let used = data::files(recording);
    let touched = |path: &PathId| used.iter().find(|file| file.path == *path);
    let requests: u64 = wait.files.iter().map(|(_, data)| data.requests).sum();
    let all: u64 =
        wait.files.iter().filter_map(|(path, _)| touched(path)).map(|file| file.touched).sum();
    let program = toucher(recording, *worst);
    let what = match most.requests * 2 > requests {
        true => {
            let path = survey.shown_path(*worst);
            path.rsplit('/').next().unwrap_or(&path).to_owned()
        }
        false => counted(wait.files.len() as u64, "mapped file", "mapped files"),
    };
    let source = |(path, fetched): &(PathId, ::cost::FaultedData)| {
        let file = touched(path)?;
        Some(StormSource::Data(DataSource::MappedFile {
            path: survey.source_clean_path(*path),
            program: toucher(recording, *path),
            mapped_bytes: file.mapped,
            touched_bytes: file.touched,
            order: file.order,
            requests: fetched.requests,
            requested_bytes: fetched.bytes,
        }))
    };
    Some(DetectedStorm {
        storm: Storm::Data,
        title: format!(
            "{program} faults in {} of {what} page by page: {} requests",
            bytes(all),
            count(requests)
        ),
        cause:
            "a page of a mapped file is fetched when it is touched first, and the program waits \
                for it; readahead brings a little more, and only what lies beside it"
                .to_owned(),
        observed: "page faults of the processes that map 4 MiB or more of one file; each stands \
                   for 64 KiB around it"
            .to_owned(),
        claim: Vec::new(),
        avoidable: 0,
        inferred: Some(0),
        time: None,
        sources: wait.files.iter().take(NAMED).filter_map(source).collect(),
        evidence: "data",
    })
}

/// Who touched a file first.
fn toucher(recording: &Recording, path: PathId) -> String {
    let touch = recording.touches.iter().filter(|touch| touch.path == path).min_by_key(|it| it.at);
    let exec = touch.and_then(|touch| recording.program(touch.process, touch.at));
    exec.map_or_else(|| "a process".to_owned(), |exec| crate::who::name(recording, exec))
}

fn in_order(order: DataOrder) -> &'static str {
    match order {
        DataOrder::Sequential => "one part after the other",
        DataOrder::Scattered => "here and there",
    }
}

fn bytes(bytes: u64) -> String {
    term::number::bytes(ByteUnits(bytes))
}
