//! strace's answer to the same questions.

use std::collections::BTreeMap;
use std::process::Command;

use super::{Scene, run};

/// What one call asked: its name, the full path, and the name of the error or nothing.
pub type TracedPath = (String, Vec<u8>, String);

/// `strace -f -c -w` of a command: its calls, errors and names, as [`counts`] says them. Without
/// `all` it counts what becalm records by default.
#[track_caller]
pub fn table(scene: &Scene, all: bool, words: &[&str]) -> String {
    let to = scene.at("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-w", "-o", &to]);
    if !all {
        command.args(["-e", "trace=%file,%desc,%process"]);
    }
    run(command.arg("--").args(words).current_dir(scene.directory()));
    counts(&std::fs::read_to_string(to).unwrap())
}

/// What of a summary is the same each time: calls, errors and names, by name; the times are not.
#[track_caller]
pub fn counts(summary: &str) -> String {
    let mut tables: Vec<(&str, Vec<String>)> = Vec::new();
    let mut mode = "";
    for line in summary.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["%", "time", "seconds", "usecs/call", "calls", "errors", "syscall"] => {
                tables.push((mode, Vec::new()));
            }
            ["System", ..] => mode = line,
            [rule, ..] if rule.starts_with("--") => {}
            [share, took, each, calls, ref rest @ ..] => {
                let are_numbers = [share, took, each].iter().all(|it| it.parse::<f64>().is_ok());
                assert!(are_numbers, "{line}");
                let (_, rows) = tables.last_mut().unwrap();
                let (name, errors) = rest.split_last().unwrap();
                rows.push(format!("{name}: {calls} {}\n", errors.concat()));
            }
            _ => panic!("{line}"),
        }
    }
    tables.iter_mut().for_each(|(_, rows)| rows.sort_unstable());
    tables.into_iter().map(|(mode, rows)| format!("{mode}\n{}", rows.concat())).collect()
}

/// Every path that a command's calls were given, as `strace -e trace=%file` logs it, made
/// absolute, and how often.
#[track_caller]
pub fn paths(scene: &Scene, words: &[&str]) -> BTreeMap<TracedPath, usize> {
    let to = scene.at("strace-log");
    let mut command = Command::new("strace");
    // -xx writes all strings in hexadecimal, so that none can look like the log's own
    // punctuation; -y gives the paths behind descriptors and AT_FDCWD.
    command.args(["-f", "-ff", "-qq", "-y", "-xx", "-s", "65536", "-e", "trace=%file", "-o", &to]);
    run(command.arg("--").args(words).current_dir(scene.directory()));
    let mut asked = BTreeMap::new();
    for file in std::fs::read_dir(scene.directory()).unwrap() {
        let file = file.unwrap().path();
        if file.file_name().unwrap().to_str().unwrap().starts_with("strace-log.") {
            let mut cwd = scene.directory().into_os_string().into_encoded_bytes();
            for line in std::fs::read_to_string(&file).unwrap().lines() {
                if let Some(call) = parse(line, &mut cwd) {
                    *asked.entry(call).or_default() += 1;
                }
            }
        }
    }
    asked
}

/// One line of the log: `name(argument, …) = result ERROR (text)`. Calls on a descriptor alone,
/// and getcwd, which answers a path and asks none, are left out; so are signals and exits.
///
/// `cwd` is the process's working directory, as far as its log has told it.
fn parse(line: &str, cwd: &mut Vec<u8>) -> Option<TracedPath> {
    let (name, rest) = line.split_once('(')?;
    if name.contains(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        || name == "getcwd"
    {
        return None;
    }
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let mut directory = cwd.clone();
    let mut first = arguments;
    if !first.starts_with('"') {
        let (descriptor, after) = arguments.split_once(", ")?;
        directory = unhex(descriptor.split_once('<')?.1.split_once('>')?.0);
        if descriptor.starts_with("AT_FDCWD") {
            cwd.clone_from(&directory);
        }
        first = after;
    }
    let path = unhex(first.strip_prefix('"')?.split_once('"')?.0);
    if path.is_empty() {
        return None;
    }
    let path = absolute(&directory, &path);
    let error = match result.strip_prefix("-1 ") {
        Some(error) => error.split(' ').next()?.to_owned(),
        None => String::new(),
    };
    if name == "chdir" && error.is_empty() {
        cwd.clone_from(&path);
    }
    Some((name.to_owned(), path, error))
}

/// `\x2f\x65` as bytes.
fn unhex(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits.map(|digits| u8::from_str_radix(&digits[..2], 16).unwrap()).collect()
}

/// The place that `path` names, seen from `directory`: absolute, without `.` and `//`, and with
/// `..` taken back.
pub fn absolute(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let start = if path.starts_with(b"/") { &b""[..] } else { directory };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in start.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut whole = Vec::new();
    for part in parts {
        whole.push(b'/');
        whole.extend(part);
    }
    if whole.is_empty() { b"/".to_vec() } else { whole }
}
