//! What a true simulation says.

use std::ffi::OsStr;
use std::path::Path;

use loader::simulation::FoundBy;
use loader::{Disk, Simulation};

use super::Run;

/// The model is true, and this is what it says.
pub fn true_simulation(run: &Run) -> Simulation {
    run.assert_true();
    run.predict(&Disk::new())
}

/// How the object with this file name was found.
pub fn how(simulation: &Simulation, name: &str) -> FoundBy {
    let mut objects = simulation.objects.iter();
    let object = objects.find(|object| object.path.file_name() == Some(OsStr::new(name)));
    object.unwrap_or_else(|| panic!("no {name} in {:?}", simulation.objects)).how.clone()
}

/// The directory in which the object with this file name was found.
pub fn directory_of<'a>(simulation: &'a Simulation, name: &str) -> &'a Path {
    let mut objects = simulation.objects.iter();
    let object = objects.find(|object| object.path.file_name() == Some(OsStr::new(name)));
    object.unwrap().path.parent().unwrap()
}

/// A path that is UTF-8.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
