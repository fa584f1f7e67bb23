//! A Python that compiles, asked once for all files. It is handed names and sources and opens no
//! file of the environment: `site`, `.pth` files and PYTHONPATH are left out, so that nothing but
//! the interpreter itself runs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use launch::{Command, Helper, HelperSetting};

const SCRIPT: &str = include_str!("compile.py");
/// What an interpreter has to say of itself, or of one source: a start from a filesystem that is slow,
/// or the longest of modules. A hanging one must not hang the packing.
const LIMIT: Duration = Duration::from_secs(20);
/// No answer is longer, in bytes.
const MOST: u32 = 256 << 20;

/// An interpreter that waits for sources.
pub(super) struct Compiler {
    from: BufReader<Helper>,
    pub about: Interpreter,
}

/// What an interpreter says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interpreter {
    /// Its file.
    pub file: PathBuf,
    /// What its bytecode files are called by: `cpython-311`.
    pub tag: String,
    /// `3.11`.
    pub version: String,
    /// What its bytecode files begin with.
    pub magic: [u8; 4],
    /// Where its own library is.
    pub library: Vec<PathBuf>,
}

/// A source to be compiled.
pub(super) struct Source {
    /// Where it is when the image is used.
    pub name: PathBuf,
    pub text: Arc<[u8]>,
    /// Its time in the image, in seconds.
    pub mtime: u32,
}

impl Compiler {
    /// Starts an interpreter and hears what it is.
    pub fn start(file: &Path) -> Result<Compiler, String> {
        let words = ["-s", "-S", "-B", "-W", "ignore", "-c", SCRIPT].map(OsString::from);
        let argv = [file.as_os_str().to_owned()].into_iter().chain(words).collect();
        // What steers a Python of the user's is no matter of the image. The seed makes the
        // same bytecode of the same sources.
        let steers = |name: &OsStr| name.as_bytes().starts_with(b"PYTHON") && name != "PYTHONHOME";
        let set = ["PYTHONHASHSEED", "PYTHONUTF8", "PYTHONSAFEPATH"].map(OsString::from);
        let set = set.into_iter().zip(["0", "1", "1"].map(OsString::from));
        // What somebody else owns does not run as root, nor hears what root's environment has.
        let user = owner(file).filter(|_| rustix::process::geteuid().is_root());
        let is_for_it = |name: &OsStr| user.is_none() || launch::is_for_another_user(name);
        let handed = env::vars_os().filter(|(name, _)| !steers(name) && is_for_it(name));
        let environment = handed.chain(set).collect();
        let setting = HelperSetting { environment, directory: "/".into(), user, limit: LIMIT };
        let helper = Helper::start(&Command::of(argv), &setting).map_err(|it| it.to_string())?;
        let mut from = BufReader::new(helper);
        let about = match answer(&mut from) {
            Ok(Ok(text)) => Interpreter::parse(file, &text),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(too_slow()),
            _ => None,
        };
        match about {
            Some(about) => Ok(Compiler { from, about }),
            None => Err("it is no Python that compiles (3.7 or later is)".to_owned()),
        }
    }

    /// The bytecode of each source, in their order, or why there is none; of all, or, where it ends or
    /// hangs, of those before, and why.
    pub fn compile(
        mut self,
        sources: &[Source],
        done: &dyn Fn(usize),
    ) -> (Vec<Result<Vec<u8>, String>>, Option<String>) {
        let to = self.from.get_mut().input();
        std::thread::scope(|scope| {
            // Neither waits for the other: a pipe holds little.
            scope.spawn(move || {
                let Some(mut to) = to else { return };
                // It ended, which its answers show.
                let _ = sources.iter().try_for_each(|source| hand(&mut to, source));
            });
            let mut answers = Vec::with_capacity(sources.len());
            let mut stopped = None;
            for number in 0..sources.len() {
                self.from.get_mut().expect();
                match answer(&mut self.from) {
                    Ok(answer) => answers
                        .push(answer.map_err(|why| String::from_utf8_lossy(&why).into_owned())),
                    Err(error) => {
                        stopped = Some(match error.kind() {
                            io::ErrorKind::TimedOut => too_slow(),
                            _ => "it ended before it had compiled all".to_owned(),
                        });
                        // So that the thread that hands it sources ends.
                        self.from.get_mut().end();
                        break;
                    }
                }
                done(number + 1);
            }
            (answers, stopped)
        })
    }
}

fn too_slow() -> String {
    format!("it did not answer for {} s, and was ended", LIMIT.as_secs())
}

impl Interpreter {
    fn parse(file: &Path, text: &[u8]) -> Option<Interpreter> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.split('\0');
        let (tag, version, magic) = (parts.next()?, parts.next()?, parts.next()?);
        // A name of a file is made of it.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let magic = u32::from_str_radix(magic, 16).ok()?.to_be_bytes();
        (!tag.is_empty() && tag.bytes().all(is_plain)).then(|| Interpreter {
            file: file.to_owned(),
            tag: tag.to_owned(),
            version: version.to_owned(),
            magic,
            library: parts.map(PathBuf::from).collect(),
        })
    }
}

/// Whether only root or this user can have written a file: nobody else's program is run unasked.
pub(super) fn is_trusted(file: &Path) -> bool {
    const OTHERS_WRITE: u32 = 0o002;
    let user = rustix::process::geteuid().as_raw();
    let places = [Some(file), file.parent()].into_iter().flatten();
    let mut places = places.map(Path::metadata);
    // As root it runs as its owner.
    user == 0
        || places.all(|place| {
            place.is_ok_and(|it| [0, user].contains(&it.uid()) && it.mode() & OTHERS_WRITE == 0)
        })
}

/// Whoever owns a file, or the directory that it is in, unless both are root's.
fn owner(file: &Path) -> Option<(u32, u32)> {
    let places = [Some(file), file.parent()].into_iter().flatten();
    let owners = places.filter_map(|place| place.metadata().ok());
    let mut owners = owners.map(|place| (place.uid(), place.gid()));
    owners.find(|(user, _)| *user != 0)
}

fn hand(to: &mut impl Write, source: &Source) -> io::Result<()> {
    let name = source.name.as_os_str().as_bytes();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
    to.write_all(&length(name)?.to_le_bytes())?;
    to.write_all(&length(&source.text)?.to_le_bytes())?;
    to.write_all(&source.mtime.to_le_bytes())?;
    to.write_all(name)?;
    to.write_all(&source.text)
}

/// Content, or why there is none.
fn answer(from: &mut impl Read) -> io::Result<Result<Vec<u8>, Vec<u8>>> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let [status, length @ ..] = head;
    let length = u32::from_le_bytes(length);
    if length > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = Vec::new();
    from.take(length.into()).read_to_end(&mut content)?;
    match (content.len() == length as usize, status) {
        (false, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (true, 0) => Ok(Ok(content)),
        (true, _) => Ok(Err(content)),
    }
}
