//! `--until`: the verbs that watch a command's start let go of it when that is over.

use watch::Until;

/// What ends the watching.
#[derive(Clone, clap::Args)]
pub struct UntilOptions {
    /// Watch the start alone, and let go of the command when it is over, which runs at full speed
    /// then: at the first of mpi-init (MPI_Init has returned), quiet (nothing new was opened for
    /// 0.5 s), SECONDS, exec:NAME, open:GLOB, or at Ctrl-\. May be given several times. exit
    /// watches the whole run. [default: mpi-init where the program has one, else quiet]
    #[arg(long, value_name = "WHEN", verbatim_doc_comment)]
    until: Vec<Until>,
}

impl UntilOptions {
    /// The conditions; those of a start where none is given.
    pub fn conditions(&self) -> Vec<Until> {
        match self.until.is_empty() {
            true => vec![Until::Start],
            false => self.until.clone(),
        }
    }
}
