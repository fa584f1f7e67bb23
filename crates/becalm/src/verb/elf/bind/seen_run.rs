//! A run whose loads are bound: one that is made now, or one that was recorded.

use std::path::PathBuf;

use cure::SeenStarts;
use loader::bind::UnboundFile;
use recording::Recording;

use super::ElfBindArgs;
use crate::exit::Failure;
use crate::{load, recorded};

/// What was seen of a run.
pub struct SeenRun {
    /// How its programs started and went on.
    pub starts: SeenStarts,
    /// What they loaded that is there and not the system's.
    pub loaded: Vec<PathBuf>,
}

/// The run that is asked for; none, where none is.
pub fn of(args: &ElfBindArgs) -> Result<Option<SeenRun>, Failure> {
    let recording = match &args.recording {
        Some(file) => load::load(file)?,
        None if args.run => {
            let (recording, finished) = recorded::and_read(&recorded::RecordRequest {
                calls: watch::WatchedCalls::MetadataOnly,
                ..recorded::RecordRequest::of(&args.command)
            })?;
            recorded::say_what_is_missing(&finished);
            recording
        }
        None => return Ok(None),
    };
    Ok(Some(SeenRun::of(&recording)))
}

impl SeenRun {
    fn of(recording: &Recording) -> SeenRun {
        SeenRun { starts: cure::seen_starts(recording), loaded: cure::loaded_files(recording) }
    }

    /// Programs of which it is not known what they opened.
    pub fn left_out(self) -> impl Iterator<Item = UnboundFile> {
        let reason = |why| format!("what it opened while it ran is not bound: {why}");
        let unexplained = self.starts.unexplained.into_iter();
        unexplained.map(move |(path, why)| UnboundFile { path, reason: reason(why) })
    }
}
