//! `becalm elf pack`.

pub mod view;

use std::path::PathBuf;

use pack::{PackOptions, make};

use crate::exit::Failure;
use view::ElfPack;

/// Write a program's start into one file: libraries as the loader has mapped and relocated them
///
/// The program is started twice, up to where its loader has done its work; nothing of the program
/// runs. `becalm run --pack` then starts it from that file, with a few metadata operations, where the
/// machine, the environment and all files are as they were, and else as always. For glibc on x86-64.
/// Beside FILE a copy of the program is written, FILE.program. Exit status 1: it cannot be packed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm elf pack /opt/app/bin/app -o app.pack
  becalm elf pack --immutable /nix/store /nix/store/hash-app/bin/app -o app.pack
  becalm run --pack app.pack -- /opt/app/bin/app input")]
pub struct ElfPackArgs {
    /// The program
    program: PathBuf,

    /// The pack
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,

    /// No file below this directory ever changes: a start does not look at them again. What an update
    /// writes in place is then missed
    #[arg(long, value_name = "DIR")]
    immutable: Vec<PathBuf>,

    /// Print one JSON object (docs/schema/becalm.elf.pack.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &ElfPackArgs) -> Result<u8, Failure> {
    let options = PackOptions { immutable: args.immutable.clone() };
    let made = make(&args.program, &args.output, &options)?;
    let told = ElfPack::of(&made);
    match args.json {
        true => term::print(&term::json(&told)?)?,
        false => term::print(&told.render(term::width::terminal()))?,
    }
    Ok(0)
}
