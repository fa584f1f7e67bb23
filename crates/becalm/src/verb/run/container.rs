//! `becalm run x.sif`: what a container does when it is run, as Apptainer and SingularityCE do it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use image_format::sif::Sif;
use recording::shown_name;
use rustix::fs::Access;
use schemars::JsonSchema;
use serde::Serialize;

use super::container_environment::ContainerEnvironment;
use crate::exit::Failure;

/// What `run` executes, the first that is there.
const RUNSCRIPTS: [&str; 2] = ["/.singularity.d/runscript", "/singularity"];
/// Who reads the container's environment, the first that is there: the one that understands more.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// How a container is run.
#[derive(clap::Args)]
#[group(skip)]
pub struct RunContainerArgs {
    /// Do not show your home directory in a whole root, unless you are in it
    #[arg(long, requires = "mounted")]
    pub no_home: bool,

    /// Run a container with its own variables only, and those that APPTAINERENV_… and
    /// SINGULARITYENV_… give it
    #[arg(long, short = 'e', requires = "mounted")]
    cleanenv: bool,

    /// Start in this directory of the image
    #[arg(long, alias = "cwd", value_name = "PATH", requires = "mounted")]
    pwd: Option<PathBuf>,
}

/// A container to be run, if that is asked for.
pub struct Container<'a> {
    /// How.
    pub args: &'a RunContainerArgs,
    /// Its file; none: no container is run, but a command perhaps in an image.
    pub image: Option<&'a Path>,
}

/// What a container does when it is run.
#[derive(Serialize, JsonSchema)]
pub struct StartedContainer {
    /// The file in it that is executed: its runscript, or a shell where it has none.
    runs: String,
    /// The shell in it that reads its environment before; none where it has no shell, and so no
    /// environment of its own.
    shell: Option<&'static str>,
    /// Whether it sees no variables of the caller's (`--cleanenv`).
    clean: bool,
}

impl<'a> Container<'a> {
    /// A container, if the first word is one.
    pub fn of(
        args: &'a RunContainerArgs,
        word: Option<&'a Path>,
    ) -> Result<Container<'a>, Failure> {
        let image = word.filter(|word| is_container(word));
        if let Some(word) = word.filter(|word| image.is_none() && is_squashfs(word)) {
            return Err(Failure::of_usage(anyhow!(
                "{}: is an image, which has no command of its own: becalm run --image {} -- CMD",
                word.display(),
                term::quoted_path(word)
            )));
        }
        if args.cleanenv && image.is_none() {
            return Err(Failure::of_usage(anyhow!(
                "--cleanenv is for a container that is run: becalm run --cleanenv x.sif"
            )));
        }
        Ok(Container { args, image })
    }

    /// The LD_LIBRARY_PATH that it is given from outside: its own scripts may set another.
    pub fn library_path(&self) -> Option<OsString> {
        let image = self.image?;
        ContainerEnvironment::of(std::env::vars_os(), self.args.cleanenv, image)
            .given("LD_LIBRARY_PATH")
            .cloned()
    }

    /// Makes the command what the container does with these words, and gives it its variables. The
    /// process is in the container by now.
    pub fn start(
        &self,
        command: &mut launch::Command,
        variables: &mut Vec<(OsString, OsString)>,
    ) -> Result<Option<StartedContainer>, Failure> {
        if let Some(directory) = &self.args.pwd {
            std::env::set_current_dir(directory).map_err(|error| {
                let what = format!("--pwd {}: not in the image", directory.display());
                Failure::of_command(anyhow::Error::from(error).context(what))
            })?;
        }
        let Some(image) = self.image else { return Ok(None) };
        let runs = match RUNSCRIPTS.into_iter().find(|path| can_execute(path)) {
            Some(runs) => runs,
            None if can_execute("/bin/sh") => {
                term::warn("no runscript in the container; /bin/sh is started");
                "/bin/sh"
            }
            None => {
                return Err(Failure::of_command(anyhow!(
                    "{}: there is neither a runscript nor /bin/sh in it: say what to run (becalm run \
                     --image {0} -- CMD)",
                    shown_name(image)
                )));
            }
        };
        let environment = ContainerEnvironment::of(std::env::vars_os(), self.args.cleanenv, image);
        if !environment.refused.is_empty() {
            term::warn(&format!(
                "{} cannot be given to a container, and is left out",
                environment.refused.join(", ")
            ));
        }
        let shell = SHELLS.into_iter().find(|path| can_execute(path));
        let mut argv = Vec::new();
        let given = match shell {
            Some(shell) => {
                let (script, given) = environment.for_shell();
                argv.extend([shell, "-c"].map(OsString::from));
                argv.extend([script, "becalm".into()]);
                given
            }
            None => environment.without_shell(),
        };
        argv.push(runs.into());
        argv.append(&mut command.argv);
        command.argv = argv;
        let names: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
        launch::unset_variables(&names);
        // What becalm itself says comes last.
        variables.splice(..0, given);
        Ok(Some(StartedContainer { runs: runs.to_owned(), shell, clean: self.args.cleanenv }))
    }
}

/// Whether a file is a SIF, by its first bytes. A FIFO is not waited for.
pub fn is_container(path: &Path) -> bool {
    path.is_file()
        && File::open(path).is_ok_and(|file| Sif::is_in(&file).is_ok_and(|is_one| is_one))
}

fn is_squashfs(path: &Path) -> bool {
    let mut magic = [0; 4];
    let begins = |mut file: File| file.read_exact(&mut magic).is_ok_and(|()| magic == *b"hsqs");
    path.is_file() && File::open(path).is_ok_and(begins)
}

fn can_execute(path: &str) -> bool {
    Path::new(path).is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}
