//! Files that an image was made of and that were touched since: each start reads them.

use std::env;
use std::path::{Path, PathBuf};

use image::mount::{ComparedSources, Entered};
use recording::shown_name;

use super::calm::CalmLaunch;

/// So many are read in less time than a person notices.
const FEW: u64 = 100;

/// Says of each image that many were read, and how to build it again.
pub fn say(entered: &Entered, calm: Option<&CalmLaunch>) {
    for compared in entered.compared.iter().filter(|compared| compared.read > FEW) {
        let again = match calm {
            Some(calm) => format!(" is written again: {}", calm.write_again()),
            // What a SIF has besides nobody knows.
            None if compared.image.extension().is_some_and(|extension| extension == "sif") => {
                " is built again".to_owned()
            }
            None => {
                let over = over(entered, &compared.image);
                format!(" is built again: {}", build_again(compared, over))
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

/// What builds an image again, in the order of the command that it was built for.
fn build_again(compared: &ComparedSources, over: &[PathBuf]) -> String {
    let build = |image: &Path| {
        format!("becalm image build -o {} {}", term::quoted_path(image), term::shell_line(over))
    };
    let image = &compared.image;
    let Some(trace) = &compared.trace else { return build(image) };
    match &compared.traced_in {
        Some(directory) if env::current_dir().is_ok_and(|here| here == Path::new(directory)) => {
            format!("{} -- {trace}", build(image))
        }
        Some(directory) => {
            let image = std::path::absolute(image).unwrap_or_else(|_| image.clone());
            format!("cd {} && {} -- {trace}", term::quoted_path(directory), build(&image))
        }
        None if Path::new(trace).is_file() => {
            format!("{} --trace {}", build(image), term::quoted_path(trace))
        }
        None => format!("{} -- CMD", build(image)),
    }
}
