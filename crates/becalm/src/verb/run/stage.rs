//! `becalm run --image --stage`: where nothing can be mounted, the image is unpacked into memory.

use std::ffi::OsString;
use std::path::PathBuf;

use image::mount::{self, MountRequest};
use image::stage::{self, Named, Staged};
use job::LaunchedRank;
use recording::shown_name;

use crate::exit::Failure;

/// Whether an image may be staged.
#[derive(clap::Args)]
#[group(skip)]
pub struct RunStageArgs {
    /// Where nothing can be mounted, unpack the image for the time of the job, into memory of the
    /// node [default: /dev/shm, or TMPDIR where that is in memory]; see docs/run.md
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, requires = "mounted",
        conflicts_with = "by")]
    stage: Option<Option<PathBuf>>,
}

impl RunStageArgs {
    /// Whether it may.
    pub fn is_given(&self) -> bool {
        self.stage.is_some()
    }
}

/// Stages the image, if that may be and no mount can, and says what docs/schema/becalm.run.md
/// describes.
pub fn enter(
    args: &RunStageArgs,
    json: bool,
    wanted: &MountRequest,
    command: &mut launch::Command,
    variables: &mut Vec<(OsString, OsString)>,
) -> Result<Option<serde_json::Value>, Failure> {
    let Some(directory) = &args.stage else { return Ok(None) };
    let Some(why) = mount::why_impossible(wanted).map_err(Failure::of_command)? else {
        return Ok(None);
    };
    let waiting = term::ProgressBar::new();
    let progress = |done, of| waiting.tell("unpacking", done, of);
    let staged = stage::enter(wanted, directory.as_deref(), &command.argv, &progress);
    drop(waiting);
    let staged = staged.map_err(|error| {
        Failure::of_command(
            anyhow::Error::from(error).context(format!("nothing can be mounted ({why})")),
        )
    })?;
    // With --json it is in there.
    if !json && is_first(&staged) {
        say(&staged);
    }
    let about = about(&staged, &why);
    command.argv = staged.argv;
    variables.extend(staged.variables);
    Ok(Some(about))
}

/// Whether it is for this process to say what is otherwise than in a mount: once a job.
fn is_first(staged: &Staged) -> bool {
    match LaunchedRank::this_process() {
        Some(launched) => launched.rank.rank == 0,
        None => !staged.joined,
    }
}

fn say(staged: &Staged) {
    let Named { scripts, pth, rpaths } = staged.named;
    let over: Vec<_> = staged.over.iter().map(|path| path.display().to_string()).collect();
    term::warn(&format!(
        "nothing can be mounted here, so {} is unpacked in {}; files in it that name {} lead there \
         still (in bin: {scripts}, .pth: {pth}, RPATH: {rpaths})",
        staged.image.display(),
        staged.tree.display(),
        over.join(", ")
    ));
}

fn about(staged: &Staged, why: &str) -> serde_json::Value {
    let text = |words: &[OsString]| -> Vec<String> { words.iter().map(shown_name).collect() };
    let Named { scripts, pth, rpaths } = staged.named;
    serde_json::json!({
        "file": shown_name(&staged.image),
        "over": staged.over.iter().map(shown_name).collect::<Vec<_>>(),
        "by": "stage",
        "joined": staged.joined,
        "staged": {
            "why": why,
            "tree": shown_name(&staged.tree),
            "bytes": staged.bytes,
            "named": { "scripts": scripts, "pth": pth, "rpaths": rpaths },
            "variables": text(&staged.changed),
            "command": text(&staged.argv),
        },
    })
}
