//! `becalm run --check`: how closely to look whether an image's sources have changed since.

use image::mount::Freshness;

/// How closely to look.
#[derive(clap::Args)]
#[group(skip)]
pub struct RunFreshnessArgs {
    /// How closely to look whether what was packed, and what a calm file relies on, has changed
    /// since: at the times of all directories and of what the trace opened, at every file, or not
    /// at all
    #[arg(
        long, value_name = "HOW", value_enum, requires = "mounted",
        default_value_t = ImageFreshness::Quick
    )]
    pub check: ImageFreshness,
}

/// [`Freshness`], as the command line names it.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum ImageFreshness {
    Quick,
    Full,
    No,
}

impl From<ImageFreshness> for Freshness {
    fn from(freshness: ImageFreshness) -> Freshness {
        match freshness {
            ImageFreshness::Quick => Freshness::Quick,
            ImageFreshness::Full => Freshness::Full,
            ImageFreshness::No => Freshness::No,
        }
    }
}
