//! `becalm run`: a launch changed, by as many of its means as are asked for; a file each.

pub mod aslr;
mod builtins;
mod calm;
mod container;
mod container_environment;
mod hugepages;
mod image;
mod image_conflicts;
mod image_freshness;
mod image_touched;
mod nested;
mod pack;
mod read_ahead;
mod scarce;
mod stage;

use std::ffi::OsString;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Failure;

pub use container::is_container;
pub use scarce::in_scarce_memory;

/// Run a command calmed: as a calm file says, or in an image over the directory that it was made of,
/// with builtins, in a chosen layout, from a pack, or with what it reads read ahead; or run a container
///
/// Options beside a calm file add to it. Without a command, the one is repeated that the calm file was
/// made for. A container, a SIF, is run as Apptainer does it: its %environment, then its %runscript with
/// the words behind it; see docs/sif.md.
/// The command's files stay as they are. becalm becomes the command: process id, signals and exit
/// status are the command's own.
#[derive(clap::Args)]
#[command(after_help = "The command's own exit status is passed on; becalm's failures are 125, \
    126 (cannot execute) and 127 (not found).\n\n\
    Examples:
  becalm run app.calm
  srun -n 64 becalm run app.calm -- ./app input
  becalm run --image env.sqsh -- python3 app.py
  srun -n 64 becalm run --image env.sqsh -- python3 app.py
  srun -n 64 becalm run --image env.sqsh --stage -- python3 app.py
  becalm run --image env.sqsh --image data.sqsh:/opt/data -- python3 app.py
  becalm run --image env.sqsh --overlay changes -- pip install ./package
  becalm run --image root.sif --bind /scratch -- /opt/app/bin/app
  becalm run --cleanenv app.sif input --steps 10
  becalm run --builtins --hugepages -- ./unpack.sh
  becalm run --pack app.pack -- /opt/app/bin/app input
  becalm run --read-ahead start.becalm -- python3 -c 'import torch'
  srun -n 64 becalm run --aslr job -- ./app")]
#[command(group = clap::ArgGroup::new("means").required(true).multiple(true))]
#[command(group = clap::ArgGroup::new("mounted").args(["calm", "image"]).multiple(true))]
#[command(group = clap::ArgGroup::new("bash").args(["calm", "builtins"]).multiple(true))]
pub struct RunArgs {
    /// What to do, as `becalm fix --apply -o` has written it; see docs/calm-file.md. Or a container
    /// (SIF), which is run with the words behind it
    #[arg(value_name = "CALM|SIF", group = "means")]
    calm: Option<PathBuf>,

    #[command(flatten)]
    image: image::RunImageArgs,

    #[command(flatten)]
    container: container::RunContainerArgs,

    #[command(flatten)]
    builtins: builtins::RunBuiltinsArgs,

    #[command(flatten)]
    hugepages: hugepages::RunHugepagesArgs,

    #[command(flatten)]
    read_ahead: read_ahead::RunReadAheadArgs,

    #[command(flatten)]
    pack: pack::RunPackArgs,

    #[command(flatten)]
    freshness: image_freshness::RunFreshnessArgs,

    #[command(flatten)]
    aslr: aslr::RunAslrArgs,

    /// Print one JSON object on standard error: what was changed. It comes before the command
    /// starts; with --count, at its end
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required_unless_present = "calm", last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What `becalm run --json` answers: what is otherwise than without becalm.
#[derive(Serialize, JsonSchema)]
pub struct RunAnswer<'a> {
    /// `becalm.run/1`.
    schema: &'static str,
    /// What was mounted, with `--image` or by a calm file.
    image: Option<&'a image::EnteredImage>,
    /// What a container does, where one is run.
    container: Option<&'a container::StartedContainer>,
    /// Where memory lies, with `--aslr`.
    aslr: Option<&'a aslr::EnteredLayout>,
    /// What bash does in its own process, with `--builtins`.
    builtins: Option<&'a builtins::GivenBuiltins>,
    /// What glibc's malloc is told, with `--hugepages`.
    hugepages: Option<&'a hugepages::AskedHugepages>,
    /// What is read while the command starts, with `--read-ahead` or by a calm file.
    read_ahead: Option<&'a read_ahead::BegunReadAhead>,
    /// The pack that it is started from, with `--pack`.
    pack: Option<&'a pack::StartedPack>,
    /// The calm file that says what is done.
    calm: Option<calm::LaunchedCalm>,
}

/// Runs the verb: becomes the command, unless that fails or its starts are counted.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    let freshness = args.freshness.check;
    let container = container::Container::of(&args.container, args.calm.as_deref())?;
    let calm = args.calm.as_deref().filter(|_| container.image.is_none());
    let calm = calm.map(calm::CalmLaunch::read).transpose()?;
    let calm = calm.as_ref();
    let mut variables = Vec::new();
    let mut argv = args.command.clone();
    if let Some(calm) = calm {
        argv = calm.command(argv)?;
        calm.check_alone(freshness)?;
        nested::begin(calm.path())?;
        calm.change_environment();
    }
    // Where no image can be mounted, another one is started.
    let mut command = launch::Command::of(argv);
    let (json, opened) = (args.json, &mut variables);
    let image = image::enter(&args.image, &container, calm, freshness, json, &mut command, opened)?;
    let container = container.start(&mut command, opened)?;
    let mut builtins = builtins::prepare(&args.builtins(calm)?, &command, &mut variables)?;
    let hugepages = hugepages::ask(&args.hugepages(calm), &command, &mut variables);
    // The last one: it counts the variables of all others.
    let aslr = aslr::enter(&args.aslr(calm)?, &command, &mut variables)?;
    let packed = pack::enter(&args.pack, &command)?;
    // In the image, where there is one.
    let ahead = read_ahead::begin(&args.read_ahead, calm)?;
    let tell = |builtins: Option<&builtins::PreparedBuiltins>| -> Result<(), Failure> {
        let about = RunAnswer {
            schema: "becalm.run/1",
            image: image.as_ref(),
            container: container.as_ref(),
            aslr: aslr.as_ref(),
            builtins: builtins.map(|given| &given.about),
            hugepages: hugepages.as_ref(),
            read_ahead: ahead.as_ref(),
            pack: packed.as_ref().map(|packed| &packed.about),
            calm: calm.map(calm::CalmLaunch::about),
        };
        term::print_beside(&term::json(&about).map_err(Failure::of_command)?);
        Ok(())
    };
    let cannot_start =
        |why: launch::CannotStart| Failure { status: why.exit_status(), error: why.into() };
    if let Some(given) = builtins.as_mut().filter(|given| given.count.is_some()) {
        launch::set_variables(&variables);
        match launch::attended(&command) {
            Ok(timed) => {
                given.say_counted(args.json);
                if args.json {
                    tell(Some(given))?;
                }
                return Ok(timed.ended.pass_on());
            }
            // Too few open files or processes are allowed for becalm to stay beside it.
            Err(why @ launch::CannotStart::Beside(_)) => {
                term::warn(&format!("--count is not done: {why}"));
                given.count = None;
            }
            Err(why) => return Err(cannot_start(why)),
        }
    }
    if args.json {
        tell(builtins.as_ref())?;
    }
    let executable = packed.as_ref().and_then(|packed| packed.executable.as_deref());
    Err(cannot_start(launch::replace_as(&command, executable, &variables)))
}

impl RunArgs {
    fn builtins(
        &self,
        calm: Option<&calm::CalmLaunch>,
    ) -> Result<builtins::RunBuiltinsArgs, Failure> {
        let mut asked = self.builtins.clone();
        asked.builtins |= calm.is_some_and(|calm| calm.file.builtins);
        match asked.count && !asked.builtins {
            true => Err(Failure::of_usage(anyhow::anyhow!(
                "--count is for builtins, and the calm file has none: add --builtins"
            ))),
            false => Ok(asked),
        }
    }

    fn hugepages(&self, calm: Option<&calm::CalmLaunch>) -> hugepages::RunHugepagesArgs {
        let mut asked = self.hugepages.clone();
        asked.hugepages |= calm.is_some_and(|calm| calm.file.hugepages);
        asked
    }

    fn aslr(&self, calm: Option<&calm::CalmLaunch>) -> Result<aslr::RunAslrArgs, Failure> {
        let mut asked = self.aslr.clone();
        let Some(layout) = calm.and_then(|calm| calm.file.layout.as_ref()) else {
            return Ok(asked);
        };
        if asked.aslr.is_some() {
            return Err(Failure::of_usage(anyhow::anyhow!(
                "--aslr: the calm file has a layout already ({layout})"
            )));
        }
        let setting = layout.parse().map_err(|why: String| {
            Failure::of_command(anyhow::anyhow!("the calm file's layout {layout}: {why}"))
        })?;
        asked.aslr = Some(setting);
        Ok(asked)
    }
}
