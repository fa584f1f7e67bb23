//! `becalm elf bind --watch`: what is installed is bound once nothing is written any more.

use std::time::Duration;

use loader::InstallWatch;
use loader::bind::BindOptions;
use modules::cache::is_remote_filesystem;

use super::ElfBindArgs;
use crate::asked_to_end::is_asked_to_end;
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
        let mut untold = None;
        let bound = super::bound_and_told(args, options, |answer| {
            // Each binding changes files, and is followed by a look at what it did.
            if is_first || answer.applied.is_some() {
                untold = answer.print(args, None).err();
            }
            Ok(())
        });
        match (bound, untold) {
            (Err(why), _) if is_asked_to_end(&why) => return Err(why),
            (_, Some(why)) => return Err(why),
            (Err(why), None) => term::warn(&format!("not bound: {:#}", why.error)),
            (Ok(_), None) => {}
        }
        is_first = false;
        watch.wait(Duration::from_secs(args.quiet)).map_err(anyhow::Error::from)?;
    }
}
