//! Standard output, kept from the command.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use anyhow::Context;

/// The standard output that becalm was started with, while the command writes to standard
/// error instead: what becalm prints is then all that a reader of it gets.
pub struct StdoutRedirect {
    out: File,
}

impl StdoutRedirect {
    /// Puts standard error in the place of standard output, for this process and all that it
    /// starts from now on, `if_asked`: where JSON is to be had of a verb that runs a command.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn to_stderr(if_asked: bool) -> io::Result<Option<StdoutRedirect>> {
        if !if_asked {
            return Ok(None);
        }
        // The copy closes on exec.
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(Some(StdoutRedirect { out: out.into() }))
    }

    /// Prints to what was standard output.
    ///
    /// # Errors
    /// Those of writing.
    pub fn print(mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes()).context("standard output")
    }
}
