//! `becalm completions`.

mod tcsh;

use std::io::{Write, stdout};

use anyhow::Context;
use clap_complete::{Shell, generate};

use crate::command_line::shown;
use crate::exit::Failure;

/// Print a shell's script that completes verbs, options, commands and files
///
/// Where a shell looks for it by itself: bash in ~/.local/share/bash-completion/completions/becalm,
/// fish in ~/.config/fish/completions/becalm.fish, zsh in the file _becalm of a directory of $fpath.
/// Packages of becalm bring these files.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm completions fish > ~/.config/fish/completions/becalm.fish
  source <(becalm completions bash)           in ~/.bashrc
  eval \"`becalm completions tcsh`\"            in ~/.tcshrc")]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: CompletedShell,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CompletedShell {
    Bash,
    Elvish,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Tcsh,
    Zsh,
}

/// Runs the verb.
pub fn run(args: &CompletionsArgs) -> Result<u8, Failure> {
    stdout().write_all(script(args.shell).as_bytes()).context("standard output")?;
    Ok(0)
}

/// clap's script; bash and fish are told, besides, what follows a `--`, which clap tells zsh alone.
fn script(shell: CompletedShell) -> String {
    match shell {
        CompletedShell::Bash => clap_script(Shell::Bash) + include_str!("command.bash"),
        CompletedShell::Elvish => clap_script(Shell::Elvish),
        CompletedShell::Fish => clap_script(Shell::Fish) + include_str!("command.fish"),
        CompletedShell::PowerShell => clap_script(Shell::PowerShell),
        CompletedShell::Tcsh => tcsh::script(&shown()),
        CompletedShell::Zsh => clap_script(Shell::Zsh),
    }
}

fn clap_script(shell: Shell) -> String {
    let mut script = Vec::new();
    generate(shell, &mut shown(), "becalm", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
