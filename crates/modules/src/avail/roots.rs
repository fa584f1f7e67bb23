//! The modulepaths of an environment: `getModulePathList` of `modulecmd.tcl`.

use std::path::PathBuf;

use super::Unable;
use crate::site::{Environment, ModulepathOddity, modulepath};

/// The modulepaths of an environment as Modules resolves them, each once, whether they are there
/// or not.
///
/// # Errors
/// Where one is relative, or has in it what Tcl may read in another way.
pub fn modulepaths(environment: &Environment) -> Result<Vec<PathBuf>, Unable> {
    let unable = |what: &str| Unable::Modulepath(what.to_owned());
    let value = environment.get("MODULEPATH").ok_or_else(|| unable("not set"))?;
    let mut roots = Vec::new();
    for (path, odd) in modulepath(value) {
        let text = path.to_str().ok_or_else(|| unable(&path.to_string_lossy()))?;
        let root = match odd {
            None => Some(joined(text)),
            Some(ModulepathOddity::Relative) => None,
            Some(ModulepathOddity::Variable) => resolved(text, environment),
        };
        let root = root.filter(|root| is_normal(root)).ok_or_else(|| unable(text))?;
        let root = PathBuf::from(root);
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    Ok(roots)
}

/// A path without slashes at its end and with single ones in it, as Tcl's `file join` makes it. Two
/// at its beginning stay: Tcl may give them a meaning.
fn joined(path: &str) -> String {
    let begins = path.len() - path.trim_start_matches('/').len();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("{}{}", &path[..begins], parts.join("/"))
}

/// Whether Modules leaves a path as it is (`getAbsolutePath`).
fn is_normal(path: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.starts_with('~');
    path.strip_prefix('/').is_some_and(|path| path.split('/').all(is_plain))
}

/// A path with `$NAME` or `${NAME}` as whole parts of it, where a variable that is not set is
/// nothing (`resolvStringWithEnv`): Debian's own modulepath has one. None for all that Tcl's
/// `subst` may read in another way.
fn resolved(path: &str, environment: &Environment) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.strip_prefix('/')?.split('/') {
        let Some(name) = part.strip_prefix('$') else {
            parts.push(part.to_owned());
            continue;
        };
        let name = name.strip_prefix('{').map_or(Some(name), |name| name.strip_suffix('}'))?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_plain) || name.as_bytes()[0].is_ascii_digit() {
            return None;
        }
        let value = environment.get(name).map_or(Some(""), |value| value.to_str())?;
        parts.extend(value.split('/').map(str::to_owned));
    }
    // Slashes count once.
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    let are_plain = parts.iter().all(|part| part.bytes().all(is_plain));
    are_plain.then(|| format!("/{}", parts.join("/")))
}
