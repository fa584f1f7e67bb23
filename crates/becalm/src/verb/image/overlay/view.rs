//! The screen of `becalm image overlay`.

use std::path::{Path, PathBuf};

use recording::{ByteUnits, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::bytes;
use term::{plain, quoted_path, style};

/// What `becalm image overlay` answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Overlaid {
    /// `becalm.image.overlay/1`.
    pub schema: &'static str,
    /// What was written.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The size of the overlay in it.
    pub overlay_bytes: u64,
    /// Whose the overlay is: user and group.
    pub owner: (u32, u32),
    /// Whether the overlay takes room on the disk only as it fills.
    pub sparse: bool,
    /// The SIF that it was added to, as a new file; none where it is alone.
    pub sif: Option<String>,
    #[serde(skip)]
    path: PathBuf,
}

impl Overlaid {
    /// An overlay that was written to `path`, alone or with what `sif` holds.
    pub fn of(
        path: &Path,
        sif: Option<&Path>,
        bytes: u64,
        overlay: &image_format::ext3::Ext3Overlay,
    ) -> Self {
        Overlaid {
            schema: "becalm.image.overlay/1",
            file: shown_name(path),
            bytes,
            overlay_bytes: overlay.size,
            owner: overlay.owner,
            sparse: overlay.sparse,
            sif: sif.map(shown_name),
            path: path.to_owned(),
        }
    }

    /// The answer as a person reads it.
    pub fn render(&self) -> String {
        let (user, group) = self.owner;
        let with = self.sif.as_ref().map(|sif| format!(" over {}", plain(sif)));
        let headline = format!(
            "{}: ext3 overlay of {}{} for user {user}, group {group}",
            plain(&self.file),
            bytes(ByteUnits(self.overlay_bytes)),
            with.unwrap_or_default(),
        );
        let file = quoted_path(&self.path);
        let program = container_program();
        let next = match self.sif {
            Some(_) => format!("{program} shell --writable {file}"),
            None => format!("{program} shell --overlay {file} container.sif"),
        };
        style::headline(&headline, usize::MAX) + &style::next(&next)
    }
}

/// What runs containers here; both take the same words.
fn container_program() -> &'static str {
    let is_here = |name: &&str| launch::Command::of(vec![name.into()]).file().is_ok();
    ["apptainer", "singularity"].into_iter().find(is_here).unwrap_or("apptainer")
}
