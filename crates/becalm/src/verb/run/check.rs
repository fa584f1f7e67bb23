//! `becalm run --check`: whether what was packed has changed since.

use crate::closely::Closely;

/// How closely to look.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// How closely to look whether what was packed has changed since: at the times of all
    /// directories and of what the trace opened, at every file, or not at all
    #[arg(
        long, value_name = "HOW", value_enum, requires = "packed", default_value_t = Closely::Quick
    )]
    pub check: Closely,
}
