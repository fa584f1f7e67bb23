//! An answer written as the tool wrote it.

use std::ffi::OsString;
use std::io::{PipeWriter, Write, pipe};
use std::os::unix::ffi::OsStringExt;

use launch::{Command, Ended};
use rustix::io::Errno;
use watch::dependencies::WrittenTo;

/// Writes an answer; none where the first part cannot be written. A pager is started by its words, and
/// waited for where the tool waited for it.
pub(super) fn give(
    output: &[(WrittenTo, Vec<u8>)],
    pager: &[Vec<u8>],
    ended: Ended,
) -> Option<Ended> {
    let mut given = false;
    let mut paging = None;
    for (to, text) in output {
        let done = match to {
            WrittenTo::Pager => {
                if paging.is_none() {
                    paging = start(pager);
                }
                match &mut paging {
                    Some(pager) => {
                        // Who has left it has seen enough.
                        let _ = pager.input.write_all(text);
                        Ok(())
                    }
                    None if given => written(WrittenTo::Stderr, text),
                    None => return None,
                }
            }
            WrittenTo::PagerEnded => {
                finish(&mut paging);
                Ok(())
            }
            to => written(*to, text),
        };
        match done {
            Ok(()) => given = true,
            Err(_) if !given => return None,
            // What was written cannot be taken back for the tool to begin anew.
            Err(error) => {
                term::warn(&format!("the answer cannot be written: {error}"));
                return Some(Ended::Exited(1));
            }
        }
    }
    finish(&mut paging);
    Some(ended)
}

/// A pager that is running.
struct StartedPager {
    pid: i32,
    input: PipeWriter,
}

/// With standard error as its output, as tools have it.
fn start(words: &[Vec<u8>]) -> Option<StartedPager> {
    let command = Command::of(words.iter().cloned().map(OsString::from_vec).collect());
    command.file().ok()?;
    let (output, input) = pipe().ok()?;
    let become_pager = |output| {
        let placed = rustix::stdio::dup2_stdin(&output)
            .and_then(|()| rustix::stdio::dup2_stdout(rustix::stdio::stderr()));
        if placed.is_ok() {
            launch::replace(&command, &[]);
        }
        127
    };
    let (pid, _) = launch::fork_with(output, become_pager).ok()?;
    Some(StartedPager { pid, input })
}

fn finish(paging: &mut Option<StartedPager>) {
    if let Some(StartedPager { pid, input }) = paging.take() {
        drop(input);
        let _ = launch::wait_for(pid, 0);
    }
}

fn written(to: WrittenTo, text: &[u8]) -> Result<(), Errno> {
    let mut rest = text;
    while !rest.is_empty() {
        let written = match to {
            WrittenTo::Stdout => rustix::io::write(rustix::stdio::stdout(), rest),
            WrittenTo::Stderr | WrittenTo::Pager | WrittenTo::PagerEnded => {
                rustix::io::write(rustix::stdio::stderr(), rest)
            }
        };
        match written {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
