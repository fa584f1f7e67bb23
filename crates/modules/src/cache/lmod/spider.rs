//! What `spiderT.lua` of Lmod 7 and newer records, and `moduleT.lua` of those before.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::table::{LuaValue, TableError, assignments};

/// Modulepaths in modulepaths: of a compiler, of its MPI.
const DEPTH: usize = 16;

/// A cache of Lmod's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spider {
    /// The modulefiles of each modulepath.
    pub trees: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// The version of its form: 5 for Lmod 8 and 9.
    pub version: Option<String>,
}

/// Reads a cache of Lmod's.
///
/// # Errors
/// The first place where it is no table of literals.
pub fn parse(text: &[u8]) -> Result<Spider, TableError> {
    let mut spider = Spider::default();
    for (name, value) in assignments(text)? {
        if name == b"moduleT" {
            collect_modules(&value, &mut spider, 0);
        }
        if name != b"spiderT" {
            continue;
        }
        for (key, tree) in value.fields() {
            match (key, tree) {
                (Some(path), LuaValue::Table(_)) => {
                    let files = spider.trees.entry(as_path(path)).or_default();
                    tree.fields().iter().for_each(|(_, directory)| collect(directory, files));
                }
                (Some(key), LuaValue::Other(version)) if key == b"version" => {
                    spider.version = Some(String::from_utf8_lossy(version).into_owned());
                }
                _ => {}
            }
        }
    }
    Ok(spider)
}

/// The `fn` of each module in a table with `fileT` and `dirT`. No deeper than its tables, which
/// are bounded.
fn collect(directory: &LuaValue, files: &mut Vec<PathBuf>) {
    let modules = directory.get(b"fileT").map(LuaValue::fields).unwrap_or_default();
    let names = modules.iter().filter_map(|(_, module)| module.get(b"fn")?.text());
    files.extend(names.map(as_path));
    let below = directory.get(b"dirT").map(LuaValue::fields).unwrap_or_default();
    below.iter().for_each(|(_, directory)| collect(directory, files));
}

/// In `moduleT` modulefiles are keys, and the modulepaths that one adds are its `children`.
fn collect_modules(trees: &LuaValue, spider: &mut Spider, depth: usize) {
    for (root, modules) in paths(trees) {
        for (file, module) in paths(modules) {
            spider.trees.entry(root.clone()).or_default().push(file);
            if let Some(children) = module.get(b"children").filter(|_| depth < DEPTH) {
                collect_modules(children, spider, depth + 1);
            }
        }
    }
}

/// The keys of a table that are absolute paths, and their values.
fn paths(table: &LuaValue) -> impl Iterator<Item = (PathBuf, &LuaValue)> {
    let keys = table.fields().iter().filter_map(|(key, value)| Some((key.as_ref()?, value)));
    keys.filter(|(key, _)| key.starts_with(b"/")).map(|(key, value)| (as_path(key), value))
}

fn as_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}
