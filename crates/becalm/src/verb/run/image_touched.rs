//! Files that an image was made of and that were touched since: each start reads them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use image::mount::Entered;
use recording::shown_name;

use super::calm::CalmLaunch;

/// So many are read in less time than a person notices.
const FEW: u64 = 100;

/// Says of each image that many were read, and how to build it again.
pub fn say(entered: &Entered, calm: Option<&CalmLaunch>, command: &[OsString]) {
    for compared in entered.compared.iter().filter(|compared| compared.read > FEW) {
        let again = match calm {
            Some(calm) => format!(" is written again: {}", calm.write_again()),
            None => {
                let command = if compared.is_traced { command } else { &[] };
                build_again(&compared.image, over(entered, &compared.image), command)
            }
        };
        term::warn(&format!(
            "{} that {} was made of were touched since (chmod, chown, cp -a), and read to see that they \
             are the same; so does each start until it{again}",
            term::number::counted(compared.read, "file", "files"),
            shown_name(&compared.image),
        ));
    }
}

fn over<'e>(entered: &'e Entered, image: &Path) -> &'e [PathBuf] {
    let beside = entered.beside.iter().find(|beside| beside.image == image);
    beside.map_or(&entered.over, |beside| &beside.over)
}

/// What builds an image again for the command that is run now. What a SIF has besides nobody knows.
fn build_again(image: &Path, over: &[PathBuf], command: &[OsString]) -> String {
    if image.extension().is_some_and(|extension| extension == "sif") {
        return " is built again".to_owned();
    }
    let words = ["becalm", "image", "build", "-o"].map(OsString::from).into_iter();
    let words = words.chain([image.into()]).chain(over.iter().map(OsString::from));
    let separator = (!command.is_empty()).then(|| "--".into());
    let words: Vec<OsString> = words.chain(separator).chain(command.iter().cloned()).collect();
    format!(" is built again: {}", term::shell_line(&words))
}
