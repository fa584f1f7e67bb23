//! Where files for shells and for systemd go.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use modules::calm::{CalmPlan, CalmRequest, HookFile, Upkeep, hook_files, plan};
use modules::site::{Environment, ModulepathOddity, ModulesSite, User};

use crate::exit::Failure;

/// Where they go, and for which shells.
pub struct CalmPlaces {
    becalm: String,
    hooks: PathBuf,
    shells: Vec<HookFile>,
    /// None where there is no systemd.
    units: Option<PathBuf>,
}

impl CalmPlaces {
    /// Those that are given; else root's are for everyone, and others' their own.
    pub fn of(
        hooks: Option<&Path>,
        units: Option<&Path>,
        environment: &Environment,
    ) -> Result<CalmPlaces, Failure> {
        let becalm = std::env::current_exe().context("cannot find becalm's own file")?;
        let becalm = becalm.to_str().context("becalm's own path is no text")?.to_owned();
        let is_root = rustix::process::geteuid().is_root();
        let own = own_configuration(environment);
        let named = environment.get("BECALM_MODULES_HOOKS").filter(|value| !value.is_empty());
        let hooks = match hooks.or(named.map(Path::new)) {
            Some(directory) => std::path::absolute(directory)?,
            None if is_root => PathBuf::from("/etc/profile.d"),
            None => {
                own.clone().ok_or_else(|| anyhow!("HOME is not set: use --hooks"))?.join("becalm")
            }
        };
        let mut shells =
            if is_root { vec![HookFile::Sh, HookFile::Csh] } else { own_shell(environment) };
        // An alias is read again each time that it is used; no quotes hold them through that.
        if becalm.contains(['$', '!', '`', '"', '\'', '\\']) {
            shells.retain(|shell| *shell != HookFile::Csh);
        }
        let units = match units {
            Some(directory) => Some(std::path::absolute(directory)?),
            None if !Path::new("/run/systemd/system").is_dir() => None,
            None if is_root => Some(PathBuf::from("/etc/systemd/system")),
            None => own.map(|own| own.join("systemd/user")),
        };
        Ok(CalmPlaces { becalm, hooks, shells, units })
    }

    /// What there is to do for these modulepaths.
    pub fn plan(
        &self,
        site: &ModulesSite,
        environment: &Environment,
        modulepaths: &[(PathBuf, Option<ModulepathOddity>)],
        users: &[User],
        keep_fresh: bool,
    ) -> Result<CalmPlan, Failure> {
        let upkeep = Upkeep { becalm: &self.becalm, directory: self.units.as_deref() };
        let hooks = hook_files(&self.hooks, &self.shells, &self.becalm);
        let upkeep = keep_fresh.then_some(upkeep);
        Ok(plan(&CalmRequest { site, environment, modulepaths, users, hooks, upkeep })?)
    }
}

fn own_configuration(environment: &Environment) -> Option<PathBuf> {
    let set = |name| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))
}

/// A user's own shell.
fn own_shell(environment: &Environment) -> Vec<HookFile> {
    let shell = environment.get("SHELL").map(Path::new).and_then(Path::file_name);
    match shell.and_then(|name| name.to_str()) {
        Some("csh" | "tcsh") => vec![HookFile::Csh],
        Some("fish") => vec![HookFile::Fish],
        _ => vec![HookFile::Sh],
    }
}
