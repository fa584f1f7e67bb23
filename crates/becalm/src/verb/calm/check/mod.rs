//! `becalm calm check`.

pub mod view;

use std::path::PathBuf;

use cure::CalmFile;
use image::mount::{self, Freshness, MountRequest};
use remedy::FileLook;

use crate::exit::{Failure, NO};
use crate::machine;
use view::CalmChecked;

/// Say whether a calm file still holds: whether all that it relies on has the same content
///
/// `becalm run` looks at sizes and times; this reads the files that it relies on, its copies and its
/// image. What the image was made of is compared by times and sizes: of every file. Directories that
/// are searched in another order are listed: no name may be found elsewhere for that. Exit status 0: it
/// holds; 1: it does not.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  becalm calm check app.calm")]
pub struct CalmCheckArgs {
    /// The calm file
    #[arg(value_name = "CALM")]
    file: PathBuf,

    /// Print one JSON object (docs/schema/becalm.calm.check.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &CalmCheckArgs) -> Result<u8, Failure> {
    let calm = CalmFile::read(&args.file)?;
    let mut changes = calm.changes(FileLook::Content);
    changes.extend(calm.changes_ahead());
    changes.extend(calm.changes_of_order(&machine::here()));
    let reasons = [calm.why_not_executable(), calm.why_images_are_elsewhere()];
    let mut reasons: Vec<String> = reasons.into_iter().flatten().collect();
    let first = calm.image.iter().map(|image| (image, None));
    let beside = calm.beside.iter().map(|beside| (&beside.image, beside.at.clone()));
    let images = first.chain(beside);
    let mut sources = Vec::new();
    for (image, at) in images.filter(|(image, _)| !changes.iter().any(|one| one.path == image.file))
    {
        let wanted = MountRequest {
            image: Some(image.file.clone()),
            at,
            freshness: Freshness::Full,
            ..MountRequest::default()
        };
        match mount::compare(&wanted) {
            Ok(compared) => sources.extend(compared),
            Err(why) => reasons.push(why.to_string()),
        }
    }
    let checked = CalmChecked::of(&args.file, &calm, &changes, reasons).with_sources(&sources);
    term::print_answer(args.json, &checked, |columns| checked.render(columns))?;
    Ok(if checked.holds() { 0 } else { NO })
}
