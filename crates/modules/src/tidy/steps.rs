//! A [`Tidying`] as steps for `remedy`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use recording::ByteUnits;
use remedy::{Edit, Plan, Seen, Step};

use super::{MovedStray, RootRc, Tidying};

/// Directories that are made can be entered by all; what is in them has its own permissions.
const DIRECTORY: u32 = 0o755;
/// What stands at a modulepath's root is for all who may enter it.
const FILE: u32 = 0o644;

impl Tidying {
    /// The same as a plan that can be applied, and undone.
    ///
    /// # Errors
    /// If an rc file at a root has gone or changed since.
    pub fn to_plan(&self, title: String) -> Result<Plan, remedy::Error> {
        let mut steps = self.directories();
        for root in &self.roots {
            steps.push(root.step()?);
        }
        for made in &self.virtuals {
            let (path, content) = (made.path.join(".modulerc"), made.content.clone());
            steps.push(Step::Create { path, mode: FILE, content });
        }
        for MovedStray { from, to, mode, content } in &self.moved {
            steps.push(Step::Create { path: to.clone(), mode: *mode, content: content.clone() });
            steps.push(Step::Remove { path: from.clone() });
        }
        let merged = self.merged.iter().map(|merged| Step::Remove { path: merged.path.clone() });
        steps.extend(merged);
        Ok(Plan { title, steps, risks: self.risks.clone(), predicted: None })
    }

    /// The directories that are not there yet, parents first.
    fn directories(&self) -> Vec<Step> {
        let moved = self.moved.iter().filter_map(|moved| moved.to.parent());
        let made = self.virtuals.iter().map(|made| made.path.as_path());
        let missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
        let directories: BTreeSet<PathBuf> = moved
            .chain(made)
            .flat_map(Path::ancestors)
            .filter(missing)
            .map(Path::to_owned)
            .collect();
        directories.into_iter().map(|path| Step::Directory { path, mode: DIRECTORY }).collect()
    }
}

impl RootRc {
    fn step(&self) -> Result<Step, remedy::Error> {
        let (path, new) = (self.path.clone(), self.text.clone());
        let Some(size) = self.there else {
            return Ok(Step::Create { path, mode: FILE, content: new });
        };
        let seen = Seen { size: ByteUnits(size), ..Seen::of(&path)? };
        let edits = vec![Edit { offset: size, old: Vec::new(), new }];
        Ok(Step::Patch { path, also: Vec::new(), seen, edits: edits.into() })
    }
}
