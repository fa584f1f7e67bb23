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

/// The directory with Modules 5.5 and newer, each in a directory of its own.
pub fn modern_modules() -> PathBuf {
    home().join("modules")
}
