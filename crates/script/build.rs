//! Builds bash's library (loadable/) with the C compiler that links this program, too.
//!
//! Without one, or for another processor, becalm is built all the same: an empty library says so.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let sources = Path::new("loadable");
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-env-changed=CC");
    let library = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("builtins.so");
    if let Err(why) = compile(sources, &library) {
        println!("cargo::warning=`becalm run --builtins` is left out: {why}");
        fs::write(&library, []).unwrap();
    }
}

fn compile(sources: &Path, library: &Path) -> Result<(), String> {
    let target = env::var("TARGET").unwrap();
    if !["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"].contains(&target.as_str()) {
        return Err(format!("its library is not for {target}"));
    }
    // As the crate `cc` names a compiler for another machine than this one.
    let of_target = format!("CC_{}", target.replace('-', "_"));
    println!("cargo::rerun-if-env-changed={of_target}");
    let compiler = match env::var_os(&of_target) {
        Some(compiler) => compiler,
        None if env::var("HOST").unwrap() == target => {
            env::var_os("CC").unwrap_or_else(|| "cc".into())
        }
        None => return Err(format!("{of_target} names no compiler for {target}")),
    };
    let files = fs::read_dir(sources).map_err(|error| error.to_string())?;
    let files = files.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "c")).collect();
    files.sort();
    let made = Command::new(&compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"])
        .args(["-shared", "-s", "-Wl,-z,now", "-o"])
        .arg(library)
        .args(files)
        .output()
        .map_err(|error| format!("{}: {error}", compiler.to_string_lossy()))?;
    if made.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&made.stderr).lines().next().unwrap_or("cc failed").into())
    }
}
