//! Files that a verb writes where it was asked to.

use std::path::Path;

pub use recording::save::whole;
use serde::Serialize;

/// Writes an answer as JSON where a file was named for it, as [`whole`].
///
/// # Errors
/// As [`whole`].
pub fn json(target: Option<&Path>, source: &Path, answer: &impl Serialize) -> anyhow::Result<()> {
    let Some(target) = target else { return Ok(()) };
    let json = term::json(answer)?;
    Ok(whole(target, source, |out| out.write_all(json.as_bytes()))?)
}
