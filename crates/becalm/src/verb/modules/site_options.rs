//! What the verbs for an admin ask for alike: modulepaths, Modules, users.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use modules::site::{Environment, ModulepathOddity, ModulesSite, User, modulepath};

use crate::exit::{Failure, USAGE};

/// The modulepaths that are given, else those of `$MODULEPATH`, and what is odd about one.
pub fn modulepaths(
    given: &[PathBuf],
    environment: &Environment,
) -> Result<Vec<(PathBuf, Option<ModulepathOddity>)>, Failure> {
    // Given by hand, a path is meant as it is, here and now.
    let whole = |path: &PathBuf| Ok((std::path::absolute(path)?, None));
    let paths: Vec<(PathBuf, _)> = match given.is_empty() {
        false => given.iter().map(whole).collect::<std::io::Result<_>>()?,
        true => modulepath(environment.get("MODULEPATH").unwrap_or_default()),
    };
    // As Modules does, without slashes at their end.
    let paths: Vec<_> = paths
        .into_iter()
        .map(|(path, odd)| (path.components().collect::<PathBuf>(), odd))
        .collect();
    match paths.is_empty() {
        true => Err(Failure {
            status: USAGE,
            error: anyhow!("MODULEPATH is not set: name the modulepaths"),
        }),
        false => Ok(paths),
    }
}

/// The Modules of a `modulecmd.tcl`, else the one that `module` runs.
pub fn site(modulecmd: Option<&Path>, environment: &Environment) -> Result<ModulesSite, Failure> {
    let is_lmod = environment.get("LMOD_CMD").is_some() && environment.get("MODULES_CMD").is_none();
    if modulecmd.is_none() && is_lmod {
        let why = "module is Lmod's in this shell, and this is of Environment Modules: becalm modules \
                   audit --lmod looks at its trees, --modulecmd names another Modules";
        return Err(anyhow!(why).into());
    }
    let site = match modulecmd {
        Some(command) => ModulesSite::at(&std::path::absolute(command)?, environment),
        None => ModulesSite::find(environment),
    };
    Ok(site.context("no Environment Modules here")?)
}

/// As whom commands are run: rc files and modulefiles are code, so root runs them as nobody, where
/// no user is named.
pub fn user(name: Option<&str>) -> Result<Option<User>, Failure> {
    match name {
        Some(name) => Ok(Some(User::named(name)?)),
        None if rustix::process::geteuid().is_root() => {
            Ok(Some(User::named("nobody").or_else(|_| User::named("65534"))?))
        }
        None => Ok(None),
    }
}
