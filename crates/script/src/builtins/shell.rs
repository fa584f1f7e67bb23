//! Which shell runs a command, where that is known before it starts, and whether it reads
//! `BASH_ENV`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use launch::Command;

use super::Prepared;

/// Shells that know nothing of `BASH_ENV`; `sh` is among them even where it is bash.
const OTHERS: [&str; 9] = ["sh", "dash", "ash", "busybox", "ksh", "mksh", "zsh", "csh", "tcsh"];

/// The kernel reads no more of a script's first line.
const MOST_LINE: u64 = 256;

/// Whether the loader has been told to do something else, which is not ours to change.
pub(super) fn loader_is_told() -> bool {
    const HARMLESS: [&[u8]; 3] = [b"LD_LIBRARY_PATH", b"LD_RUN_PATH", b"LD_BIND_NOW"];
    env::vars_os().any(|(name, _)| {
        name.as_bytes().starts_with(b"LD_") && !HARMLESS.contains(&name.as_bytes())
    })
}

/// Why the shell that runs a command takes no builtins; none if it does, or if no shell is seen to
/// run it.
pub fn without_effect(command: &Command, prepared: &Prepared) -> Option<String> {
    let file = command.file().ok()?;
    let (mut words, script) = match first_line(&file) {
        Some(words) => (words, true),
        None => (command.argv.clone(), false),
    };
    if script {
        words.push(file.clone().into());
        words.extend(command.argv.iter().skip(1).cloned());
    }
    let of = if script { format!("{} is a script of ", file.display()) } else { String::new() };
    let name = base_name(words.first()?);
    let shell = real_name(&words, &name);
    let is_reached = prepared.preload(command).is_some();
    if !is_reached && (OTHERS.contains(&name.as_str()) || OTHERS.contains(&shell.as_str())) {
        return Some(format!("{of}{name}, which reads no BASH_ENV{}", why_not_reached()));
    }
    let why = (shell == "bash").then(|| not_as(&words[1..], is_reached)).flatten()?;
    Some(format!("{of}bash {why}, which reads no BASH_ENV"))
}

fn why_not_reached() -> &'static str {
    if loader_is_told() { ", and a variable of the loader's (LD_…) is set" } else { "" }
}

/// The program that the kernel executes for a script, and the words behind it.
fn interpreter(file: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut line = Vec::new();
    BufReader::new(File::open(file).ok()?).take(MOST_LINE).read_until(b'\n', &mut line).ok()?;
    if line.starts_with(b"\x7fELF") {
        return None;
    }
    // Without that line it is a script of the shell's (execvp(3)).
    let text = line.strip_prefix(b"#!").unwrap_or(b"/bin/sh").trim_ascii();
    let split = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    Some((text[..split].to_vec(), text[split..].trim_ascii().to_vec()))
}

/// That program's file.
pub(super) fn interpreter_file(file: &Path) -> Option<PathBuf> {
    Some(OsString::from_vec(interpreter(file)?.0).into())
}

/// What a script is run by: its interpreter, and the word behind it. `env` is seen through.
fn first_line(file: &Path) -> Option<Vec<OsString>> {
    let (program, word) = interpreter(file)?;
    let (program, word) = (&program[..], &word[..]);
    let words: Vec<&[u8]> = if program.ends_with(b"/env") {
        let word = word.strip_prefix(b"-S").unwrap_or(word);
        word.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
    } else {
        [program, word].into_iter().filter(|word| !word.is_empty()).collect()
    };
    Some(words.into_iter().map(|word| OsString::from_vec(word.to_vec())).collect())
}

/// What the program is called in the end, behind symbolic links.
fn real_name(words: &[OsString], name: &str) -> String {
    let found = Command::of(words.to_vec()).file().ok();
    let real = found.and_then(|file| file.canonicalize().ok());
    real.map_or_else(|| name.to_owned(), |file| base_name(file.as_os_str()))
}

fn base_name(path: &OsStr) -> String {
    let name = Path::new(path).file_name().unwrap_or(path);
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}

/// How bash is started that it reads no `BASH_ENV`: in POSIX mode, unless it has the library otherwise;
/// privileged or interactive.
fn not_as(arguments: &[OsString], is_reached: bool) -> Option<&'static str> {
    let shell_options = env::var("SHELLOPTS").unwrap_or_default();
    let posix = env::var_os("POSIXLY_CORRECT").is_some()
        || shell_options.split(':').any(|one| one == "posix");
    if posix && !is_reached {
        return Some("in POSIX mode (by its environment)");
    }
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    let mut has_script = false;
    while let Some(word) = words.next() {
        let letters = match &*word {
            "--" => {
                has_script |= words.next().is_some();
                break;
            }
            "--posix" if is_reached => continue,
            "--posix" => return Some("--posix"),
            "--rcfile" | "--init-file" => {
                words.next();
                continue;
            }
            long if long.starts_with("--") => continue,
            short if short.len() > 1 && short.starts_with(['-', '+']) => &short[1..],
            _ => {
                has_script = true;
                break;
            }
        };
        let is_set = word.starts_with('-');
        if letters.contains(['o', 'O']) {
            let option = words.next();
            let posix = letters.contains('o') && option.as_deref() == Some("posix");
            if is_set && posix && !is_reached {
                return Some("-o posix");
            }
        }
        match letters {
            letters if is_set && letters.contains('p') => return Some("-p"),
            letters if is_set && letters.contains('i') => return Some("-i"),
            letters => has_script |= letters.contains('c'),
        }
    }
    let at_terminal = || std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let is_interactive = !has_script && at_terminal();
    is_interactive.then_some("at a terminal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_reads_bash_env_but_in_posix_mode_privileged_or_interactive() {
        let why = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            not_as(&words, false)
        };
        for words in [
            &["script"][..],
            &["script", "--posix"],
            &["-e", "script", "-p"],
            &["-c", "x"],
            &["-eo", "pipefail", "script"],
            &["-O", "posix", "script"],
            &["+o", "posix", "script"],
            &["--", "-i"],
            &["--norc", "--rcfile", "-p", "-x", "script"],
        ] {
            assert_eq!(why(words), None, "{words:?}");
        }
        for words in [
            &["--posix", "script"][..],
            &["-eo", "posix", "script"],
            &["-ep", "script"],
            &["-ic", "x"],
            &["-e", "--posix"],
        ] {
            assert!(why(words).is_some(), "{words:?}");
        }
    }
}
