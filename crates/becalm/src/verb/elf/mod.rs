//! `becalm elf`: what the dynamic loader does, and binding or packing it away.

pub mod bind;
pub mod hook;
pub mod pack;
pub mod tree;

use crate::exit::Failure;

/// See what the dynamic loader searches for, and bind files to what it finds, or pack it
///
/// Each subcommand has --json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  becalm elf tree /opt/app/bin/app
  becalm elf bind --dry-run /opt/spack/opt
  becalm elf pack /opt/app/bin/app -o app.pack")]
pub struct ElfArgs {
    #[command(subcommand)]
    verb: ElfVerb,
}

#[derive(clap::Subcommand)]
enum ElfVerb {
    Tree(tree::ElfTreeArgs),
    Bind(bind::ElfBindArgs),
    Hook(hook::ElfHookArgs),
    Pack(pack::ElfPackArgs),
}

/// Runs the verb.
pub fn run(args: &ElfArgs) -> Result<u8, Failure> {
    match &args.verb {
        ElfVerb::Tree(args) => tree::run(args),
        ElfVerb::Bind(args) => bind::run(args),
        ElfVerb::Hook(args) => hook::run(args),
        ElfVerb::Pack(args) => pack::run(args),
    }
}
