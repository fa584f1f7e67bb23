//! A script that runs a campaign under Slurm.

/// What goes into the script. Words are quoted for a shell already.
#[derive(Clone, Debug)]
pub struct Batch {
    /// On how many nodes.
    pub nodes: u32,
    /// How many ranks a job has.
    pub tasks: u32,
    /// The job's time limit, as sbatch takes it; none leaves it to the partition.
    pub time: Option<String>,
    /// The frequency of the ranks' processors, as srun takes it.
    pub cpu_freq: Option<String>,
    /// Which rank runs on which processor, as srun takes it.
    pub cpu_bind: Option<String>,
    /// becalm, as the node of the script finds it.
    pub becalm: String,
    /// The campaign's directory.
    pub directory: String,
    /// Its other options.
    pub options: String,
    /// ` -- CMD`, or nothing.
    pub command: String,
}

impl Batch {
    /// The script. It copies becalm to every node first, so that ranks do not all read it from a
    /// shared filesystem.
    pub fn script(&self) -> String {
        let Batch { nodes, tasks, becalm, directory, options, command, .. } = self;
        let option = |name, value: &Option<String>| {
            value.as_ref().map(|value| format!(" --{name}={value}")).unwrap_or_default()
        };
        let bound = option("cpu-freq", &self.cpu_freq) + &option("cpu-bind", &self.cpu_bind);
        let time = self.time.as_ref().map(|time| format!("#SBATCH --time={time}\n"));
        let time = time.unwrap_or_default();
        format!(
            "#!/bin/sh
# A campaign of becalm's. When its time is over, submit it again: it goes on.
#SBATCH --job-name=becalm-aslr
#SBATCH --nodes={nodes}
#SBATCH --ntasks={tasks}
{time}set -eu
here=${{TMPDIR:-/tmp}}/becalm-$SLURM_JOB_ID
trap 'srun --nodes=\"$SLURM_NNODES\" --ntasks=\"$SLURM_NNODES\" rm -f \"$here\"' EXIT
sbcast --force {becalm} \"$here\"
{becalm} lab aslr campaign -o {directory}{options} --becalm \"$here\" \\
    --launcher \"srun --nodes=$SLURM_NNODES --ntasks=$SLURM_NTASKS{bound}\"{command}
"
        )
    }
}
