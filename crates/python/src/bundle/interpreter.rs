//! The interpreter that a bundle is for: what it is, and the code that it would run.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use launch::{Command, Ended, Stage};
use serde::Serialize;

use super::BundleError;

const PACK: &str = include_str!("pack.py");
/// What answers imports.
pub(super) const FINDER: &str = include_str!("finder.py");
/// A module's code is never longer; what says so is no answer.
const LONGEST: u64 = 1 << 30;

/// An interpreter: CPython 3.9 or later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interpreter {
    /// Its file.
    #[serde(serialize_with = "recording::serialize_shown")]
    pub program: PathBuf,
    /// Its version: `3.11.7`.
    pub version: String,
    /// Which bytecode it runs (`importlib.util.MAGIC_NUMBER`), in hexadecimal.
    pub magic: String,
    /// Its optimization level: 1 is `-O`.
    pub optimize: u8,
    /// What its modules' files end in, in the order in which it looks for them.
    pub suffixes: Vec<String>,
}

/// What was packed for a list of sources.
pub(super) struct Code {
    /// Each code after the other, with what is between them.
    pub file: File,
    /// Of each source its code's place in the file, if it has any.
    pub of_sources: Vec<Option<Place>>,
    /// The finder as bytecode.
    pub finder: Vec<u8>,
}

/// A part of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub offset: u64,
    pub length: u64,
}

impl Interpreter {
    /// Asks an interpreter what it is.
    ///
    /// # Errors
    /// [`BundleError::Interpreter`], if it does not start or is no CPython 3.9 or later.
    pub fn ask(program: &Path, optimize: u8) -> Result<Interpreter, BundleError> {
        let said = run(program, optimize, &["facts".into()])?;
        let text = String::from_utf8_lossy(&said);
        let words: Vec<_> = text.trim_end().split('\t').collect();
        let [magic, level, suffixes, version] = words[..] else {
            return Err(failed(program, "it says nothing that is understood"));
        };
        Ok(Interpreter {
            program: program.to_owned(),
            version: version.to_owned(),
            magic: magic.to_owned(),
            optimize: level.parse().unwrap_or(optimize),
            suffixes: suffixes.split(' ').map(str::to_owned).collect(),
        })
    }

    /// The code that an import of each source would run, by the interpreter itself: from valid
    /// bytecode, or compiled. Nothing of a source is executed, and no bytecode is written.
    pub(super) fn code_of(&self, sources: &[PathBuf]) -> Result<Code, BundleError> {
        let names: Vec<_> = sources.iter().map(|path| path.as_os_str().as_bytes()).collect();
        let fill = |directory: &Path| {
            let files = ["sources", "code", "finder.py"].map(|name| directory.join(name));
            fs::write(&files[0], names.join(&0))?;
            fs::write(&files[2], FINDER)?;
            Ok(files)
        };
        let (_directory, [list, out, finder]) =
            launch::scratch_directory("becalm-bundle-", fill)
                .map_err(|error| file_error(Path::new("a temporary directory"), error))?;
        let arguments = [OsStr::new("code"), list.as_ref(), out.as_ref(), finder.as_ref()];
        run(&self.program, self.optimize, &arguments.map(OsStr::to_owned))?;
        let file = File::open(&out).map_err(|error| file_error(&out, error))?;
        let cut = || failed(&self.program, "it ended before all was packed");
        read_code(&file, sources.len())
            .ok()
            .flatten()
            .ok_or_else(cut)
            .map(|(of_sources, finder)| Code { file, of_sources, finder })
    }
}

type Pieces = (Vec<Option<Place>>, Vec<u8>);

/// What `pack.py` wrote: of each source, `C` or `E`, a length and so many bytes; then the finder.
fn read_code(file: &File, sources: usize) -> std::io::Result<Option<Pieces>> {
    let mut input = BufReader::new(file);
    let mut of_sources = Vec::with_capacity(sources);
    for _ in 0..sources {
        let (kind, length) = head(&mut input)?;
        let offset = input.stream_position()?;
        match kind {
            b'C' => of_sources.push(Some(Place { offset, length })),
            b'E' => of_sources.push(None),
            _ => return Ok(None),
        }
        input.seek_relative(i64::try_from(length).unwrap_or(i64::MAX))?;
    }
    let (kind, length) = head(&mut input)?;
    let mut finder = Vec::new();
    (&mut input).take(length).read_to_end(&mut finder)?;
    Ok((kind == b'C' && finder.len() as u64 == length).then_some((of_sources, finder)))
}

fn head(input: &mut impl Read) -> std::io::Result<(u8, u64)> {
    let mut head = [0; 9];
    input.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    Ok((kind, length))
}

/// Runs `pack.py` by itself: no environment, no `site`, no bytecode written.
fn run(program: &Path, optimize: u8, arguments: &[OsString]) -> Result<Vec<u8>, BundleError> {
    let mut argv = vec![program.as_os_str().to_owned()];
    argv.extend(["-I", "-S", "-B"].map(OsString::from));
    argv.extend((0..optimize).map(|_| OsString::from("-O")));
    argv.extend(["-X".into(), "utf8".into(), "-c".into(), PACK.into()]);
    argv.extend_from_slice(arguments);
    let command = Command { argv };
    let played = Stage::new()
        .play(|| launch::timed(&command).map(|timed| timed.ended).map_err(|why| why.to_string()))
        .map_err(|error| failed(program, &error.to_string()))?;
    match played.result {
        Ok(Ended::Exited(0)) => Ok(played.stdout.head),
        Ok(_) => Err(failed(program, &complaint(&played.stderr.head))),
        Err(why) => Err(failed(program, &why)),
    }
}

fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("").trim();
    match last {
        "AssertionError" | "ImportError" | "SyntaxError: invalid syntax" => {
            "is no CPython 3.9 or later".to_owned()
        }
        last if last.starts_with("ImportError") || last.starts_with("Unknown option") => {
            "is no CPython 3.9 or later".to_owned()
        }
        last => format!("it cannot say what it imports: {last}"),
    }
}

fn failed(program: &Path, why: &str) -> BundleError {
    BundleError::Interpreter { program: program.to_owned(), why: why.to_owned() }
}

fn file_error(path: &Path, error: std::io::Error) -> BundleError {
    BundleError::file(path, error)
}
