//! The image that a recorded command was started in already.

use std::path::Path;

use recording::{Exec, Recording};

use crate::CalmFile;
use crate::python::to_path;

/// Why there is to be no image of what an image serves already.
pub(crate) const IN_AN_IMAGE: &str = "becalm ran the command in an image already";

/// The image that `becalm run` had a command of the recording see, as `--image` or a calm file names it.
pub(crate) fn launched_image(recording: &Recording) -> Option<String> {
    let mut execs = recording.processes.iter().flat_map(|process| &process.execs);
    execs.find_map(|exec| image_of(recording, exec))
}

fn image_of(recording: &Recording, exec: &Exec) -> Option<String> {
    let [program, verb, options @ ..] = &exec.argv[..] else { return None };
    if program.rsplit('/').next() != Some("becalm") || verb != "run" {
        return None;
    }
    let words = options.iter().map(String::as_str).take_while(|word| *word != "--");
    let mut named = words.clone();
    let option = named.find(|word| word.starts_with("--image") || word.starts_with("--sif"));
    let image = option.and_then(|word| match word.split_once('=') {
        Some((_, image)) => Some(image),
        None => named.next(),
    });
    let directory = to_path(recording.path(exec.cwd));
    // Which words are options' values need not be known: they are no calm files.
    let mut words = words.filter(|word| !word.starts_with('-'));
    image.map(str::to_owned).or_else(|| words.find_map(|word| image_by(&directory.join(word))))
}

/// The image that a calm file names.
fn image_by(calm_file: &Path) -> Option<String> {
    let image = CalmFile::read(calm_file).ok()?.image?;
    Some(recording::shown(image.file.as_os_str().as_encoded_bytes()).to_string())
}
