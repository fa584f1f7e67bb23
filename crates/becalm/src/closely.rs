//! How closely to look whether what was packed has changed since.

use image::mount::Freshness;
use python::bundle::Check;

/// What images and bundles are asked alike on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Closely {
    Quick,
    Full,
    No,
}

impl From<Closely> for Check {
    fn from(closely: Closely) -> Check {
        match closely {
            Closely::Quick => Check::Quick,
            Closely::Full => Check::Full,
            Closely::No => Check::No,
        }
    }
}

impl From<Closely> for Freshness {
    fn from(closely: Closely) -> Freshness {
        match closely {
            Closely::Quick => Freshness::Quick,
            Closely::Full => Freshness::Full,
            Closely::No => Freshness::No,
        }
    }
}
