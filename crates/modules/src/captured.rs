//! What a command writes, read back.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use rustix::fs::{MemfdFlags, memfd_create};

/// No answer is read beyond this, in bytes.
const MOST: u64 = 256 << 20;

/// Acts, and reads what was written meanwhile: standard output and standard error. This process's
/// own output goes the same way from then on: it is a stage.
pub(crate) fn captured<T>(
    act: impl FnOnce() -> Result<T, String>,
) -> Result<([String; 2], T), String> {
    let (mut stdout, mut stderr) = (capture(1)?, capture(2)?);
    let result = act()?;
    Ok(([text(&mut stdout)?, text(&mut stderr)?], result))
}

/// Makes a standard stream a file in memory.
fn capture(stream: u8) -> Result<File, String> {
    let made = memfd_create("becalm", MemfdFlags::CLOEXEC).and_then(|file| {
        match stream {
            1 => rustix::stdio::dup2_stdout(&file)?,
            _ => rustix::stdio::dup2_stderr(&file)?,
        }
        Ok(File::from(file))
    });
    made.map_err(|error| error.to_string())
}

fn text(file: &mut File) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(MOST).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
