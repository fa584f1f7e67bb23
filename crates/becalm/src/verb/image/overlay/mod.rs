//! `becalm image overlay`.

pub mod view;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use image::container;
use image_format::ext3::{self, Ext3Overlay};
use rustix::process::{getgid, getuid};

use super::build;
use crate::exit::{Failure, USAGE};
use crate::produced;
use view::Overlaid;

/// Make an ext3 image for a container to write to, alone or in a SIF
///
/// As `apptainer overlay create` makes it, without needing mkfs.ext3: directories `upper` and
/// `work` that belong to you. A file that is there is never written over. One container at a time
/// may write to it. SOURCE_DATE_EPOCH sets the times in it; the same wishes make the same bytes.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm image overlay overlay.img 10G
  becalm image overlay --sparse --create-dir /opt/env overlay.img 100G
  becalm image overlay app-rw.sif 2G --sif app.sif      a new SIF: app.sif and an overlay")]
pub struct ImageOverlayArgs {
    /// The file to make
    out: PathBuf,

    /// Its size, from 64M to 16T: a number with K, M, G or T, of 1024
    #[arg(value_parser = size)]
    size: u64,

    /// Make this directory in the overlay, and those above it
    #[arg(long, value_name = "DIR")]
    create_dir: Vec<PathBuf>,

    /// Take room on the disk only as the overlay fills; a full disk is then found out late
    #[arg(long)]
    sparse: bool,

    /// Make OUT a SIF that holds all that this one holds, and the overlay
    #[arg(long, value_name = "SIF")]
    sif: Option<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.image.overlay.md)
    #[arg(long)]
    json: bool,
}

/// A size as it is written: `512M`, `10GiB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let unit = text[digits.len()..].to_ascii_uppercase();
    let shift = match unit.strip_suffix("IB").unwrap_or(&unit) {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("give a number and a unit, such as 512M or 10G".to_owned()),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match number {
        Some(number) if ext3::SIZES.contains(&number) => Ok(number),
        _ => Err("an ext3 image has 64M at least and less than 16T".to_owned()),
    }
}

/// Whose a new layer is: user and group.
pub(super) fn owner() -> (u32, u32) {
    (getuid().as_raw(), getgid().as_raw())
}

/// Runs the verb.
pub fn run(args: &ImageOverlayArgs) -> Result<u8, Failure> {
    let overlay = Ext3Overlay {
        size: args.size,
        owner: owner(),
        directories: args.create_dir.clone(),
        created: now()?,
        sparse: args.sparse,
    };
    let waiting = term::ProgressBar::new();
    let (image, bytes) = match &args.sif {
        None => (container::overlay(&args.out, &overlay)?, overlay.size),
        Some(base) => {
            let progress = |progress| build::tell(&waiting, progress);
            let (image, sealed) = container::with_overlay(base, &args.out, &overlay, &progress)?;
            (image, sealed.bytes)
        }
    };
    drop(waiting);
    produced::keep(image, format!("image overlay {}", term::quoted_path(&args.out)), true)?;
    let overlaid = Overlaid::of(&args.out, args.sif.as_deref(), bytes, &overlay);
    term::print_answer(args.json, &overlaid, |_| overlaid.render())?;
    Ok(0)
}

/// Seconds since 1970: of <https://reproducible-builds.org/specs/source-date-epoch/>, or now.
fn now() -> Result<i64, Failure> {
    let Some(epoch) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        return Ok(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    };
    let seconds = epoch.to_str().and_then(|text| text.parse().ok());
    let error = || anyhow!("SOURCE_DATE_EPOCH is no number of seconds");
    seconds.ok_or_else(|| Failure { status: USAGE, error: error() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit() {
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("1t"), Ok(1 << 40));
        for wrong in
            ["", "G", "64", "63M", "16T", "99999999999999999999G", "-1G", "1.5G", "1 G", "é"]
        {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
