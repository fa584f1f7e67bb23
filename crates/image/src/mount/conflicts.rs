//! What several images of one run have in common: places, and names in directories that are
//! searched one after the other. What cannot be is refused before anything is mounted; what is seen
//! otherwise than in each image alone is told.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use image_format::squash::NodeKind;

use super::beside::OverPaths;
use super::error::MountError;
use super::layer::ImageLayer;
use super::plan::MountPlan;

/// How many names are told.
const NAMED: usize = 3;

/// What two images have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConflictKind {
    /// The one is laid over what the other, a whole root, has at its place.
    InRoot,
    /// The place of the one lies within that of the other.
    Within,
    /// There is nothing at the place: it is made, for the command alone.
    NewPlace,
    /// A variable's directories have files of the same name in both.
    SameName,
}

/// Something that images have in common, and that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageConflict {
    /// What.
    pub kind: ConflictKind,
    /// Where: a path, or a variable's name.
    pub at: PathBuf,
    /// What is seen there.
    pub image: PathBuf,
    /// What is hidden by it; none for a place that is made.
    pub hidden: Option<PathBuf>,
    /// The first names that both have.
    pub names: Vec<String>,
    /// How many names both have.
    pub count: u64,
}

/// What the images have in common.
///
/// # Errors
/// Two images at one place; one within another at a place that is nowhere.
pub(super) fn of(plan: &MountPlan<'_>) -> Result<Vec<ImageConflict>, MountError> {
    if plan.beside.is_empty() {
        return Ok(Vec::new());
    }
    let images: Vec<OverPaths<'_>> = plan.over_paths().collect();
    let mut places = Vec::new();
    for (number, image) in images.iter().enumerate() {
        places.extend(image.paths.iter().map(|(path, _)| Place::of(number, path)));
    }
    places.sort_by(|one, other| one.real.cmp(&other.real));
    let mut found = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let file = images[place.image].file;
        let above = places[..at].iter().rev().find(|above| place.real.starts_with(&above.real));
        let conflict = |kind, hidden: Option<&Path>| ImageConflict {
            kind,
            at: place.path.to_owned(),
            image: file.to_owned(),
            hidden: hidden.map(Path::to_owned),
            names: Vec::new(),
            count: 0,
        };
        match above {
            Some(above) if above.real == place.real => {
                return Err(same_place(file, images[above.image].file, place.path));
            }
            Some(above) if above.image != place.image => {
                let outer = &images[above.image];
                if !above.holds(place, outer) && !place.is_there {
                    return Err(within_nothing(file, outer.file, place.path));
                }
                found.push(conflict(ConflictKind::Within, Some(outer.file)));
            }
            _ if plan.is_root() => found.push(conflict(ConflictKind::InRoot, Some(plan.image))),
            None if !place.is_there => found.push(conflict(ConflictKind::NewPlace, None)),
            _ => {}
        }
    }
    found.extend(same_names(plan, &images));
    Ok(found)
}

/// A place of an image's.
struct Place<'a> {
    image: usize,
    path: &'a Path,
    /// Without symbolic links, as far as it is there.
    real: PathBuf,
    is_there: bool,
}

impl Place<'_> {
    fn of(image: usize, path: &Path) -> Place<'_> {
        let is_there = path.exists();
        let found = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        let real = match found {
            Some((above, real)) => match path.strip_prefix(above) {
                Ok(rest) if rest != Path::new("") => real.join(rest),
                _ => real,
            },
            None => path.to_owned(),
        };
        Place { image, path, real, is_there }
    }

    /// Whether the image that lies here has the place of another.
    fn holds(&self, other: &Place<'_>, image: &OverPaths<'_>) -> bool {
        let inner = image.paths.iter().find(|(path, _)| path == self.path).map(|(_, inner)| inner);
        let below = other.real.strip_prefix(&self.real).ok();
        inner
            .zip(below)
            .is_some_and(|(inner, below)| image.layer.find(&inner.join(below)).is_some())
    }
}

fn same_place(file: &Path, other: &Path, place: &Path) -> MountError {
    let why = format!(
        "goes over {}, and so does {}: give one of them another place (--image FILE:/PLACE)",
        place.display(),
        other.display()
    );
    MountError::Image { path: file.to_owned(), why }
}

fn within_nothing(file: &Path, outer: &Path, place: &Path) -> MountError {
    let (place, outer) = (place.display(), outer.display());
    let why = format!(
        "{place} lies within the place of {outer}, which does not have it, nor is it there without \
         that: make it (mkdir -p {place}), or give another place (--image FILE:/PLACE)"
    );
    MountError::Image { path: file.to_owned(), why }
}

/// A variable that lists directories which are searched one after the other, and which names in them
/// are searched for: from a file's name, and whether it is a directory.
struct SearchVariable {
    name: &'static str,
    searched: fn(&[u8], bool) -> Option<&[u8]>,
}

const VARIABLES: [SearchVariable; 3] = [
    SearchVariable { name: "PATH", searched: program },
    SearchVariable { name: "LD_LIBRARY_PATH", searched: library },
    SearchVariable { name: "PYTHONPATH", searched: module },
];

fn program(name: &[u8], is_dir: bool) -> Option<&[u8]> {
    (!is_dir).then_some(name)
}

fn library(name: &[u8], is_dir: bool) -> Option<&[u8]> {
    let is_one = name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.");
    (is_one && !is_dir).then_some(name)
}

fn module(name: &[u8], is_dir: bool) -> Option<&[u8]> {
    let is_module = match is_dir {
        true => name != b"__pycache__" && !name.contains(&b'.') && !name.contains(&b'-'),
        false => [&b".py"[..], b".pyc", b".so"].iter().any(|end| name.ends_with(end)),
    };
    is_module.then(|| name.split(|byte| *byte == b'.').next().unwrap_or(name))
}

/// A directory that is searched, in an image.
struct SearchedDirectory<'a> {
    file: &'a Path,
    layer: &'a ImageLayer,
    inner: PathBuf,
    /// The variable names it; a `site-packages` comes after all of those.
    is_listed: bool,
}

/// Names that a variable's directories have in more than one image: only the first is found.
fn same_names(plan: &MountPlan<'_>, images: &[OverPaths<'_>]) -> Vec<ImageConflict> {
    let mut found = Vec::new();
    for variable in &VARIABLES {
        let value = std::env::var_os(variable.name).unwrap_or_default();
        let directories = value.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
        let directories = directories.map(Path::new).filter(|path| path.is_absolute());
        let mut searched: Vec<_> =
            directories.filter_map(|path| searched(plan, images, path)).collect();
        if variable.name == "PYTHONPATH" && !searched.is_empty() {
            searched.extend(images.iter().flat_map(site_packages));
        }
        found.extend(of_variable(variable, &searched));
    }
    found
}

/// The directory in the image that is seen at a path.
fn searched<'a>(
    plan: &'a MountPlan<'_>,
    images: &[OverPaths<'a>],
    path: &Path,
) -> Option<SearchedDirectory<'a>> {
    let seen = |image: &OverPaths<'a>| {
        let holds = |(at, _): &&(PathBuf, PathBuf)| path.starts_with(at);
        let (at, inner) =
            image.paths.iter().filter(holds).max_by_key(|(at, _)| at.as_os_str().len())?;
        let inner = inner.join(path.strip_prefix(at).ok()?);
        Some((at.as_os_str().len(), image.file, image.layer, inner))
    };
    let innermost = images.iter().filter_map(seen).max_by_key(|(length, ..)| *length);
    let root = || {
        let layer = plan.layers.first().filter(|_| plan.is_root())?;
        Some((0, plan.image, layer, path.to_owned()))
    };
    let (_, file, layer, inner) = innermost.or_else(root)?;
    Some(SearchedDirectory { file, layer, inner, is_listed: true })
}

/// Where an image's own Python finds modules.
fn site_packages<'a>(image: &OverPaths<'a>) -> Vec<SearchedDirectory<'a>> {
    let OverPaths { file, layer, paths, .. } = *image;
    let mut found = Vec::new();
    for lib in paths.iter().flat_map(|(_, inner)| ["lib", "lib64"].map(|lib| inner.join(lib))) {
        let Some(node) = layer.find(&lib).filter(|_| layer.is_dir(&lib)) else { continue };
        let entries = layer.entries(node).into_iter();
        for python in entries.filter(|entry| entry.name.starts_with(b"python")) {
            let inner = lib.join(OsStr::from_bytes(&python.name)).join("site-packages");
            if layer.is_dir(&inner) {
                found.push(SearchedDirectory { file, layer, inner, is_listed: false });
            }
        }
    }
    found
}

fn of_variable(
    variable: &SearchVariable,
    directories: &[SearchedDirectory<'_>],
) -> Vec<ImageConflict> {
    let is_one = |directory: &SearchedDirectory<'_>| directory.file == directories[0].file;
    if directories.iter().all(is_one) {
        return Vec::new();
    }
    let mut first: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut pairs: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for (number, directory) in directories.iter().enumerate() {
        let Some(node) = directory.layer.find(&directory.inner) else { continue };
        if !directory.layer.is_dir(&directory.inner) {
            continue;
        }
        let entries = directory.layer.entries(node);
        let mut names: Vec<&[u8]> = entries
            .iter()
            .filter_map(|entry| (variable.searched)(&entry.name, entry.kind == NodeKind::Directory))
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let winner = *first.entry(name.to_vec()).or_insert(number);
            let (one, other) = (&directories[winner], directory);
            // Two Pythons have each their own site-packages.
            if one.file != other.file && one.is_listed {
                let name = String::from_utf8_lossy(name).into_owned();
                pairs.entry((winner, number)).or_default().push(name);
            }
        }
    }
    let conflict = |((winner, loser), mut names): ((usize, usize), Vec<String>)| {
        let count = names.len() as u64;
        names.truncate(NAMED);
        ImageConflict {
            kind: ConflictKind::SameName,
            at: variable.name.into(),
            image: directories[winner].file.to_owned(),
            hidden: Some(directories[loser].file.to_owned()),
            names,
            count,
        }
    };
    pairs.into_iter().map(conflict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_search_looks_for() {
        assert_eq!(module(b"numpy", true), Some(&b"numpy"[..]));
        assert_eq!(module(b"six.py", false), Some(&b"six"[..]));
        assert_eq!(module(b"_x.cpython-311-x86_64-linux-gnu.so", false), Some(&b"_x"[..]));
        for none in ["numpy-2.0.dist-info", "numpy.libs", "__pycache__"] {
            assert_eq!(module(none.as_bytes(), true), None, "{none}");
        }
        assert_eq!(module(b"README", false), None);
        assert_eq!(library(b"liba.so.1", false), Some(&b"liba.so.1"[..]));
        assert_eq!((library(b"liba.a", false), library(b"x.so", true)), (None, None));
        assert_eq!((program(b"x", false), program(b"x", true)), (Some(&b"x"[..]), None));
    }
}
