//! Changes of files that end early, with every file as it was, where becalm is asked to end.

use crate::exit::Failure;

/// Does work that asks, until it can no longer be left, whether to end; and what asked it to, where it was done all
/// the same.
pub fn unless_asked_to_end<R>(
    work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<R, remedy::Error>,
    failed: impl FnOnce(remedy::Error) -> Failure,
) -> Result<(R, Option<EndingSignal>), Failure> {
    let noted = launch::NotedEnd::begin();
    let done = work(&|| noted.signal().is_some());
    let signal = noted.signal().map(EndingSignal);
    match (done, signal) {
        (Err(error @ remedy::Error::AskedToEnd), Some(signal)) => {
            Err(Failure { status: signal.status(), error: error.into() })
        }
        (done, signal) => Ok((done.map_err(failed)?, signal)),
    }
}

/// Fails, with the status that a shell gives for the signal, where one has come meanwhile.
pub fn not_asked_to_end(end: &launch::EndRequests) -> Result<(), Failure> {
    let interrupted = |signal| Failure {
        status: EndingSignal(signal).status(),
        error: anyhow::anyhow!("interrupted"),
    };
    end.signal().map_or(Ok(()), |signal| Err(interrupted(signal)))
}

/// A signal that asked becalm to end.
#[derive(Clone, Copy, Debug)]
pub struct EndingSignal(i32);

impl EndingSignal {
    /// The status that a shell gives for it.
    pub fn status(self) -> u8 {
        128u8.wrapping_add(self.0 as u8)
    }
}
