//! `becalm run --image --stage`: where nothing can be mounted, the image is unpacked into memory.

use std::ffi::OsString;
use std::path::PathBuf;

use image::mount::{self, MountRequest};
use image::stage::{self, Named, Staged};
use job::LaunchedRank;
use recording::shown_name;
use schemars::JsonSchema;
use serde::Serialize;

use super::image::EnteredImage;
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

/// Where an image is unpacked, as nothing can be mounted.
#[derive(Serialize, JsonSchema)]
pub struct UnpackedTree {
    /// Why nothing can be mounted.
    why: String,
    /// The tree: what the image's paths are for the command.
    tree: String,
    /// Bytes of its files.
    bytes: u64,
    /// How many files in it name a path of the image, and lead to the original.
    named: Named,
    /// Names of the variables whose paths lead into the tree now.
    variables: Vec<String>,
    /// The command as it is started.
    command: Vec<String>,
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
) -> Result<Option<EnteredImage>, Failure> {
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

fn about(staged: &Staged, why: &str) -> EnteredImage {
    let text = |words: &[OsString]| -> Vec<String> { words.iter().map(shown_name).collect() };
    EnteredImage {
        file: shown_name(&staged.image),
        over: staged.over.iter().map(shown_name).collect(),
        by: "stage",
        joined: staged.joined,
        hot_part: None,
        live: Vec::new(),
        sources_read: 0,
        beside: Vec::new(),
        conflicts: Vec::new(),
        staged: Some(UnpackedTree {
            why: why.to_owned(),
            tree: shown_name(&staged.tree),
            bytes: staged.bytes,
            named: staged.named,
            variables: text(&staged.changed),
            command: text(&staged.argv),
        }),
    }
}
