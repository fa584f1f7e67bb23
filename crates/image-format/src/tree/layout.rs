//! Where in the image each path goes.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SquashWriteError;

/// How the paths that are packed lie in the image.
///
/// Of one directory, the image's root is that directory. Of several paths, or of a file, the root
/// is `/`, and each lies at its own absolute path below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageLayout {
    /// The directory that the image's root stands for: where it is to be mounted.
    #[serde(with = "crate::path_json")]
    #[schemars(with = "crate::path_json::PathText")]
    root: PathBuf,
    /// What is packed: absolute paths without symbolic links, none of them below another.
    #[serde(with = "crate::path_json::list")]
    #[schemars(with = "Vec<crate::path_json::PathText>")]
    paths: Vec<PathBuf>,
}

impl ImageLayout {
    /// The layout of an image of these paths.
    ///
    /// # Errors
    /// Where there are none, or one cannot be found.
    pub fn of(paths: &[PathBuf]) -> Result<ImageLayout, SquashWriteError> {
        let real = |path: &PathBuf| path.canonicalize().map_err(SquashWriteError::at("find", path));
        let mut paths = paths.iter().map(real).collect::<Result<Vec<_>, _>>()?;
        // A directory sorts before what is below it.
        paths.sort();
        paths.dedup_by(|later, earlier| later.starts_with(earlier));
        match &paths[..] {
            [] => Err(SquashWriteError::Unfit {
                path: PathBuf::new(),
                why: "there is nothing to pack",
            }),
            [one] if one.is_dir() => Ok(ImageLayout { root: one.clone(), paths }),
            _ => Ok(ImageLayout { root: PathBuf::from("/"), paths }),
        }
    }

    /// The layout of a tree that no disk has.
    pub(crate) fn of_root() -> ImageLayout {
        ImageLayout { root: PathBuf::from("/"), paths: vec![PathBuf::from("/")] }
    }

    /// The layout of an image that is laid over a whole root: each path at its own place, also
    /// where there is one only.
    ///
    /// # Errors
    /// As [`ImageLayout::of`].
    pub fn at_their_places(paths: &[PathBuf]) -> Result<ImageLayout, SquashWriteError> {
        Ok(ImageLayout { root: PathBuf::from("/"), ..ImageLayout::of(paths)? })
    }

    /// The directory that the image's root stands for.
    pub fn base(&self) -> &Path {
        &self.root
    }

    /// What is packed.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Whether a path is packed: it is one of them, or below one.
    pub fn holds(&self, path: &Path) -> bool {
        self.paths.iter().any(|packed| path.starts_with(packed))
    }
}
