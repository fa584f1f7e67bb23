//! `becalm run`: a launch changed, by as many of its means as are asked for; a file each.

pub mod aslr;
mod builtins;
mod hugepages;
mod image;
mod image_freshness;
mod stage;

use std::ffi::OsString;

use crate::exit::Failure;

/// Run a command calmed: in an image over the directory that it was made of, or in a chosen layout
///
/// The command's files stay as they are. becalm becomes the command: process id, signals and exit
/// status are the command's own.
#[derive(clap::Args)]
#[command(after_help = "The command's own exit status is passed on; becalm's failures are 125, \
    126 (cannot execute) and 127 (not found).\n\n\
    Examples:
  becalm run --image env.sqsh -- python3 app.py
  srun -n 64 becalm run --image env.sqsh -- python3 app.py
  srun -n 64 becalm run --image env.sqsh --stage -- python3 app.py
  becalm run --image env.sqsh --overlay changes -- pip install ./package
  becalm run --image root.sif --bind /scratch -- /opt/app/bin/app
  becalm run --builtins --hugepages -- ./unpack.sh
  srun -n 64 becalm run --aslr job -- ./app")]
#[command(group = clap::ArgGroup::new("means").required(true).multiple(true))]
pub struct RunArgs {
    #[command(flatten)]
    image: image::RunImageArgs,

    #[command(flatten)]
    builtins: builtins::RunBuiltinsArgs,

    #[command(flatten)]
    hugepages: hugepages::RunHugepagesArgs,

    #[command(flatten)]
    freshness: image_freshness::RunFreshnessArgs,

    #[command(flatten)]
    aslr: aslr::RunAslrArgs,

    /// Print one JSON object on standard error: what was changed. It comes before the command
    /// starts; with --count, at its end
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb: becomes the command, unless that fails or its starts are counted.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    let mut variables = Vec::new();
    // Where no image can be mounted, another one is started.
    let mut command = launch::Command { argv: args.command.clone() };
    let freshness = args.freshness.check;
    let image = image::enter(&args.image, freshness, args.json, &mut command, &mut variables)?;
    let mut builtins = builtins::prepare(&args.builtins, &command, &mut variables)?;
    let hugepages = hugepages::ask(&args.hugepages, &command, &mut variables);
    // The last one: it counts the variables of all others.
    let aslr = aslr::enter(&args.aslr, &command, &mut variables)?;
    let tell = |builtins: Option<&builtins::PreparedBuiltins>| -> Result<(), Failure> {
        let about = serde_json::json!({
            "schema": "becalm.run/1", "image": image, "aslr": aslr,
            "builtins": builtins.map(|given| &given.about), "hugepages": hugepages
        });
        term::print_beside(&term::json(&about).map_err(Failure::of_command)?);
        Ok(())
    };
    let cannot_start =
        |why: launch::CannotStart| Failure { status: why.exit_status(), error: why.into() };
    if let Some(given) = builtins.as_mut().filter(|given| given.count.is_some()) {
        launch::set_variables(&variables);
        let ended = launch::attended(&command).map_err(cannot_start)?.ended;
        given.say_counted(args.json)?;
        if args.json {
            tell(Some(given))?;
        }
        return Ok(ended.pass_on());
    }
    if args.json {
        tell(builtins.as_ref())?;
    }
    Err(cannot_start(launch::replace(&command, &variables)))
}
