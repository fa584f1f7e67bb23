//! The built-in kernel: C, compiled where it is to run, so that it calls that machine's libm.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use launch::{CannotStart, Command, Ended, timed};

const SOURCE: &str = include_str!("kernel.c");
/// Its name: what its line says of addresses counts on it.
const NAME: &str = "kernel";

/// How often it calls pow: each of `steps` steps is timed, and calls it for `values` values,
/// `repeats` times over.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// `nbStep`.
    pub steps: u32,
    /// `nbRepeat`.
    pub repeats: u32,
    /// `nbValue`.
    pub values: u32,
    /// Whether its ranks begin together, by MPI.
    pub mpi: bool,
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No such program.
    #[error(
        "no compiler for the built-in kernel: {compiler} cannot be started ({error}); install one, \
         or give a command of yours after --"
    )]
    NoCompiler {
        /// Which.
        compiler: &'static str,
        /// Why.
        error: CannotStart,
    },
    /// It has said why.
    #[error("{compiler} could not compile {}", .path.display())]
    Failed {
        /// Which.
        compiler: &'static str,
        /// The source.
        path: PathBuf,
    },
    /// The directory.
    #[error("cannot {doing} {}: {error}", .path.display())]
    File {
        /// What failed.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Kernel {
    /// What its log says was run.
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<_> = [NAME, "--nbStep"].map(str::to_owned).into();
        words.push(self.steps.to_string());
        words.extend(["--nbRepeat".to_owned(), self.repeats.to_string()]);
        words.extend(["--nbValue".to_owned(), self.values.to_string()]);
        words.extend(self.mpi.then(|| "(MPI)".to_owned()));
        words
    }

    /// Compiles it into a directory, unless it is there from the same source, and returns the
    /// command.
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn compiled(&self, directory: &Path) -> Result<Vec<String>, KernelError> {
        let source = match self.mpi {
            true => format!("#define WITH_MPI\n{SOURCE}"),
            false => SOURCE.to_owned(),
        };
        let (path, program) = (directory.join("kernel.c"), directory.join(NAME));
        let is_there = fs::read(&path).is_ok_and(|was| was == source.as_bytes());
        if !is_there || !program.exists() {
            compile(&source, &path, &program, if self.mpi { "mpicc" } else { "cc" })?;
        }
        let mut words = self.words();
        words.retain(|word| word != "(MPI)");
        words[0] = program.to_string_lossy().into_owned();
        Ok(words)
    }
}

/// The source is written last: where it is, the program is of it.
fn compile(
    source: &str,
    path: &Path,
    program: &Path,
    compiler: &'static str,
) -> Result<(), KernelError> {
    let at = |doing, path: &Path| {
        let path = path.to_owned();
        move |error| KernelError::File { doing, path, error }
    };
    let _ = fs::remove_file(path);
    let fresh = path.with_file_name("kernel.new.c");
    fs::write(&fresh, source).map_err(at("write", &fresh))?;
    let words = [compiler.as_ref(), "-O2".as_ref(), fresh.as_os_str(), "-o".as_ref()];
    let mut argv: Vec<_> = words.map(ToOwned::to_owned).into();
    argv.extend([program.as_os_str().to_owned(), "-lm".into()]);
    let timed = timed(&Command::of(argv));
    let timed = timed.map_err(|error| KernelError::NoCompiler { compiler, error })?;
    if timed.ended != Ended::Exited(0) {
        return Err(KernelError::Failed { compiler, path: fresh });
    }
    fs::rename(&fresh, path).map_err(at("rename", &fresh))
}
