//! Paths of the image, in the tree instead.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where the shell and the user are, not where software is; and what the shell sets for itself.
const KEPT: [&str; 8] =
    ["PWD", "OLDPWD", "HOME", "TMPDIR", "_", "BECALM_IMAGE", "BECALM_STAGED", "SHLVL"];
/// Batch systems name the directories of jobs and scripts, for their own use.
const KEPT_OF: [&str; 7] = ["SLURM_", "PBS_", "LSB_", "LS_", "FLUX_", "SGE_", "PJM_"];

/// More names than an environment has; each is looked up on a filesystem that may be slow.
const MOST_NAMES: usize = 256;

/// A path that a tree stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Over {
    /// The path.
    #[serde(with = "image_format::path_json")]
    pub path: PathBuf,
    /// Where it lies in the image, from the root on.
    #[serde(with = "image_format::path_json")]
    pub inner: PathBuf,
}

impl Over {
    /// Another name of it, by a symbolic link to it or to a directory above, if this path shows
    /// one. A link to something in it is none: what is beside the link is not what is beside that,
    /// and a Python finds its environment there.
    fn alias(&self, name: &Path, real: &Path) -> Option<Over> {
        if name == real {
            return None;
        }
        // Without slashes at the end, or twice.
        let whole = |path: &Path| path.components().collect();
        if let Ok(below) = self.path.strip_prefix(real) {
            return Some(Over { path: whole(&name.join(below)), inner: self.inner.clone() });
        }
        let rest = real.strip_prefix(&self.path).ok()?;
        let above = name.ancestors().nth(rest.iter().count()).filter(|_| name.ends_with(rest))?;
        Some(Over { path: whole(above), inner: self.inner.clone() })
    }
}

/// Other names by which an environment or a command calls these paths: a home is often a symbolic
/// link, and what was installed in it names the link.
pub(super) fn aliases(over: &[Over], values: impl Iterator<Item = OsString>) -> Vec<Over> {
    let mut names = BTreeSet::new();
    for value in values {
        let parts = value.as_bytes().split(|byte| *byte == b':');
        let paths = parts.filter(|part| part.starts_with(b"/") && part.len() > 1);
        names.extend(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))));
    }
    let mut aliases = Vec::new();
    names.retain(|name| !over.iter().any(|over| name.starts_with(&over.path)));
    for name in names.into_iter().take(MOST_NAMES) {
        let Ok(real) = name.canonicalize() else { continue };
        for alias in over.iter().filter_map(|over| over.alias(&name, &real)) {
            if !over.contains(&alias) && !aliases.contains(&alias) {
                aliases.push(alias);
            }
        }
    }
    aliases
}

/// Which paths have moved, and where they are now.
#[derive(Debug)]
pub(super) struct MovedPaths {
    /// The paths that the tree stands for, under all their names.
    pub over: Vec<Over>,
    /// The tree: the image's root.
    pub tree: PathBuf,
}

impl MovedPaths {
    /// A path in the tree instead, if it is in the image: absolute, whole names, no `..`. What
    /// follows the prefix stays as it is written.
    pub fn path(&self, path: &[u8]) -> Option<Vec<u8>> {
        let there = self.place(path)?;
        Path::new(OsStr::from_bytes(&there)).symlink_metadata().ok().map(|_| there)
    }

    /// The same for the target of a symbolic link, whether or not there is something.
    pub fn link(&self, target: &[u8]) -> Option<Vec<u8>> {
        self.place(target)
    }

    fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (inner, rest) = self.over.iter().find_map(|Over { path: over, inner }| {
            let rest = path.strip_prefix(over.as_os_str().as_bytes())?;
            (rest.is_empty() || rest[0] == b'/').then_some((inner, rest))
        })?;
        if rest.split(|byte| *byte == b'/').any(|name| name == b"..") {
            return None;
        }
        let inner = inner.strip_prefix("/").unwrap_or(inner);
        let root = match inner.as_os_str().is_empty() {
            true => self.tree.clone(),
            false => self.tree.join(inner),
        };
        Some([root.as_os_str().as_bytes(), rest].concat())
    }

    /// The variables whose paths, alone or between colons, lead into the image, with the tree's
    /// paths instead. All variables, as each software has its own: what is no path of a file in
    /// the image stays.
    pub fn variables(
        &self,
        all: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let changed = |(name, value): (OsString, OsString)| {
            let kept = KEPT.iter().any(|kept| name == *kept)
                || KEPT_OF.iter().any(|kept| name.as_bytes().starts_with(kept.as_bytes()));
            let value = if kept { None } else { self.value(value.as_bytes()) };
            value.map(|value| (name, OsString::from_vec(value)))
        };
        all.filter_map(changed).collect()
    }

    fn value(&self, value: &[u8]) -> Option<Vec<u8>> {
        // One path may have a colon in it.
        if let Some(whole) = self.path(value) {
            return Some(whole);
        }
        let mut any = false;
        let parts = value.split(|byte| *byte == b':').map(|part| match self.path(part) {
            Some(moved) => {
                any = true;
                moved
            }
            None => part.to_vec(),
        });
        let parts: Vec<_> = parts.collect();
        any.then(|| parts.join(&b':'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(path: &str, inner: &str) -> Over {
        Over { path: path.into(), inner: inner.into() }
    }

    #[test]
    fn a_symbolic_link_above_or_below_is_another_name() {
        let over = over("/lustre/me/env", "/");
        let alias = |name: &str, real: &str| {
            let found = over.alias(Path::new(name), Path::new(real))?;
            Some((found.path.display().to_string(), found.inner.display().to_string()))
        };
        let home = Some(("/home/me/env".to_owned(), "/".to_owned()));
        assert_eq!(alias("/home/me/env/bin", "/lustre/me/env/bin"), home);
        assert_eq!(alias("/home/me/env", "/lustre/me/env"), home);
        assert_eq!(alias("/home/me", "/lustre/me"), home);
        assert_eq!(alias("/tools", "/lustre/me/env/bin"), None);
        assert_eq!(alias("/home/me/own/bin/python", "/lustre/me/env/bin/python3"), None);
        assert_eq!(alias("/home/you", "/lustre/you"), None);
        assert_eq!(alias("/lustre/me/env/bin", "/lustre/me/env/bin"), None);
    }

    fn moved(tree: &Path) -> MovedPaths {
        for directory in ["bin", "lib:x", "opt/other/lib"] {
            std::fs::create_dir_all(tree.join(directory)).unwrap();
        }
        let over = vec![over("/shared/env", "/"), over("/opt/other", "/opt/other")];
        MovedPaths { over, tree: tree.to_owned() }
    }

    #[test]
    fn whole_names_of_what_is_in_the_tree_move_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let moved = moved(directory.path());
        let tree = directory.path().display().to_string();
        let of = |value: &str| {
            moved.value(value.as_bytes()).map(|value| String::from_utf8(value).unwrap())
        };
        assert_eq!(of("/shared/env"), Some(tree.clone()));
        assert_eq!(
            of("/usr/bin:/shared/env/bin/:/bin:/opt/other/lib:"),
            Some(format!("/usr/bin:{tree}/bin/:/bin:{tree}/opt/other/lib:"))
        );
        assert_eq!(of("/shared/env/lib:x"), Some(format!("{tree}/lib:x")));
        for kept in [
            "/shared/env2/bin",
            "/shared",
            "-I/shared/env/bin",
            "/shared/env/not there",
            "/shared/env/bin/..",
            "shared/env/bin",
            "",
        ] {
            assert_eq!(of(kept), None, "{kept}");
        }
    }

    #[test]
    fn variables_that_say_where_one_is_stay() {
        let directory = tempfile::tempdir().unwrap();
        let moved = moved(directory.path());
        let names = ["PATH", "VIRTUAL_ENV", "PWD", "HOME", "SLURM_SUBMIT_DIR", "EBROOTX"];
        let all = names.iter().map(|name| (name.into(), "/shared/env/bin".into()));
        let changed: Vec<_> = moved.variables(all).into_iter().map(|(name, _)| name).collect();
        assert_eq!(changed, ["PATH", "VIRTUAL_ENV", "EBROOTX"]);
    }
}
