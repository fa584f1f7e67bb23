//! `becalm modules status`: how modulepaths are, on one screen.

use std::path::PathBuf;

use modules::audit::{CommandCost, Level, RuleSum};
use modules::calm::{CalmPart, CalmState};
use modules::remember::RememberedShare;
use modules::site::ModulepathOddity;
use modules::status::{
    ModulepathStatus, StatusGround, StepState, StepStatus, StoredCopy, StoredState,
};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted};
use term::{Cell, Column, Table, plain, shell_line, style, width};

/// What was found out for it.
pub struct StatusParts {
    /// Each modulepath.
    pub modulepaths: Vec<ModulepathStatus>,
    /// Each step.
    pub steps: Vec<StepStatus>,
    /// What of the user's own commands is answered from memory.
    pub remembered: Option<RememberedShare>,
}

/// What `becalm modules status` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesStatus {
    /// `becalm.modules.status/1`.
    schema: &'static str,
    /// Whether there is nothing to calm: the exit status is 0.
    calm: bool,
    /// The release of the site's Modules.
    release: String,
    /// The modulepaths that can be looked at.
    modulepaths: Vec<ModulepathStatus>,
    /// What commands cost on all of them, by the model and by the real command.
    costs: Vec<CommandCost>,
    /// The steps of Modules' cookbook, and becalm's own.
    steps: Vec<StepStatus>,
    /// What is wrong in the trees, by rule: `becalm modules audit` lists it.
    rules: Vec<RuleSum>,
    /// The plan that `becalm modules calm` would show.
    parts: Vec<CalmPart>,
    /// What is remembered of the commands that this user has asked; none where none was.
    remembered: Option<RememberedShare>,
    /// What to type next; empty if nothing is to be done.
    next: String,
    #[serde(skip)]
    calls: (u64, u64),
}

/// How much is remembered, as a person says it.
fn told(share: &RememberedShare) -> String {
    let asked = counted(share.commands, "command that you asked", "commands that you asked");
    let refused = match share.refused {
        0 => String::new(),
        refused => format!(", {} cannot be repeated", count(refused)),
    };
    let remembered = count(share.remembered);
    format!("Of {asked}, {remembered} answered from memory{refused} (becalm modules remembered).")
}

impl ModulesStatus {
    /// The answer for some modulepaths.
    pub fn of(
        ground: &StatusGround<'_>,
        parts: StatusParts,
        paths: &[(PathBuf, Option<ModulepathOddity>)],
    ) -> ModulesStatus {
        let is_wrong = |copy: &StoredCopy| copy.state == StoredState::Wrong;
        let has_wrong_cache = parts.modulepaths.iter().any(|path| is_wrong(&path.cache));
        let names = shell_line(paths.iter().map(|(path, _)| path));
        let has_errors = ground.audit.rules.iter().any(|sum| sum.level == Level::Error);
        let next = match (ground.plan.is_empty(), has_errors) {
            (false, _) => format!("becalm modules calm {names}"),
            (true, true) => format!("becalm modules audit --no-run {names}"),
            (true, false) => String::new(),
        };
        ModulesStatus {
            schema: "becalm.modules.status/1",
            calm: ground.plan.is_empty() && !has_wrong_cache,
            release: ground.site.release.text().to_owned(),
            modulepaths: parts.modulepaths,
            costs: ground.audit.costs.clone(),
            steps: parts.steps,
            rules: ground.audit.rules.clone(),
            parts: ground.plan.parts.clone(),
            remembered: parts.remembered,
            next,
            calls: (ground.plan.calls_before, ground.plan.calls_after),
        }
    }

    /// Whether there is nothing to calm.
    pub fn is_calm(&self) -> bool {
        self.calm
    }

    /// The answer as a person reads it, at most `columns` columns wide: one section after the other.
    pub fn render(&self, columns: usize) -> String {
        let mut text = style::headline(&plain(&self.headline()), columns);
        for table in [self.paths(), self.commands(), self.steps()].into_iter().flatten() {
            text.push('\n');
            text.push_str(&table.render(columns));
        }
        for step in &self.steps {
            let why =
                step.why.as_deref().map(|why| format!("{}: {}", step.step.words(), plain(why)));
            text.push_str(&why.map(|why| width::wrap(&why, columns)).unwrap_or_default());
        }
        text.push_str(&self.wrong(columns));
        if let Some(share) = &self.remembered {
            text.push('\n');
            text.push_str(&width::wrap(&told(share), columns));
        }
        if !self.next.is_empty() {
            text.push('\n');
            text.push_str(&style::next(&self.next));
        }
        text
    }

    fn headline(&self) -> String {
        let files: u64 = self.modulepaths.iter().map(|path| path.census.modulefiles).sum();
        let what = format!(
            "{} in {}",
            counted(files, "modulefile", "modulefiles"),
            counted(self.modulepaths.len() as u64, "modulepath", "modulepaths")
        );
        let (before, after) = self.calls;
        let calls = format!("avail makes {} on the trees", counted(before, "call", "calls"));
        match (self.calm, self.next.starts_with("becalm modules calm")) {
            (true, _) => format!("Calm: {what}; {calls}, and nothing would make it fewer."),
            (false, true) if after < before => {
                format!("{what}: {calls}; {} once calmed.", count(after))
            }
            (false, true) => format!("{what}: {calls}; there is something to calm."),
            (false, false) => format!("{what}: {calls}; a cache is wrong, and it is not yours."),
        }
    }

    fn paths(&self) -> Option<Table> {
        let mut table = Table::new([
            Column::path("modulepath"),
            Column::number("modulefiles"),
            Column::number("avail"),
            Column::number("load"),
            Column::number("whatis"),
            Column::text("cache"),
            Column::text("index"),
        ]);
        for path in &self.modulepaths {
            table.row([
                Cell::from(path.path.to_string()),
                Cell::from(count(path.census.modulefiles)),
                Cell::from(count(path.avail_calls)),
                Cell::from(path.load_calls.map(count).unwrap_or_default()),
                Cell::from(count(path.whatis_calls)),
                copy(&path.cache),
                copy(&path.index),
            ]);
        }
        (!self.modulepaths.is_empty()).then_some(table)
    }

    fn commands(&self) -> Option<Table> {
        let mut table = Table::new([
            Column::path(&format!("Modules {}", self.release)),
            Column::text("as"),
            Column::number("calls"),
            Column::number("on the trees"),
            Column::number("time"),
        ]);
        let measured = self.costs.iter().filter_map(|cost| Some((cost, cost.measured.as_ref()?)));
        let mut rows = 0;
        for (cost, measured) in measured {
            rows += 1;
            table.row([
                cost.command.clone(),
                cost.user.clone(),
                count(measured.everywhere),
                count(measured.calls.all()),
                format!("{:.0} ms", measured.milliseconds),
            ]);
        }
        (rows > 0).then_some(table)
    }

    fn steps(&self) -> Option<Table> {
        let mut table =
            Table::new([Column::text("step"), Column::text("state"), Column::number("avail")]);
        for step in &self.steps {
            let state = match step.state {
                StepState::Done => Cell::styled("done", style::CALM),
                StepState::Helps => Cell::styled("would help", style::WARNING),
                StepState::LeftOut => Cell::from("left out"),
            };
            table.row([
                Cell::from(step.step.words()),
                state,
                Cell::from(step.avail_calls.map(count).unwrap_or_default()),
            ]);
        }
        (!self.steps.is_empty()).then_some(table)
    }

    /// Modulepaths that cannot be looked at, caches and indexes that are wrong, errors in trees.
    fn wrong(&self, columns: usize) -> String {
        let mut lines = Vec::new();
        let is_known = |part: &CalmPart| {
            let path = recording::Name::of(&part.path);
            self.modulepaths.iter().any(|known| known.path == path)
        };
        let passed_over = self.parts.iter().filter(|part| {
            part.state == CalmState::LeftOut
                && part.part == modules::calm::CalmPartKind::Index
                && !is_known(part)
        });
        lines.extend(passed_over.map(|part| format!("{}: {}", part.path.display(), part.text)));
        for path in &self.modulepaths {
            for (what, copy) in [("cache", &path.cache), ("index", &path.index)] {
                let why = copy.why.iter();
                lines.extend(why.map(|why| format!("{}: {what}: {why}", path.path)));
            }
        }
        let errors = self.rules.iter().filter(|sum| sum.level == Level::Error);
        lines.extend(errors.map(|sum| format!("{} ({})", sum.rule.words(), count(sum.count))));
        let mut text = String::new();
        for line in lines {
            let line = width::wrap(&format!("! {}", plain(&line)), columns);
            text.push_str(&format!("{}\n", style::paint(style::WARNING, line.trim_end())));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }
}

/// The state and age of a cache or an index.
fn copy(copy: &StoredCopy) -> Cell {
    let age = copy.age_seconds.map(age).unwrap_or_default();
    match copy.state {
        StoredState::Absent => Cell::from("none"),
        StoredState::True => Cell::styled(&format!("true, {age}"), style::CALM),
        StoredState::Wrong => {
            Cell::styled(format!("wrong, {age}").trim_end_matches(", "), style::MORE)
        }
    }
}

fn age(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
