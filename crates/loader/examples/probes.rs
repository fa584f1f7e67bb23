//! Prints every path that the loader will ask for to start a program, without starting it:
//!
//! ```text
//! cargo run -p becalm-loader --example probes -- /usr/bin/git
//! ```

use std::path::Path;

use loader::{Disk, LoaderSetting, simulate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::args_os().nth(1).ok_or("which program?")?;
    let (disk, program) = (Disk::new(), Path::new(&program));
    let setting =
        LoaderSetting::for_program(&disk, program)?.with_environment(|name| std::env::var_os(name));
    let simulation = simulate(&disk, program, &setting)?;
    for probe in &simulation.probes {
        let call = setting.system_call(probe.call);
        println!("{call} {} {:?}", probe.path.display(), probe.answer);
    }
    println!("{} objects", simulation.objects.len());
    Ok(())
}
