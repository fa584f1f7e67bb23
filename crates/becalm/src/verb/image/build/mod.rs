//! `becalm image build`.

pub mod binder;
mod compressed;
pub mod view;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use image::container::{self, ContainerContent, Sealed};
use image::squash::{self, ImageOptions, ImageProgress, ImageTrace, PathsImage};
use image::{Holds, ImageError, Inspection, TracedFiles};
use image_format::SquashWriteError;
use image_format::ext3::Ext3Overlay;
use image_format::sif::Container;
use image_format::squash::Compression;
use launch::Ended;
use recording::shown_name;

use super::overlay;
use crate::asked_to_end::asked_to_end;
use crate::exit::{Failure, USAGE};
use crate::produced;
use crate::recorded::{self, RecordRequest};
use crate::stdout_redirect::StdoutRedirect;
use compressed::{Comp, block_size};
use view::Packed;

/// Pack directories into one file, in the order in which a command reads them
///
/// Writes a squashfs 4 image, which the kernel, squashfuse and `becalm run` mount. Of one
/// directory, the image's root is that directory; of several paths, each lies at its own path below
/// the root. Modes, owners, times in whole seconds, hard links, holes and xattrs are kept. The same
/// tree gives the same bytes. What is used from the image and lies outside is listed: pack it too,
/// or see that it is there where the image is used.
///
/// Python modules whose bytecode is missing or stale are compiled into the image by the environment's
/// own Python, programs and libraries are bound to the libraries in the image that their RPATHs find, and
/// both are listed; the sources stay as they are.
///
/// With --sif, or a FILE that ends in .sif, writes a container that Apptainer and SingularityCE
/// run: of a whole root directory, or, with --base, of all that another SIF holds and the paths
/// laid over its root.
#[derive(clap::Args)]
#[command(after_help = "\
Without --trace or a command, files lie in the order of their paths. SOURCE_DATE_EPOCH sets the
image's own time, which is otherwise that of its newest file.

Examples:
  becalm image build -o env.sqsh /opt/env -- /opt/env/bin/python -c 'import numpy'
  becalm image build -o env.sqsh --trace start.becalm /opt/env
  becalm image build -o all.sqsh --comp lz4 /opt/env /home/me/src/package
  becalm image build -o env.sqsh --as-is /opt/env
  becalm image build -o root.sif --runscript run.sh --label version=2 rootfs
  becalm image build -o app.sif --base root.sif --overlay 2G /opt/env")]
pub struct ImageBuildArgs {
    /// Directories and files to pack
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The image's file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Put first what this recording opens, in its order
    #[arg(long, value_name = "REC", conflicts_with = "command")]
    trace: Option<PathBuf>,

    /// How to compress [default: zstd; in a SIF gzip, which every Apptainer and SingularityCE
    /// reads]
    #[arg(long, value_enum)]
    comp: Option<Comp>,

    /// How hard: zstd 1 to 22 [default: 3], gzip 1 to 9 [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,

    /// Bytes that are compressed together: 4K to 1M
    #[arg(long, value_name = "SIZE", value_parser = block_size, default_value = "128K")]
    block_size: u32,

    /// How many files to read at a time
    #[arg(long, value_name = "N", default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    readers: u16,

    /// Leave out what you may not read, and list it
    #[arg(long)]
    skip_unreadable: bool,

    /// Leave out sockets, and list them
    #[arg(long)]
    skip_special: bool,

    /// Keep no extended attributes
    #[arg(long)]
    no_xattrs: bool,

    /// Heal nothing: pack the bytes as they are
    #[arg(long)]
    as_is: bool,

    /// Print one JSON object (docs/schema/becalm.image.build.md)
    #[arg(long)]
    json: bool,

    /// A command to run and record first: what it opens comes first
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    #[command(flatten)]
    sif: SifOptions,
}

/// What makes the image a container.
#[derive(clap::Args)]
#[command(next_help_heading = "Containers")]
struct SifOptions {
    /// Write a SIF, whatever FILE is called
    #[arg(long)]
    sif: bool,

    /// Lay the paths, each at its own place, over the root of this SIF, which stays as it is
    #[arg(long, value_name = "SIF")]
    base: Option<PathBuf>,

    /// What `run` does: a script for /bin/sh, or for what its #! names
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    runscript: Option<PathBuf>,

    /// Shell code that sets and exports the container's variables
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    env: Option<PathBuf>,

    /// A label; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = label, conflicts_with = "base")]
    label: Vec<(String, String)>,

    /// The definition file that it was made from
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    deffile: Option<PathBuf>,

    /// Add an ext3 layer of this size that the container can write to, from 64M to 16T
    #[arg(long, value_name = "SIZE", value_parser = overlay::size)]
    overlay: Option<u64>,

    /// Make this directory in that layer, and those above it
    #[arg(long, value_name = "DIR", requires = "overlay")]
    create_dir: Vec<PathBuf>,

    /// Take room on the disk for that layer only as it fills
    #[arg(long, requires = "overlay")]
    sparse: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give a name, = and a value".to_owned()),
    }
}

impl SifOptions {
    /// Whether something is asked for that only a SIF has.
    fn is_told(&self) -> bool {
        let texts = [&self.base, &self.runscript, &self.env, &self.deffile];
        self.sif
            || texts.iter().any(|text| text.is_some())
            || !self.label.is_empty()
            || self.overlay.is_some()
    }

    fn container(&self) -> anyhow::Result<Container> {
        let read = |path: &Option<PathBuf>| {
            let text =
                path.as_ref().map(|path| fs::read_to_string(path).with_context(|| name(path)));
            text.transpose()
        };
        Ok(Container {
            runscript: read(&self.runscript)?,
            environment: read(&self.env)?,
            labels: self.label.iter().cloned().collect(),
            deffile: read(&self.deffile)?,
        })
    }

    fn layer(&self) -> Option<Ext3Overlay> {
        self.overlay.map(|size| Ext3Overlay {
            size,
            owner: overlay::owner(),
            directories: self.create_dir.clone(),
            created: 0,
            sparse: self.sparse,
        })
    }
}

impl ImageBuildArgs {
    fn is_sif(&self) -> bool {
        self.sif.is_told() || self.output.extension() == Some(OsStr::new("sif"))
    }

    fn compression(&self) -> Compression {
        match (self.comp, self.is_sif()) {
            (Some(comp), _) => comp.into(),
            (None, true) => Compression::Gzip,
            (None, false) => Compression::Zstd,
        }
    }
}

/// Runs the verb.
pub fn run(args: &ImageBuildArgs) -> Result<u8, Failure> {
    let made = made()?;
    let usage = |error| Failure { status: USAGE, error };
    check_level(args).map_err(usage)?;
    check_paths(args).map_err(usage)?;
    check_output(&args.output).with_context(|| name(&args.output))?;
    // What the command prints is not what becalm answers.
    let redirect = StdoutRedirect::to_stderr(args.json && !args.command.is_empty())?;
    let (traced, trace) = order(args)?;
    let (built, sealed) = build(args, &traced, trace, made)?;
    let packed = Packed::of(&args.output, &built, sealed.as_ref());
    let text = match args.json {
        true => term::json(&packed)?,
        false => packed.render(term::width::terminal(), &next(args)),
    };
    match redirect {
        Some(redirect) => redirect.print(&text)?,
        None => term::print(&text)?,
    }
    Ok(0)
}

/// When the image is to have been made (reproducible-builds.org).
fn made() -> Result<Option<u32>, Failure> {
    let Some(text) = env::var_os("SOURCE_DATE_EPOCH").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let error = || anyhow!("SOURCE_DATE_EPOCH is no number of seconds from 1970 to 2106");
    seconds.map(Some).ok_or_else(|| Failure { status: USAGE, error: error() })
}

fn check_level(args: &ImageBuildArgs) -> anyhow::Result<()> {
    let compression = args.compression();
    match (args.level, compression.levels()) {
        (Some(_), None) => bail!("{} has no levels", compression.name()),
        (Some(level), Some(levels)) if !levels.contains(&level) => {
            bail!("{}'s levels are {} to {}", compression.name(), levels.start(), levels.end())
        }
        _ => Ok(()),
    }
}

/// A container's root is one directory.
fn check_paths(args: &ImageBuildArgs) -> anyhow::Result<()> {
    if args.is_sif() && args.sif.base.is_none() && args.paths.len() > 1 {
        bail!("a SIF is made of one root directory; to lay several paths over a root, give --base");
    }
    Ok(())
}

/// Nothing but an image is written over: `-o` is easily mistyped. Nor is one that a container has
/// perhaps written to.
fn check_output(output: &Path) -> anyhow::Result<()> {
    if !output.is_file() || output.metadata()?.len() == 0 {
        return Ok(());
    }
    match image::inspect(&File::open(output)?) {
        Ok(Inspection { holds: Holds::Squashfs { .. }, .. }) => Ok(()),
        Ok(Inspection { holds: Holds::Sif(sif), .. }) => {
            match sif.objects.iter().any(|object| object.ext.is_some()) {
                true => bail!(
                    "it exists, and has a layer that may hold somebody's work; remove it first"
                ),
                false => Ok(()),
            }
        }
        _ => bail!("it exists and is no image; choose another name or remove it"),
    }
}

/// Ctrl-C (POSIX names the number, in kill(1)).
const SIGINT: i32 = 2;

/// The files that come first, and what says so.
fn order(args: &ImageBuildArgs) -> Result<(TracedFiles, Option<ImageTrace>), Failure> {
    if let Some(trace) = &args.trace {
        let recording = crate::load::load(trace)?;
        let trace = ImageTrace { text: shown_name(trace), directory: None };
        return Ok((TracedFiles::of(&recording), Some(trace)));
    }
    if args.command.is_empty() {
        return Ok((TracedFiles::default(), None));
    }
    let (recording, finished) = recorded::and_read(&RecordRequest::of(&args.command))?;
    recorded::say_blinds(&finished.blinds);
    let failed = match finished.ended {
        Ended::Exited(0) => None,
        Ended::Exited(status) => Some(format!("ended with status {status}")),
        // Who presses Ctrl-C means both.
        Ended::Signaled(signal @ SIGINT) => {
            let said = format!("the command was killed by signal {signal}: no image is built");
            return Err(asked_to_end(signal, said));
        }
        Ended::Signaled(signal) => Some(format!("was killed by signal {signal}")),
    };
    if let Some(failed) = failed {
        term::warn(&format!("the command {failed}; its order is used as it is"));
    }
    Ok((TracedFiles::of(&recording), Some(command_here(&args.command))))
}

/// A command as what the order of an image comes from, run in this directory.
pub fn command_here(command: &[OsString]) -> ImageTrace {
    let here = std::env::current_dir().ok().and_then(|here| here.to_str().map(str::to_owned));
    ImageTrace { text: term::shell_line(command), directory: here }
}

fn build(
    args: &ImageBuildArgs,
    traced: &TracedFiles,
    trace: Option<ImageTrace>,
    made: Option<u32>,
) -> anyhow::Result<(PathsImage, Option<Sealed>)> {
    let title = format!("image build -o {}", term::quoted_path(&args.output));
    let waiting = term::ProgressBar::new();
    let progress = |progress| tell(&waiting, progress);
    let binder = |files: &[PathBuf], packed: &[PathBuf]| binder::bind(files, packed, &traced.files);
    let options = ImageOptions {
        compression: args.compression(),
        level: args.level,
        block_size: args.block_size,
        readers: usize::from(args.readers),
        first: &traced.files,
        used: traced.used.as_ref(),
        command: &traced.command,
        trace,
        skip_unreadable: args.skip_unreadable,
        skip_special: args.skip_special,
        xattrs: !args.no_xattrs,
        heals: !args.as_is,
        binder: Some(&binder),
        settles: true,
        made,
        progress: &progress,
    };
    if !args.is_sif() {
        let built = squash::build(&args.paths, &args.output, &options);
        let built = built.map_err(|error| with_option(error, args))?;
        drop(waiting);
        produced::keep(built.0, title, false)?;
        return Ok((built.1, None));
    }
    let content = match &args.sif.base {
        Some(base) => ContainerContent::Over(base, &args.paths),
        None => ContainerContent::Root(&args.paths[0], args.sif.container()?),
    };
    let layer = args.sif.layer();
    let built = container::build(content, &args.output, &options, layer.as_ref());
    let (image, built, sealed) = built.map_err(|error| with_option(error, args))?;
    drop(waiting);
    produced::keep(image, title, false)?;
    Ok((built, Some(sealed)))
}

/// With the option that helps, where there is one.
fn with_option(error: ImageError, args: &ImageBuildArgs) -> anyhow::Error {
    match error {
        ImageError::At { ref path, ref source, operation }
        | ImageError::Squash(SquashWriteError::At { ref path, ref source, operation })
            if source.kind() == ErrorKind::PermissionDenied
                && ["open", "list"].contains(&operation)
                && is_packed(args, path) =>
        {
            let why = format!("{source}; --skip-unreadable leaves it out");
            anyhow!(why).context(error.to_string())
        }
        ImageError::Squash(SquashWriteError::Socket(_)) => {
            anyhow!("{error}; --skip-special leaves it out")
        }
        ImageError::Squash(SquashWriteError::TooManyBlocks) => {
            anyhow!("{error}; --block-size makes them fewer")
        }
        error => error.into(),
    }
}

fn is_packed(args: &ImageBuildArgs, path: &Path) -> bool {
    let mut packed = args.paths.iter();
    packed.any(|packed| packed.canonicalize().is_ok_and(|packed| path.starts_with(packed)))
}

/// Tells whoever waits how far it is.
pub(super) fn tell(waiting: &term::ProgressBar, progress: ImageProgress) {
    match progress {
        ImageProgress::Listing => waiting.tell("listing", 0, 1),
        ImageProgress::Binding => waiting.tell("binding libraries", 0, 1),
        ImageProgress::Compiling { done, of } => waiting.tell("compiling bytecode", done, of),
        ImageProgress::Packing { done, of } => waiting.tell("packing", done, of),
        ImageProgress::Surveying => waiting.tell("looking for what lies outside", 0, 1),
        ImageProgress::Copying { done, of } => waiting.tell("copying", done, of),
    }
}

fn name(path: &Path) -> String {
    term::plain(&path.to_string_lossy())
}

/// What to do next: run in it.
fn next(args: &ImageBuildArgs) -> String {
    let image = term::quoted_path(&args.output);
    match term::shell_line(&args.command) {
        words if words.is_empty() => format!("becalm image inspect {image}"),
        words => format!("becalm run --image {image} -- {words}"),
    }
}
