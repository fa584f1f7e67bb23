//! A calm file as text.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use super::{CalmFile, CalmFileError, CalmImageBeside, CalmSavings, SCHEMA};

impl CalmFile {
    /// The text of a calm file that is to lie in `directory`, an absolute path.
    ///
    /// # Errors
    /// [`CalmFileError::NoText`].
    pub fn to_text(&self, directory: &Path) -> Result<String, CalmFileError> {
        let path = |path: &Path| path_text(path, directory);
        let mut text = format!(
            "# What becalm does when it starts this command: becalm run FILE, becalm calm show FILE\n\
             schema = \"{SCHEMA}\"\n"
        );
        let mut line = |words: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{words}");
        };
        line(format_args!("command = {}", list(&self.command, |word| string("the word", word))?));
        line(format_args!("directory = {}", path(&self.directory)?));
        let made_in = self.covers_what_is_beside_it().then_some(&self.directory);
        if let Some(made_in) = self.made_in.as_ref().or(made_in) {
            line(format_args!("made_in = {}", string("the path", made_in)?));
        }
        for (name, is) in [("builtins", self.builtins), ("hugepages", self.hugepages)] {
            if is {
                line(format_args!("{name} = true"));
            }
        }
        if let Some(layout) = &self.layout {
            line(format_args!("layout = {}", toml_string(layout)));
        }
        if let Some(image) = &self.image {
            line(format_args!("\n[image]\nfile = {}", path(&image.file)?));
            line(format_args!("over = {}", list(&image.over, |over| string("the path", over))?));
            line(format_args!("bytes = {}\ndigest = \"{}\"", image.bytes, image.digest));
        }
        for CalmImageBeside { image, at } in &self.beside {
            line(format_args!("\n[[beside]]\nfile = {}", path(&image.file)?));
            if let Some(at) = at {
                line(format_args!("at = {}", string("the path", at)?));
            }
            if !image.over.is_empty() {
                let over = list(&image.over, |over| string("the path", over))?;
                line(format_args!("over = {over}"));
            }
            line(format_args!("bytes = {}\ndigest = \"{}\"", image.bytes, image.digest));
        }
        let environment = &self.environment;
        if !environment.unset.is_empty() {
            let names = list(&environment.unset, |name| string("the variable", name))?;
            line(format_args!("\n[environment]\nunset = {names}"));
        }
        for (table, values) in [("set", &environment.set), ("reordered", &environment.reordered)] {
            if !values.is_empty() {
                line(format_args!("\n[environment.{table}]"));
            }
            for (name, value) in values {
                let (name, value) = (key(name)?, string("the value", value)?);
                line(format_args!("{name} = {value}"));
            }
        }
        for shown in &self.shown {
            line(format_args!("\n[[shown]]\nfile = {}", path(&shown.file)?));
            let was = shown.was;
            line(format_args!("bytes = {}\nmtime_ns = {}", was.bytes, was.mtime_ns));
            line(format_args!("digest = \"{}\"\ncopy = {}", was.digest, path(&shown.copy)?));
            let (bytes, digest) = (shown.copy_bytes, shown.copy_digest);
            line(format_args!("copy_bytes = {bytes}\ncopy_digest = \"{digest}\""));
        }
        if !self.read_ahead.parts.is_empty() {
            line(format_args!("\n# Each: the file's number below, offset, bytes"));
            line(format_args!("[read_ahead]\nparts = ["));
            for part in &self.read_ahead.parts {
                line(format_args!("    [{}, {}, {}],", part.file, part.offset, part.bytes));
            }
            line(format_args!("]"));
        }
        for file in &self.read_ahead.files {
            line(format_args!("\n[[read_ahead.files]]\npath = {}", path(&file.path)?));
            line(format_args!("bytes = {}\nmtime_ns = {}", file.bytes, file.mtime_ns));
        }
        for relied in &self.relies_on {
            let was = relied.was;
            line(format_args!("\n[[relies_on]]\npath = {}", path(&relied.path)?));
            line(format_args!("bytes = {}\nmtime_ns = {}", was.bytes, was.mtime_ns));
            line(format_args!("digest = \"{}\"", was.digest));
        }
        if let Some(saves) = &self.saves {
            line(format_args!("\n[saves]"));
            text.push_str(&savings(saves));
        }
        Ok(text)
    }
}

fn savings(saves: &CalmSavings) -> String {
    let mut text = String::new();
    let numbers = [
        ("metadata_ops_before", Some(saves.metadata_ops_before)),
        ("metadata_ops_after", Some(saves.metadata_ops_after)),
        ("enoent_before", saves.enoent_before),
        ("enoent_after", saves.enoent_after),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            let _ = writeln!(text, "{name} = {number}");
        }
    }
    for wait in &saves.waits {
        let profile = toml_string(&wait.profile);
        let _ = writeln!(text, "\n[[saves.waits]]\nprofile = {profile}");
        let _ = writeln!(text, "ranks = {}\nnodes = {}", wait.ranks, wait.nodes);
        let (before, after) = (wait.seconds_before, wait.seconds_after);
        let seconds = |seconds: f64| toml::Value::Float(seconds);
        let _ = writeln!(text, "seconds_before = {}", seconds(before));
        let _ = writeln!(text, "seconds_after = {}", seconds(after));
    }
    text
}

/// A path, relative where it lies below the directory.
fn path_text(path: &Path, directory: &Path) -> Result<String, CalmFileError> {
    // Below the root lies everything, and nothing that would move with it.
    let below = match directory.parent() {
        Some(_) => path.strip_prefix(directory).unwrap_or(path),
        None => path,
    };
    match below.as_os_str().is_empty() {
        true => Ok("\".\"".to_owned()),
        false => string("the path", below.as_os_str()),
    }
}

fn list<T>(
    items: &[T],
    text: impl Fn(&T) -> Result<String, CalmFileError>,
) -> Result<String, CalmFileError> {
    let items: Result<Vec<String>, _> = items.iter().map(text).collect();
    Ok(format!("[{}]", items?.join(", ")))
}

fn string(
    what: &'static str,
    name: &(impl AsRef<OsStr> + ?Sized),
) -> Result<String, CalmFileError> {
    let name = name.as_ref();
    match name.to_str() {
        Some(text) => Ok(toml_string(text)),
        None => Err(CalmFileError::NoText { what, name: name.to_owned() }),
    }
}

/// A variable's name, bare where that may be.
fn key(name: &OsStr) -> Result<String, CalmFileError> {
    let quoted = string("the variable", name)?;
    let is_bare = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    match name.to_str().filter(|name| !name.is_empty() && name.chars().all(is_bare)) {
        Some(bare) => Ok(bare.to_owned()),
        None => Ok(quoted),
    }
}

/// A basic string of TOML 1.0 on one line; also as a key.
fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            // No control character is left raw, nor what turns the direction of writing.
            _ if term::plain(char.encode_utf8(&mut [0; 4])) != char.to_string() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(char));
            }
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
