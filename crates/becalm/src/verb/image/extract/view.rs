//! `becalm image extract`: what was unpacked, and what could not be as it was.

use std::path::{Path, PathBuf};

use image::extract::Extracted;
use recording::{ByteUnits, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{bytes, counted};
use term::{plain, quoted_path, style};

/// How many devices that were left out are named.
const NAMED: usize = 5;

/// What `becalm image extract` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Unpacked<'a> {
    /// `becalm.image.extract/1`.
    schema: &'static str,
    /// The image's file.
    image: String,
    /// The directory that was made.
    directory: String,
    #[serde(flatten)]
    extracted: &'a Extracted,
    #[serde(skip)]
    paths: (PathBuf, PathBuf),
}

impl<'a> Unpacked<'a> {
    /// What was unpacked from an image into a directory.
    pub fn of(image: &Path, directory: &Path, extracted: &'a Extracted) -> Unpacked<'a> {
        Unpacked {
            schema: "becalm.image.extract/1",
            image: shown_name(image),
            directory: shown_name(directory),
            extracted,
            paths: (image.to_owned(), directory.to_owned()),
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let it = self.extracted;
        let headline = format!(
            "{}: {} and {} of {}",
            plain(&self.directory),
            counted(it.files, "file", "files"),
            counted(it.directories, "directory", "directories"),
            bytes(ByteUnits(it.bytes)),
        );
        let lost: String = self.lost().iter().map(|line| format!("- {line}\n")).collect();
        let gap = if lost.is_empty() { "" } else { "\n" };
        let (image, directory) = (&self.paths.0, &self.paths.1);
        let next = match it.overlays.first() {
            Some(object) => {
                let mut beside = directory.as_os_str().to_owned();
                beside.push(format!(".{object}"));
                let (image, beside) = (quoted_path(image), quoted_path(beside));
                format!("becalm image extract --object {object} {image} {beside}")
            }
            None => format!("ls -l {}", quoted_path(directory)),
        };
        style::headline(&headline, columns) + gap + &lost + gap + &style::next(&next)
    }

    /// What is not as it was in the image, or where it was.
    fn lost(&self) -> Vec<String> {
        let it = self.extracted;
        let mut lines = Vec::new();
        if let Some(place) = &it.stands_for
            && *place != self.paths.1
        {
            lines.push(format!(
                "it was made of {}: scripts and settings in it may name that path",
                plain(&place.to_string_lossy())
            ));
        }
        if !it.owners {
            lines.push("all files are yours: only root can give them to others".to_owned());
        }
        if it.lost_xattrs > 0 {
            lines.push(format!(
                "{} could not be set",
                counted(it.lost_xattrs, "extended attribute", "extended attributes")
            ));
        }
        if !it.left_out.is_empty() {
            let named = it.left_out.iter().take(NAMED);
            let named: Vec<_> = named.map(|path| plain(&path.to_string_lossy())).collect();
            let named = named.join(", ");
            let rest = if it.left_out.len() > NAMED { ", …" } else { "" };
            let devices = counted(it.left_out.len() as u64, "device", "devices");
            lines.push(format!("{devices} that only root can make: {named}{rest}"));
        }
        for object in &it.overlays {
            lines.push(format!("object {object}, laid over this one when it runs, is not in it"));
        }
        lines
    }
}
