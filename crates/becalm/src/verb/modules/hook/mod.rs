//! `becalm modules hook`.

pub mod view;

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use modules::avail::hook::Shell;

use crate::exit::Failure;
use view::ModulesHook;

/// The definition of `module` has some hundred letters.
const MOST: u64 = 1 << 16;

/// Shell code that lets becalm answer `module`, from an index or from memory, and Modules all else
///
/// Of Lmod, becalm answers all that is remembered (becalm modules answer). Evaluate it once `module` is defined, at the end of the site's profile for instance; with --init, in the place of Modules' own file for the start of a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  becalm modules hook bash > /opt/becalm/hook.bash
  becalm modules hook bash --init > /opt/becalm/modules.bash
  becalm modules hook fish | source
  eval \"$(becalm modules hook zsh)\"
  eval \"`becalm modules hook csh`\"")]
pub struct ModulesHookArgs {
    /// The shell
    #[arg(value_name = "bash|zsh|fish|csh|tcsh", value_parser = NAMES)]
    shell: String,

    /// Start Modules, too, by an answer from memory: as its own file for the start of this shell does,
    /// which is found where packages put it, or given
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    init: Option<Option<PathBuf>>,

    /// Change the definition of `module`, which comes on stdin
    #[arg(long, hide = true, conflicts_with_all = ["json", "init"])]
    definition: bool,

    /// Print one JSON object (docs/schema/becalm.modules.hook.md)
    #[arg(long)]
    json: bool,
}

/// What the shells are called: tcsh has the hook of csh, and a start of its own.
const NAMES: [&str; 5] = ["bash", "zsh", "fish", "csh", "tcsh"];

/// Runs the verb.
pub fn run(args: &ModulesHookArgs) -> Result<u8, Failure> {
    let becalm = std::env::current_exe().context("cannot find becalm's own file")?;
    let becalm = becalm.to_str().context("becalm's own path is no text")?;
    let shell = Shell::named(&args.shell).context("not a shell with a hook")?;
    if !shell.can_call(becalm) {
        let why = format!("csh cannot call {becalm} in an alias: have becalm in a plainer path");
        return Err(Failure::of_command(anyhow!(why)));
    }
    if !args.definition {
        let code = match &args.init {
            Some(file) => start(shell, &args.shell, file.as_deref(), becalm)?,
            None => shell.hook(becalm),
        };
        match args.json {
            true => term::print(&term::json(&ModulesHook::of(shell.name(), code))?)?,
            false => term::print(&code)?,
        }
        return Ok(0);
    }
    let mut definition = String::new();
    let read = std::io::stdin().take(MOST).read_to_string(&mut definition);
    read.context("cannot read the definition of module")?;
    let definition = definition.trim_end();
    // What is not known stays as it is.
    let code = match shell {
        Shell::Csh => shell.answered(definition, becalm).unwrap_or_default(),
        shell => shell
            .answered(definition, becalm)
            .unwrap_or_else(|| definition.replacen("_module_raw", "_becalm_module_answer", 1)),
    };
    if !code.is_empty() {
        term::print(&format!("{code}\n"))?;
    }
    Ok(0)
}

/// Where packages put Modules' files for the start of a shell.
const INIT: [&str; 4] = [
    "/usr/share/modules/init",
    "/usr/share/Modules/init",
    "/usr/local/Modules/init",
    "/opt/modules/init",
];

/// What Modules' own file does, by becalm.
fn start(shell: Shell, name: &str, file: Option<&Path>, becalm: &str) -> Result<String, Failure> {
    let file = match file {
        Some(file) => std::path::absolute(file).map_err(anyhow::Error::from)?,
        None => init_file(name).ok_or_else(|| {
            let why = "no file of Modules for the start of a shell in $MODULESHOME/init or where \
                packages put it; say which: --init=FILE (Lmod's starts no lmod, and stays)";
            Failure::of_command(anyhow!(why))
        })?,
    };
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))
        .map_err(Failure::of_command)?;
    let path = file.to_str().context("the file's path is no text").map_err(Failure::of_command)?;
    shell.start(&text, path, becalm).ok_or_else(|| {
        let why = format!("{path} does not call modulecmd.tcl by tclsh: it is left as it is");
        Failure::of_command(anyhow!(why))
    })
}

fn init_file(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("MODULESHOME").map(|home| PathBuf::from(home).join("init"));
    let places = home.into_iter().chain(INIT.iter().map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| file.is_file())
}
