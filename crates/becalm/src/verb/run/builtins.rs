//! `becalm run --builtins`: programs that bash runs in its own process.

use std::ffi::OsString;

use fork::builtins::{self, Known, Prepared};
use recording::shown_name;

use crate::exit::Failure;

/// Whether bash is given builtins.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Have bash scripts run mkdir, mv, rm, dirname and the like in bash's own process, where that
    /// is the same, and start others without a copy of bash; see docs/run-builtins.md
    #[arg(long, group = "means")]
    builtins: bool,
}

/// Prepares the builtins, if they are asked for, and says what docs/schema/becalm.run.md describes.
pub fn prepare(
    args: &Args,
    variables: &mut Vec<(OsString, OsString)>,
) -> Result<Option<serde_json::Value>, Failure> {
    if !args.builtins {
        return Ok(None);
    }
    let users = std::env::var_os("BASH_ENV");
    let prepared = builtins::prepare(users.as_deref()).map_err(Failure::of_command)?;
    let about = about(&prepared);
    variables.push(("BASH_ENV".into(), prepared.bash_env));
    Ok(Some(about))
}

fn about(prepared: &Prepared) -> serde_json::Value {
    let mut inside = Vec::new();
    let mut only_started = Vec::new();
    for program in &prepared.programs {
        match &program.known {
            Known::Yes { file, version } => inside.push(serde_json::json!({
                "name": program.name, "file": shown_name(file), "version": version
            })),
            Known::No { why } => only_started.push(serde_json::json!({
                "name": program.name, "why": why
            })),
        }
    }
    serde_json::json!({
        "bash_env": shown_name(&prepared.bash_env),
        "inside": inside,
        "only_started": only_started,
    })
}
