//! `becalm export`.

use crate::exit::Failure;

/// TODO
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: &Args) -> Result<u8, Failure> {
    Err(anyhow::anyhow!("not built yet").into())
}
