//! `--below`: directories that count, named alike in all verbs.
//!
//! A recording has paths as the programs gave them, so a directory counts by the name that it was
//! given and by the one that it has once symbolic links and `..` are resolved.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::exit::Failure;

/// A directory by all its names, which are absolute and without `..`.
#[derive(Clone, Debug)]
pub struct NamedDirectory {
    names: Vec<PathBuf>,
    exists: bool,
}

/// Reads one from the command line.
pub fn directory() -> impl TypedValueParser<Value = NamedDirectory> {
    PathBufValueParser::new().try_map(|path| NamedDirectory::of(&path))
}

impl NamedDirectory {
    /// A directory, named from the working directory. It need not be on this machine: recordings are
    /// read elsewhere, too.
    ///
    /// # Errors
    /// The name is empty, or there is no working directory.
    pub fn of(given: &Path) -> io::Result<NamedDirectory> {
        let given = std::path::absolute(given)?;
        let clean = recording::query::clean(given.as_os_str().as_bytes());
        let named = PathBuf::from(OsStr::from_bytes(&clean));
        let names = match given.canonicalize() {
            Err(_) => return Ok(NamedDirectory { names: vec![named], exists: false }),
            Ok(resolved) if resolved == named => vec![named],
            // Behind a link, `..` is not the directory that the text says.
            Ok(resolved) if named.canonicalize().is_ok_and(|other| other != resolved) => {
                vec![resolved]
            }
            Ok(resolved) => vec![named, resolved],
        };
        Ok(NamedDirectory { names, exists: true })
    }

    /// Its names, as it was given first.
    pub fn names(&self) -> &[PathBuf] {
        &self.names
    }

    /// Fails if it is not there, before a command runs for it.
    ///
    /// # Errors
    /// It is not there.
    pub fn must_exist(&self) -> Result<(), Failure> {
        match self.exists {
            true => Ok(()),
            false => {
                let names = term::shell_line(&self.names);
                Err(Failure::of_usage(anyhow!("--below {names}: there is no such directory")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_counts_by_the_name_it_was_given_and_by_what_it_is() {
        let scene = tempfile::tempdir().unwrap();
        let top = scene.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", top.join("link")).unwrap();
        let names = |path: &str| NamedDirectory::of(&top.join(path)).unwrap().names;
        assert_eq!(names("a/b/.."), [top.join("a")]);
        assert_eq!(names("link"), [top.join("link"), top.join("a/b")]);
        assert_eq!(names("link/.."), [top.join("a")], "not what the text says");
        assert_eq!(names("none/../x"), [top.join("x")], "of another machine, perhaps");
        assert!(NamedDirectory::of(&top.join("none")).unwrap().must_exist().is_err());
        assert!(NamedDirectory::of(Path::new("")).is_err());
    }
}
