//! Builds the shells' libraries (loadable/) with the C compiler that links this program, too.
//!
//! Without one, or for another processor, becalm is built all the same: empty libraries say so.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A library for each host: what lies in the host's directory, and what all of them share.
const LIBRARIES: [(&str, &str); 3] =
    [("bash", "builtins.so"), ("dash", "dash.so"), ("launcher", "launcher.so")];

fn main() {
    let sources = Path::new("loadable");
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-env-changed=CC");
    for (host, name) in LIBRARIES {
        let library = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join(name);
        if let Err(why) = compile(&[sources, &sources.join(host)], &library) {
            println!("cargo::warning=`becalm run --builtins` has nothing for {host}: {why}");
            fs::write(&library, []).unwrap();
        }
    }
}

fn sources_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let files = fs::read_dir(directory).map_err(|error| error.to_string())?;
    let files = files.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "c")).collect();
    files.sort();
    Ok(files)
}

fn compile(directories: &[&Path], library: &Path) -> Result<(), String> {
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
    let mut files = Vec::new();
    for directory in directories {
        files.extend(sources_in(directory)?);
    }
    let made = Command::new(&compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"])
        .args(["-D_GNU_SOURCE=", "-include", "loadable/older_libc.h"])
        // Arm's plain char has no sign, x86-64's has: what is no ASCII is below 0 on both.
        .arg("-fsigned-char")
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
