//! An answer written as the tool wrote it.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};

use launch::Ended;
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
                    Some(child) => {
                        // Who has left it has seen enough.
                        let _ = child.stdin.as_mut().map(|pipe| pipe.write_all(text));
                        Some(())
                    }
                    None if given => written(WrittenTo::Stderr, text),
                    None => None,
                }
            }
            WrittenTo::PagerEnded => {
                finish(&mut paging);
                Some(())
            }
            to => written(*to, text),
        };
        match done {
            Some(()) => given = true,
            None if !given => return None,
            None => return Some(Ended::Exited(1)),
        }
    }
    finish(&mut paging);
    Some(ended)
}

fn start(pager: &[Vec<u8>]) -> Option<Child> {
    let (program, words) = pager.split_first()?;
    let stderr = rustix::stdio::stderr().try_clone_to_owned().ok()?;
    let mut command = Command::new(OsStr::from_bytes(program));
    command.args(words.iter().map(|word| OsStr::from_bytes(word)));
    command.stdin(Stdio::piped()).stdout(stderr).spawn().ok()
}

fn finish(paging: &mut Option<Child>) {
    if let Some(mut child) = paging.take() {
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

fn written(to: WrittenTo, text: &[u8]) -> Option<()> {
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
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(())
}
