//! Who started whom: the processes of a recording by their ancestry.

use std::collections::HashMap;

use recording::{Exec, Nanos, Process, ProcessId, Recording, query};

/// Deeper ancestries are shown as this deep.
const DEEPEST: usize = 64;

/// A moment of the recording and one of perf may be told apart by this much: the recording says
/// when it began to a few milliseconds only. No process id is used twice within that time.
const SLACK: Nanos = Nanos(20_000_000);

/// All processes of the same ancestry: the same programs from the command down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kin {
    /// Who started them; none for the command itself.
    pub above: Option<usize>,
    /// What they run.
    pub program: String,
    /// How many there are.
    pub starts: u64,
    depth: usize,
}

/// The ancestries of a recording's processes.
#[derive(Debug)]
pub struct Lineage {
    /// The distinct ancestries, parents first.
    pub kin: Vec<Kin>,
    of_process: Vec<usize>,
    /// By process id, in the order in which they started.
    by_pid: HashMap<u32, Vec<(Nanos, ProcessId)>>,
}

impl Lineage {
    /// The ancestries of all processes.
    pub fn of(recording: &Recording) -> Lineage {
        let mut lineage =
            Lineage { kin: Vec::new(), of_process: Vec::new(), by_pid: HashMap::new() };
        let mut known: HashMap<(Option<usize>, String), usize> = HashMap::new();
        for process in &recording.processes {
            lineage.by_pid.entry(process.pid).or_default().push((process.started, process.id));
            // Parents come before their children.
            let parent = process.parent.map(|parent| lineage.of_process[parent.0 as usize]);
            let above = parent.map(|above| lineage.no_deeper(above));
            let program = program_of(recording, process);
            let kin = *known.entry((above, program)).or_insert_with_key(|(_, program)| {
                let depth = above.map_or(1, |above| lineage.kin[above].depth + 1);
                let program = program.clone();
                lineage.kin.push(Kin { above, program, starts: 0, depth });
                lineage.kin.len() - 1
            });
            lineage.kin[kin].starts += 1;
            lineage.of_process.push(kin);
        }
        lineage
    }

    fn no_deeper(&self, kin: usize) -> usize {
        match self.kin[kin].above {
            Some(above) if self.kin[kin].depth >= DEEPEST => above,
            _ => kin,
        }
    }

    /// The ancestry of a process.
    pub fn of_process(&self, process: ProcessId) -> usize {
        self.of_process[process.0 as usize]
    }

    /// The process that had this id at a moment.
    pub fn at(&self, pid: u32, moment: Nanos) -> Option<ProcessId> {
        let all = self.by_pid.get(&pid)?;
        let after = all.partition_point(|(started, _)| *started <= moment + SLACK);
        all.get(after.saturating_sub(1)).map(|(_, process)| *process)
    }

    /// All process ids.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.by_pid.keys().copied().collect();
        pids.sort_unstable();
        pids
    }

    /// The numbers of an ancestry, the command's first.
    pub fn line(&self, kin: usize) -> Vec<usize> {
        let mut line: Vec<usize> =
            std::iter::successors(Some(kin), |kin| self.kin[*kin].above).collect();
        line.reverse();
        line
    }
}

/// What a process runs: the last program that it became; what is only forked runs its parent's.
fn program_of(recording: &Recording, process: &Process) -> String {
    let name = |exec: &Exec| recording::shown(&query::program_name(recording, exec));
    if let Some(exec) = process.execs.last() {
        return name(exec);
    }
    match recording.program(process.id, process.started) {
        Some(exec) => format!("{} (fork)", name(exec)),
        None => "(before exec)".to_owned(),
    }
}
