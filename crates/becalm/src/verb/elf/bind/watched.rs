//! `becalm elf bind --watch`: what is installed is bound once nothing is written any more.

use std::time::Duration;

use loader::InstallWatch;
use loader::bind::BindOptions;
use modules::cache::is_remote_filesystem;

use super::ElfBindArgs;
use crate::exit::Failure;

/// Binds the trees, and again after each installation, until it is interrupted.
///
/// # Errors
/// If the trees can no longer be watched. What cannot be planned or applied is told, and tried again after the
/// next change.
pub fn run(args: &ElfBindArgs, options: &BindOptions) -> Result<u8, Failure> {
    let paths = args.paths();
    let mut watch = InstallWatch::over(&paths).map_err(anyhow::Error::from)?;
    for path in paths.iter().filter(|path| is_remote_filesystem(path)) {
        let path = path.display();
        term::warn(&format!("{path}: what other machines install there is not noticed here"));
    }
    let directories = term::number::counted(watch.directories() as u64, "directory", "directories");
    term::warn(&format!("watching {directories}"));
    let mut is_first = true;
    loop {
        match super::bind(args, options) {
            // Each binding changes files, and is followed by a look at what it did.
            Ok(answer) if is_first || answer.applied.is_some() => {
                answer.print(args, None)?;
                if answer.asked.is_some() {
                    return Ok(answer.status());
                }
            }
            Ok(_) => {}
            // It was asked to end.
            Err(why) if why.status > 128 => return Err(why),
            Err(why) => term::warn(&format!("not bound: {:#}", why.error)),
        }
        is_first = false;
        watch.wait(Duration::from_secs(args.quiet)).map_err(anyhow::Error::from)?;
    }
}
