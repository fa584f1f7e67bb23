//! `becalm run --bundle`: a command whose Pythons import from a file of `becalm python bundle`'s.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use python::bundle::Bundle;
use recording::shown_name;

use crate::closely::Closely;
use crate::exit::Failure;

/// A bundle.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Have the command's Pythons import from this file, which `becalm python bundle` made
    #[arg(long, value_name = "FILE", groups = ["means", "packed"])]
    bundle: Option<PathBuf>,
}

/// Has the command find the bundle, if one is asked for, and says what docs/schema/becalm.run.md
/// describes.
pub fn find(
    args: &Args,
    check: Closely,
    command: &[OsString],
    variables: &mut Vec<(OsString, OsString)>,
) -> Result<Option<serde_json::Value>, Failure> {
    let Some(path) = &args.bundle else { return Ok(None) };
    let name = || show::plain(&path.to_string_lossy());
    let bundle = Bundle::open(path).with_context(name).map_err(Failure::of_command)?;
    if !python::may_hook(command) {
        show::warn("python -S looks for no bundle: it runs as without");
    }
    let given = std::env::var_os("PYTHONPATH");
    variables.extend(bundle.variables(given.as_deref(), check.into()));
    Ok(Some(serde_json::json!({ "file": shown_name(path) })))
}
