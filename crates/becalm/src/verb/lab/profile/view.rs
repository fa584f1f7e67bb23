//! What `becalm lab profile` answers: where the time goes, and what samples do not see of it.

use std::path::{Path, PathBuf};

use lab::profile::{Allowed, CommandProfile, ProfileWarning, SamplingMethod, Scope};
use recording::{Micros, Name, Nanos, shown_name};
use schemars::JsonSchema;
use serde::Serialize;

use term::number::{count, counted, cpu, percent, time};
use term::{Cell, Column, Table, plain, quoted_path, shell_line, style, width};

/// Rows of each table.
const ROWS: usize = 8;

/// How samples were taken, or why not.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// How; none if there are none.
    pub how: Option<SamplingMethod>,
    /// Why there are none, or not all.
    pub trouble: Option<String>,
    allowed: Allowed,
}

impl Sampling {
    /// There are samples; perf may have ended in the middle.
    pub fn of(how: SamplingMethod, allowed: &Allowed, trouble: Option<String>) -> Sampling {
        Sampling { how: Some(how), trouble, allowed: *allowed }
    }

    /// There are none.
    pub fn none(allowed: &Allowed, why: Option<String>) -> Sampling {
        Sampling { how: None, trouble: why, allowed: *allowed }
    }
}

/// What is shown of a profile.
#[derive(Clone, Debug)]
pub struct Profiled {
    /// The command.
    pub command: Vec<Name>,
    /// Which of many ranks it is about; none where there is one.
    pub rank: Option<u32>,
    /// The flame graph's file.
    pub output: PathBuf,
    /// The folded stacks' file.
    pub folded: Option<PathBuf>,
    /// How many of its processes still ran at the end.
    pub still_running: u64,
    /// How samples were taken.
    pub sampling: Sampling,
    /// What came of it.
    pub profile: CommandProfile,
}

/// `becalm.lab.profile/1`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ObjectWarning<'a> {
    /// `becalm.lab.profile/1`.
    schema: &'static str,
    /// The command (names).
    command: &'a [Name],
    /// Which of many ranks it is about; null where there is one.
    rank: Option<u32>,
    /// The flame graph's file.
    svg: String,
    /// The folded stacks' file.
    folded: Option<String>,
    /// How samples were taken; null if none were.
    sampling: Option<SamplingMethod>,
    /// Why there are no samples, or not all; null also where `--starts` asked for none.
    trouble: Option<&'a str>,
    /// The kernel's setting.
    perf_event_paranoid: Option<i32>,
    /// Processes that still ran when the command had ended; their CPU time is not known.
    still_running: u64,
    #[serde(flatten)]
    profile: CommandProfile,
}

impl Profiled {
    /// The answer for programs.
    pub fn json(&self) -> ObjectWarning<'_> {
        let mut profile = self.profile.clone();
        profile.warnings = self.warnings();
        let text = |path: &Path| shown_name(path);
        ObjectWarning {
            schema: "becalm.lab.profile/1",
            command: &self.command,
            rank: self.rank,
            svg: text(&self.output),
            folded: self.folded.as_deref().map(text),
            sampling: self.sampling.how,
            trouble: self.sampling.trouble.as_deref(),
            perf_event_paranoid: self.sampling.allowed.paranoid,
            still_running: self.still_running,
            profile,
        }
    }

    /// The command as a shell takes it.
    pub fn command_line(&self) -> String {
        shell_line(&self.command)
    }

    /// What widths are, for the line below the graph's title.
    pub fn subtitle(&self, unit: &str) -> String {
        let profile = &self.profile;
        let starts = counted(profile.processes, "process start", "process starts");
        let used = cpu(Micros(profile.cpu_us));
        match self.sampling.how {
            Some(_) => format!(
                "CPU time: {used}, {} at {} Hz, {starts}; grey was not sampled",
                counted(profile.samples, "sample", "samples"),
                self.sampling.how.map_or(0, |how| how.frequency_hz),
            ),
            None => format!("{starts}, without samples; width: {unit}; CPU time: {used}"),
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let mut text = style::headline(&self.headline(), columns);
        text += &format!("\n{}", self.programs(columns));
        if !self.profile.functions.is_empty() {
            text += &format!("\n{}", self.functions(columns));
        }
        let said = self.said();
        if !said.is_empty() {
            text.push('\n');
        }
        for line in said {
            text += &width::wrap(&format!("Note: {line}"), columns);
        }
        text.push('\n');
        text + &self.next()
    }

    fn headline(&self) -> String {
        let profile = &self.profile;
        let all = format!(
            "{} of CPU time in {}",
            cpu(Micros(profile.cpu_us)),
            counted(profile.processes, "process", "processes"),
        );
        let most = profile.programs.first().filter(|first| first.cpu_us > 0).map(|first| {
            let share = percent(first.cpu_us, profile.cpu_us);
            let starts = match first.processes {
                1 => String::new(),
                starts => format!(" ({} starts)", count(starts)),
            };
            format!(", {share} of it in {}{starts}", plain(&first.program))
        });
        let function = profile.functions.first().filter(|first| first.self_us > 0).map(|first| {
            let share = percent(first.self_us, profile.sampled_us);
            format!("; of what was sampled, {share} in {}", named(first.function.as_deref()))
        });
        let short = (profile.short_us > 0 && self.sampling.how.is_some()).then(|| {
            format!("; {} was too short to be sampled", percent(profile.short_us, profile.cpu_us))
        });
        [Some(all), most, function, short].into_iter().flatten().collect()
    }

    fn programs(&self, columns: usize) -> String {
        let sampling = self.sampling.how.is_some();
        let mut table = Table::new(
            [Column::number("CPU"), Column::number("share"), Column::number("starts")]
                .into_iter()
                .chain(sampling.then(|| Column::number("sampled")))
                .chain([Column::path("program")]),
        );
        for row in self.profile.programs.iter().take(ROWS) {
            let mut cells = vec![
                Cell::from(cpu(Micros(row.cpu_us))),
                Cell::from(percent(row.cpu_us, self.profile.cpu_us)),
                Cell::from(count(row.processes)),
            ];
            if sampling {
                cells.push(cpu(Micros(row.sampled_us)).into());
            }
            cells.push((&*row.program).into());
            table.row(cells);
        }
        table.render(columns) + &more(self.profile.programs.len())
    }

    fn functions(&self, columns: usize) -> String {
        let mut table = Table::new([
            Column::number("self"),
            Column::number("share"),
            Column::path("function"),
            Column::path("in").spare(),
        ]);
        for row in self.profile.functions.iter().take(ROWS) {
            let object = row.object.as_deref().unwrap_or("");
            table.row([
                Cell::from(cpu(Micros(row.self_us))),
                Cell::from(percent(row.self_us, self.profile.sampled_us)),
                Cell::from(named(row.function.as_deref())),
                Cell::from(object.rsplit('/').next().unwrap_or(object)),
            ]);
        }
        table.render(columns) + &more(self.profile.functions.len())
    }

    /// What a reader must know before trusting it.
    fn said(&self) -> Vec<String> {
        let about = |warning: ProfileWarning| match warning.object {
            Some(object) => format!("{}: {}", plain(&object), plain(&warning.text)),
            None => plain(&warning.text),
        };
        self.warnings().into_iter().map(about).collect()
    }

    /// What the kernel forbids, and what samples lack.
    fn warnings(&self) -> Vec<ProfileWarning> {
        let mut warnings = Vec::new();
        let mut say = |kind, text: String| {
            warnings.push(ProfileWarning {
                kind,
                object: None,
                samples: self.profile.samples,
                text,
            });
        };
        let sampling = &self.sampling;
        match (&sampling.how, &sampling.trouble) {
            (None, Some(why)) => say(
                "no_samples",
                format!("no samples were taken: {why}. The graph is of process starts alone"),
            ),
            (Some(_), Some(why)) => say("cut", format!("samples are missing: {why}")),
            _ => {}
        }
        if let Some(how) = sampling.how {
            for (kind, text) in limits(&how, &sampling.allowed) {
                say(kind, text);
            }
            if self.profile.samples == 0 && sampling.trouble.is_none() {
                say(
                    "none_hit",
                    format!(
                        "no sample hit the command: it used less CPU time than is between two \
                     ({}); raise --frequency, or run more of it",
                        time(Nanos(how.period_ns()))
                    ),
                );
            }
        }
        warnings.extend(self.profile.warnings.iter().take(ROWS).cloned());
        warnings
    }

    fn next(&self) -> String {
        let command = self.command_line();
        let file = quoted_path(&self.output);
        let mut text = format!("The flame graph: {file}\n");
        if self.profile.processes > 50 {
            text += &style::next(&format!("becalm fork lines -- {command}"));
        }
        text
    }
}

/// What is lost for want of privilege or of a counter.
fn limits(how: &SamplingMethod, allowed: &Allowed) -> Vec<(&'static str, String)> {
    let level = allowed.paranoid.map_or_else(String::new, |level| format!(" (it is {level})"));
    let mut limits = Vec::new();
    if !how.kernel {
        limits.push((
            "no_kernel",
            format!(
                "the kernel's own part is not sampled: that takes \
                 kernel.perf_event_paranoid of 1 or less{level}, or CAP_PERFMON"
            ),
        ));
    }
    if how.scope == Scope::Command {
        limits.push((
            "command_only",
            format!(
                "processes of under {} are not sampled: that takes sampling the whole \
                 machine, which takes kernel.perf_event_paranoid of 0 or less{level}, or CAP_PERFMON",
                time(Nanos(how.period_ns()))
            ),
        ));
    }
    if !allowed.cycles {
        limits.push((
            "no_counter",
            "samples are taken by a timer: this machine shows no cycle counter (virtual machines \
             often do not), so code that blocks interrupts is seen where it ends"
                .to_owned(),
        ));
    }
    limits
}

fn named(function: Option<&str>) -> String {
    function.map_or_else(|| "(no name)".to_owned(), plain)
}

fn more(all: usize) -> String {
    match all.saturating_sub(ROWS) {
        0 => String::new(),
        more => format!("({} more: --json)\n", count(more as u64)),
    }
}
