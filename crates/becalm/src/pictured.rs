//! `--html FILE`: a picture of what a verb answers.

use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PathBufValueParser, TypedValueParser};
use explain::ExplainOptions;
use picture::{Comparison, Picture, PicturedCure, PicturedStart};
use recording::Recording;

use crate::save::{self, OutputKind};

/// What stands for standard output.
const STDOUT: &str = "-";

/// A file, of a verb whose standard output is its command's.
pub fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|file| match file.as_os_str() == STDOUT {
        true => Err("give a file's name: standard output is the command's"),
        false => Ok(file),
    })
}

/// Whether a picture goes to standard output, where nothing else can stand.
pub fn is_stdout(target: Option<&Path>) -> bool {
    target.is_some_and(|target| target.as_os_str() == STDOUT)
}

/// What is written.
pub const PICTURE: OutputKind = OutputKind {
    what: "picture",
    kind: "HTML page",
    is_one: |start| {
        let is_page = |page: &&[u8]| start.starts_with(page);
        [&b"<!doctype html"[..], b"<!DOCTYPE html", b"<html"].iter().any(is_page)
    },
};

/// Writes a picture of the recording in `source` to a file, whole or not at all; or to standard
/// output.
///
/// # Errors
/// Those of writing.
pub fn write(picture: &Picture, target: &Path, source: &Path) -> anyhow::Result<()> {
    if is_stdout(Some(target)) {
        let mut out = BufWriter::new(stdout().lock());
        return picture.write(&mut out).and_then(|()| out.flush()).context("standard output");
    }
    PICTURE.may_replace(target)?;
    Ok(save::whole(target, source, |out| picture.write(out))?)
}

/// The picture of a recording and, if there is one, of another after a change.
pub fn of_recordings(
    (file, recording): (&Path, &Recording),
    after: Option<(&Path, &Recording)>,
    options: &ExplainOptions,
) -> Picture {
    let start = |label: &str, file: &Path, recording: &Recording| {
        let options = ExplainOptions { recording: term::quoted_path(file), ..options.clone() };
        let findings = explain::explain(recording, &options);
        let command = format!("becalm fix -- {}", term::shell_line(&findings.command));
        let is_slow = !findings.storms.is_empty();
        let mut start = PicturedStart::of(label, recording, findings, &options);
        if is_slow {
            let text = "Say on the machine where it starts what would calm it".to_owned();
            start.cures = vec![PicturedCure { text, command: Some(command), gain: String::new() }];
        }
        start
    };
    let Some((after_file, after)) = after else {
        return Picture::of_starts(vec![start("start", file, recording)]);
    };
    let (before, after_it) = (start("before", file, recording), start("after", after_file, after));
    let note = (before.program() != after_it.program()).then(|| {
        let (one, other) = (before.program(), after_it.program());
        format!("These are starts of two programs, {one} and {other}: not of one before and after a change.")
    });
    let picture = Picture::of_two(before, after_it, Comparison::of(recording, after));
    match note {
        Some(note) => picture.with_note(note),
        None => picture,
    }
}
