//! What all ranks of a job have printed, as a process each.

use std::collections::BTreeMap;

use super::plan::TimedBy;
use super::rank::RankMeasures;
use crate::aslr::analyze::published::{self, Published};
use crate::aslr::log::{Address, LoggedProcess, Retest, RetestChange};

/// More processor time than this times the time that passed is that of more than one processor.
/// (Of a short command, some is from before its first instruction.)
const PARALLEL: f64 = 1.1;

/// A line that says something of a process.
pub(super) enum OutputLine {
    /// In the published form, and what is behind its colon.
    Published(Box<LoggedProcess>),
    /// A rank's own.
    Report(RankMeasures),
}

/// Why a job's ranks are not all there, once each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// None has a time.
    #[error("none of its ranks has told its time")]
    Nothing,
    /// Too few or too many.
    #[error("{found} ranks have told their times, and {wanted} should have")]
    Number {
        /// How many have.
        found: usize,
        /// How many ranks the jobs of this campaign have.
        wanted: u32,
    },
    /// Not a job's.
    #[error("rank {0} has told two times; is the launcher's rank not known?")]
    Twice(u32),
    /// A line whose numbers are no times.
    #[error("rank {0} has told what is no time")]
    NotTime(u32),
    /// No time that the kernel measures.
    #[error("rank {0} took no time that the kernel measures; give it more to do, or --by wall")]
    NoTime(u32),
}

/// What a line says, if it says anything of a process.
pub(super) fn said(line: &[u8]) -> Option<OutputLine> {
    if let Some(told) = RankMeasures::from_line(line) {
        return Some(OutputLine::Report(told));
    }
    let record = published::record(line.trim_ascii())?;
    let Published { rank, min, max, avg, stddev } = Published::parse(record)?;
    let mut process = LoggedProcess { rank, min, max, avg, stddev, ..LoggedProcess::default() };
    // A cut line is none: what is behind its colon may be cut, too.
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (_, beside) = text.split_once(" : ").unwrap_or_default();
    for (key, value) in beside.split_whitespace().filter_map(|word| word.split_once('=')) {
        match key {
            "cpu" => (process.first_cpu, process.cpu) = processors(value),
            "control" => process.control = value.parse().ok().filter(is_time),
            "dirty" => process.dirty_upper = Some(value == "1"),
            "maps" => process.maps = pairs(value).filter_map(address).collect(),
            "again" => process.retests = pairs(value).filter_map(retest).collect(),
            _ => {}
        }
    }
    Some(OutputLine::Published(Box::new(process)))
}

/// Where it began and ended, of `first,last`; of a single number, where it ended.
fn processors(text: &str) -> (Option<u32>, Option<u32>) {
    let (first, last) = text.rsplit_once(',').unwrap_or(("", text));
    (first.parse().ok(), last.parse().ok())
}

/// The pairs of `name@value,name@value`.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|pair| pair.split_once('@'))
}

fn address((name, digits): (&str, &str)) -> Option<(String, Address)> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    Some((name.to_owned(), Address(u64::from_str_radix(digits, 16).ok()?)))
}

fn retest((name, seconds): (&str, &str)) -> Option<Retest> {
    let changed = match name {
        "nothing" => RetestChange::Nothing,
        "cpu" => RetestChange::Cpu,
        "clean_upper" => RetestChange::CleanUpper,
        _ => return None,
    };
    Some(Retest { changed, avg: seconds.parse().ok().filter(is_time)? })
}

fn is_time(seconds: &f64) -> bool {
    seconds.is_finite() && *seconds >= 0.0
}

/// The processes of a job, by rank. Published lines count, if there are any; else each rank is one
/// sample, timed by this clock.
pub(super) fn processes(
    said: Vec<OutputLine>,
    by: TimedBy,
    wanted: Option<u32>,
) -> Result<Vec<LoggedProcess>, GatherError> {
    let (mut printed, mut told) = (Vec::new(), BTreeMap::new());
    for said in said {
        match said {
            OutputLine::Published(process) => printed.push(*process),
            OutputLine::Report(rank) => {
                let number = rank.rank;
                if told.insert(number, rank).is_some() {
                    return Err(GatherError::Twice(number));
                }
            }
        }
    }
    if printed.is_empty() {
        let timed = told.values().map(|told| timed(told, by));
        printed = timed.collect::<Result<_, _>>()?;
    }
    printed.sort_by_key(|process| process.rank);
    if let Some(pair) = printed.windows(2).find(|pair| pair[0].rank == pair[1].rank) {
        return Err(GatherError::Twice(pair[0].rank));
    }
    for process in &mut printed {
        if ![process.min, process.max, process.avg].iter().all(is_time) {
            return Err(GatherError::NotTime(process.rank));
        }
        // Of one repetition it is no number, which no log holds.
        if !is_time(&process.stddev) {
            process.stddev = 0.0;
        }
        if let Some(told) = told.remove(&process.rank) {
            add(process, told);
        }
    }
    match (printed.len(), wanted) {
        (0, _) => Err(GatherError::Nothing),
        (found, Some(wanted)) if found != wanted as usize => {
            Err(GatherError::Number { found, wanted })
        }
        _ => Ok(printed),
    }
}

/// What a rank's becalm tells of it, where it does not itself.
fn add(process: &mut LoggedProcess, told: RankMeasures) {
    // Of a command only: the built-in kernel has one thread.
    process.is_parallel = told.last_cpu.is_some() && told.cpu > told.wall * PARALLEL;
    process.node = Some(told.node);
    if process.maps.is_empty() {
        process.maps = told.maps;
    }
    if process.cpu.is_none() {
        (process.first_cpu, process.cpu) = (told.first_cpu, told.last_cpu);
    }
    process.control = process.control.or(told.control.filter(is_time));
    process.dirty_upper = process.dirty_upper.or(told.dirty_upper);
}

fn timed(told: &RankMeasures, by: TimedBy) -> Result<LoggedProcess, GatherError> {
    let took = match by {
        TimedBy::Cpu => told.cpu,
        TimedBy::Wall => told.wall,
    };
    if took <= 0.0 {
        return Err(GatherError::NoTime(told.rank));
    }
    let rank = told.rank;
    // Processor time has no waiting in it.
    let waited = told.waited.filter(|waited| by == TimedBy::Wall && is_time(waited));
    Ok(LoggedProcess { rank, min: took, max: took, avg: took, waited, ..LoggedProcess::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rank: u32) -> Vec<u8> {
        let maps = [("[stack]".to_owned(), Address(4096))].into();
        let told = RankMeasures {
            rank,
            node: "n1".into(),
            cpu: 0.25,
            wall: 0.5,
            maps,
            first_cpu: Some(1),
            last_cpu: Some(2),
            control: Some(5e-5),
            waited: Some(0.125),
            dirty_upper: Some(false),
        };
        format!("{}\n", told.line().unwrap()).into_bytes()
    }

    fn job(lines: &[&[u8]], wanted: Option<u32>) -> Result<Vec<LoggedProcess>, GatherError> {
        let said = lines.iter().filter_map(|line| said(line)).collect();
        processes(said, TimedBy::Cpu, wanted)
    }

    #[test]
    fn what_is_behind_the_colon_is_of_the_process() {
        let line = b"1: CT: 1 0.1 0.3 0.2 0.01 : cpu=3,5 control=1e-4 dirty=1 new=x \
                     again=nothing@0.25,cpu@0.1,other@1 maps=libm.so.6@0x7f00,[stack]@0x7ff0\n";
        let all = job(&[b"hello\n", line, &told(1), &told(0)], None).unwrap();
        let one = &all[0];
        assert_eq!((all.len(), one.rank, one.avg, one.cpu), (1, 1, 0.2, Some(5)));
        assert_eq!((one.control, one.dirty_upper), (Some(1e-4), Some(true)));
        assert_eq!(one.first_cpu, Some(3));
        assert_eq!((one.maps.len(), one.maps["libm.so.6"]), (2, Address(0x7f00)));
        assert_eq!(one.retests[1], Retest { changed: RetestChange::Cpu, avg: 0.1 });
        assert_eq!((one.retests.len(), one.node.as_deref()), (2, Some("n1")));
    }

    #[test]
    fn without_published_lines_each_rank_is_a_sample() {
        let all = job(&[&told(1), &told(0)], Some(2)).unwrap();
        assert_eq!(
            all.iter().map(|one| (one.rank, one.avg)).collect::<Vec<_>>(),
            [(0, 0.25), (1, 0.25)]
        );
    }

    #[test]
    fn what_a_rank_does_not_tell_of_itself_its_becalm_tells() {
        let all = job(&[&told(0)], None).unwrap();
        assert_eq!((all[0].first_cpu, all[0].cpu), (Some(1), Some(2)));
        assert_eq!((all[0].control, all[0].dirty_upper), (Some(5e-5), Some(false)));
        assert_eq!(all[0].waited, None, "processor time has no waiting in it");
        let by_wall = processes(said(&told(0)).into_iter().collect(), TimedBy::Wall, None).unwrap();
        assert_eq!((by_wall[0].avg, by_wall[0].waited), (0.5, Some(0.125)));
        let printed = b"CT: 0 0.1 0.3 0.2 0.01 : cpu=7 dirty=1\n";
        let all = job(&[printed, &told(0)], None).unwrap();
        assert_eq!((all[0].first_cpu, all[0].cpu), (None, Some(7)), "its own is not mixed");
        assert_eq!((all[0].control, all[0].dirty_upper), (Some(5e-5), Some(true)));
    }

    #[test]
    fn more_processor_time_than_time_is_of_more_than_one_processor() {
        let line = |cpu: f64| {
            let told =
                RankMeasures { cpu, wall: 1.0, last_cpu: Some(0), ..RankMeasures::default() };
            format!("{}\n", told.line().unwrap())
        };
        let is_parallel = |cpu| job(&[line(cpu).as_bytes()], None).unwrap()[0].is_parallel;
        assert!(!is_parallel(0.5) && !is_parallel(1.05) && is_parallel(1.5));
    }

    #[test]
    fn ranks_that_are_missing_or_there_twice_are_an_error() {
        let missing = GatherError::Number { found: 1, wanted: 2 };
        assert_eq!(job(&[&told(1)], Some(2)), Err(missing));
        assert_eq!(job(&[&told(1), &told(1)], None), Err(GatherError::Twice(1)));
        assert_eq!(job(&[b"nothing"], None), Err(GatherError::Nothing));
        let nan = b"CT: 1 0.1 nan 0.2 nan\n";
        assert_eq!(job(&[nan], None), Err(GatherError::NotTime(1)));
        let once = job(&[b"CT: 1 0.1 0.1 0.1 nan : control=nan again=cpu@inf\n"], None).unwrap();
        assert_eq!((once[0].stddev, once[0].control, once[0].retests.len()), (0.0, None, 0));
        let cut = b"CT: 1 0.1 0.3 0.2 0.01 : maps=libm.so.6@0x7f";
        assert_eq!(job(&[cut], None), Err(GatherError::Nothing));
    }
}
