//! The `--` between a container and the words that it is run with: `becalm run x.sif --steps 10`, as
//! with `apptainer run`, whose options stand before the container.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;

use super::{dashes, leaf};
use crate::verb::run;

/// The same words, with what is behind a container that is run kept from being read as becalm's.
pub fn separated(command: &mut Command, words: &[OsString]) -> Vec<OsString> {
    let mut words = words.to_vec();
    command.build();
    let (verb, first) = leaf(command, &words);
    if first != 2 || verb.get_name() != "run" {
        return words;
    }
    let Some(at) = dashes::first_word(verb, &words, first) else { return words };
    if run::is_container(Path::new(&words[at])) && words.get(at + 1).is_none_or(|it| it != "--") {
        words.insert(at + 1, "--".into());
    }
    words
}
