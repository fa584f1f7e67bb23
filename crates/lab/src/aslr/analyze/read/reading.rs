//! One file, line by line, into samples.

use std::collections::HashSet;
use std::fs::File;

use super::line::{self, LogLines};
use super::paths::LogSource;
use super::published::{self, Published};
use super::{
    Details, LogForm, LogReadError, LoggedRun, MOST_DETAILS, MOST_SAMPLES, NONE, RankSample,
    RankSamples, Statistic,
};
use crate::aslr::log::{Address, CampaignHeader, LoggedProcess, SCHEMA};

/// A file that is being read.
pub(super) struct LogReading<'a> {
    samples: &'a mut RankSamples,
    statistic: Statistic,
    file: usize,
    form: LogForm,
    campaign: usize,
    /// Ranks of the job so far: one that comes again is of the next job.
    ranks: HashSet<u32>,
    job: u64,
    line: u64,
}

impl<'a> LogReading<'a> {
    /// A file that nothing is read of yet.
    pub(super) fn of(
        samples: &'a mut RankSamples,
        source: &LogSource,
        statistic: Statistic,
    ) -> LogReading<'a> {
        samples.files.push(source.path.clone());
        let file = samples.files.len() - 1;
        // Blocks of a log whose header is lost are its own.
        samples.campaigns.push((format!("\0{file}"), file));
        let campaign = samples.campaigns.len() - 1;
        let ranks = HashSet::new();
        LogReading { samples, statistic, file, form: source.form, campaign, ranks, job: 0, line: 0 }
    }

    /// Reads all of it.
    pub(super) fn read(mut self, source: &LogSource) -> Result<(), LogReadError> {
        let failed = |error| LogReadError::Io { path: source.path.clone(), error };
        let mut lines = LogLines::of(File::open(&source.path).map_err(failed)?);
        let arm = match self.form {
            LogForm::Own => 0,
            LogForm::Published | LogForm::Plain => {
                self.samples.inferred |= source.inferred;
                self.samples.arm_number(&source.arm, self.file)
            }
        };
        while let Some(line) = lines.next().map_err(failed)? {
            self.line += 1;
            let text = line.text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            if line::form_of(text).is_some_and(|form| form != self.form) {
                return Err(LogReadError::Mixed { path: source.path.clone(), line: self.line });
            }
            match self.form {
                LogForm::Published => self.published(arm, text, line.is_whole)?,
                LogForm::Own => self.own(text, line.is_whole, source)?,
                LogForm::Plain => self.plain(arm, text)?,
            }
        }
        Ok(())
    }

    fn published(&mut self, arm: usize, text: &[u8], is_whole: bool) -> Result<(), LogReadError> {
        // Whatever else a program prints is no record.
        let Some(record) = published::record(text) else { return Ok(()) };
        let Some(Published { rank, min, max, avg, stddev }) = Published::parse(record) else {
            return self.flaw(is_whole, "is no whole record");
        };
        // The last number of a cut line may itself be cut.
        if !is_whole && !record.contains(&b':') {
            return self.flaw(false, "");
        }
        if !self.ranks.insert(rank) {
            self.ranks.clear();
            self.ranks.insert(rank);
            self.job += 1;
        }
        let run = LoggedRun { arm, file: self.file, job: self.job, block: None };
        self.push(run, rank, [min, max, avg, stddev], None)
    }

    fn plain(&mut self, arm: usize, text: &[u8]) -> Result<(), LogReadError> {
        if text[0] == b'#' {
            return Ok(());
        }
        let Some(value) = line::number(text) else {
            return self.flaw(true, "is no number");
        };
        if !value.is_finite() {
            return self.not_number();
        }
        let run = LoggedRun { arm, file: self.file, job: 0, block: None };
        let rank = u32::try_from(self.line - 1).unwrap_or(u32::MAX);
        self.push(run, rank, [value, value, value, 0.0], None)
    }

    fn own(&mut self, text: &[u8], is_whole: bool, source: &LogSource) -> Result<(), LogReadError> {
        let Ok(process) = serde_json::from_slice::<LoggedProcess>(text) else {
            return self.header(text, is_whole, source);
        };
        let arm = self.samples.arm_number(&process.arm, self.file);
        let block = process.block.map(|block| (self.campaign, block));
        // Jobs have their numbers throughout a campaign, whichever node's log tells of them.
        let file =
            if block.is_some() { self.samples.campaigns[self.campaign].1 } else { self.file };
        let run = LoggedRun { arm, file, job: process.job, block };
        let times = [process.min, process.max, process.avg, process.stddev];
        let rank = process.rank;
        let details = self.details(process)?;
        self.push(run, rank, times, details)
    }

    fn header(
        &mut self,
        text: &[u8],
        is_whole: bool,
        source: &LogSource,
    ) -> Result<(), LogReadError> {
        let Ok(header) = serde_json::from_slice::<CampaignHeader>(text) else {
            return self.flaw(is_whole, "is no whole record");
        };
        if header.schema != SCHEMA {
            let path = source.path.clone();
            return Err(LogReadError::Schema { path, schema: header.schema });
        }
        if let Some(name) = header.campaign {
            let (campaigns, file) = (&mut self.samples.campaigns, self.file);
            let known = campaigns.iter().position(|(campaign, _)| *campaign == name);
            self.campaign = known.unwrap_or_else(|| {
                campaigns.push((name, file));
                campaigns.len() - 1
            });
        }
        Ok(())
    }

    /// What the log says of a process beside its times, if anything; and its new place.
    fn details(&mut self, process: LoggedProcess) -> Result<Option<u32>, LogReadError> {
        let says = process.node.is_some()
            || process.cpu.is_some()
            || process.control.is_some()
            || process.waited.is_some()
            || process.dirty_upper.is_some()
            || process.layout.is_some()
            || !process.maps.is_empty()
            || !process.retests.is_empty();
        if !says {
            return Ok(None);
        }
        if self.samples.details.len() >= MOST_DETAILS {
            return Err(LogReadError::TooMany { most: MOST_DETAILS });
        }
        let maps = process.maps.into_iter();
        let maps = maps.filter_map(|(name, Address(at))| Some((self.map_number(name)?, at)));
        let maps = maps.collect();
        self.samples.details.push(Details {
            node: process.node.map(String::into_boxed_str),
            cpu: process.cpu,
            control: process.control.filter(|control| control.is_finite()),
            waited: process.waited.filter(|waited| waited.is_finite()),
            dirty_upper: process.dirty_upper,
            layout: process.layout.map(String::into_boxed_str),
            maps,
            retests: process.retests.into_boxed_slice(),
        });
        Ok(Some(self.samples.details.len() as u32 - 1))
    }

    /// The place of a mapping's name. None after the first thousand names, which no program has.
    fn map_number(&mut self, name: String) -> Option<u16> {
        const MOST_NAMES: usize = 1000;
        let maps = &mut self.samples.maps;
        if let Some(known) = maps.iter().position(|map| *map == name) {
            return Some(known as u16);
        }
        (maps.len() < MOST_NAMES).then(|| {
            maps.push(name);
            maps.len() as u16 - 1
        })
    }

    fn push(
        &mut self,
        run: LoggedRun,
        rank: u32,
        [min, max, avg, stddev]: [f64; 4],
        details: Option<u32>,
    ) -> Result<(), LogReadError> {
        let is_time = |time: f64| time.is_finite() && (time >= 0.0 || self.form == LogForm::Plain);
        // The deviation of one repetition is no number, and none is needed.
        if ![min, max, avg].into_iter().all(is_time) {
            return self.not_number();
        }
        if self.samples.samples.len() >= MOST_SAMPLES {
            return Err(LogReadError::TooMany { most: MOST_SAMPLES });
        }
        let value = match self.statistic {
            Statistic::Avg => avg,
            Statistic::Min => min,
            Statistic::Max => max,
        };
        let run = self.samples.run_number(run);
        let (min, max, stddev) = (min as f32, max as f32, stddev as f32);
        let details = details.unwrap_or(NONE);
        self.samples.samples.push(RankSample { value, rank, run, details, min, max, stddev });
        Ok(())
    }

    fn not_number(&mut self) -> Result<(), LogReadError> {
        self.samples.trouble.not_numbers += 1;
        self.note("holds what is no time");
        Ok(())
    }

    /// A line that cannot be used. The last one of a file was cut, if no newline ends it.
    fn flaw(&mut self, is_whole: bool, what: &str) -> Result<(), LogReadError> {
        if is_whole {
            self.samples.trouble.malformed += 1;
            self.note(what);
        } else {
            self.samples.trouble.cut += 1;
            self.note("is cut");
        }
        Ok(())
    }

    fn note(&mut self, what: &str) {
        let path = &self.samples.files[self.file];
        let line = self.line;
        let first = || format!("{}, line {line}: {what}", path.display());
        self.samples.trouble.first.get_or_insert_with(first);
    }
}
