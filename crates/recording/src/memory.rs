//! A recording written and read in memory.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Header, Nanos, Recording, RecordingReadError, Writer};

/// Bytes that are read once the writer is done with them.
#[derive(Clone, Default)]
struct SharedBytes(Arc<Mutex<Vec<u8>>>);

impl SharedBytes {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for SharedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|all| all.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Recording {
    /// A recording of what `write` tells a writer: calls that were seen by other means than
    /// becalm's own, or are made up. `write` returns when the run ended, counted from its start.
    ///
    /// # Errors
    /// [`RecordingReadError`]: what was told makes no sense, such as a call of a process that never
    /// started.
    pub fn written_by(
        header: &Header,
        write: impl FnOnce(&mut Writer) -> Nanos,
    ) -> Result<Recording, RecordingReadError> {
        let bytes = SharedBytes::default();
        let mut writer = Writer::new(Box::new(bytes.clone()), header)?;
        let ended = write(&mut writer);
        writer.finish(ended)?;
        bytes.with(|bytes| Recording::read(&bytes[..]))
    }
}
