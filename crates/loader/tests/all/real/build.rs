//! Programs and libraries, compiled for real.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command that must succeed.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// A directory to build in, at its real path.
pub struct Workshop {
    directory: tempfile::TempDir,
    compiler: &'static str,
}

impl Workshop {
    pub fn new() -> Workshop {
        Workshop::of("gcc")
    }

    /// One that compiles with another compiler.
    pub fn of(compiler: &'static str) -> Workshop {
        Workshop { directory: tempfile::tempdir().unwrap(), compiler }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.directory.path()).unwrap().join(name)
    }

    /// A library, its directories made. What it needs is linked with it whether used or not.
    pub fn library(&self, name: &str, needs: &[&Path], options: &[&str]) -> PathBuf {
        let file = self.path(name);
        let (soname, options) = match options.split_first() {
            Some((&"no soname", rest)) => (None, rest),
            _ => (file.file_name(), options),
        };
        let mut command = self.gcc(&file, "int nothing;", needs, options);
        command.args(["-shared", "-fPIC", "-nostartfiles"]);
        if let Some(soname) = soname {
            command.arg(format!("-Wl,-soname,{}", soname.to_str().unwrap()));
        }
        run(&mut command);
        file
    }

    /// A program that does nothing.
    pub fn program(&self, name: &str, needs: &[&Path], options: &[&str]) -> PathBuf {
        let file = self.path(name);
        run(&mut self.gcc(&file, "int main(void) { return 0; }", needs, options));
        file
    }

    fn gcc(&self, file: &Path, source: &str, needs: &[&Path], options: &[&str]) -> Command {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let code = file.with_extension("c");
        fs::write(&code, source).unwrap();
        let mut command = Command::new(self.compiler);
        command.arg(&code).arg("-o").arg(file);
        command.args(["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"]);
        command.args(["-Wl,--unresolved-symbols=ignore-all"]);
        command.args(needs).args(options);
        command
    }
}

/// An RPATH, the old kind that is inherited.
pub fn rpath(list: &str) -> String {
    format!("-Wl,--disable-new-dtags,-rpath,{list}")
}

/// A RUNPATH.
pub fn runpath(list: &str) -> String {
    format!("-Wl,--enable-new-dtags,-rpath,{list}")
}

/// Changes what a file says.
pub fn patchelf(file: &Path, arguments: &[&str]) {
    run(Command::new("patchelf").args(arguments).arg(file));
}
