//! `becalm modules audit`: what trees of modulefiles cost, and why, on one screen.

use modules::audit::{Audit, AuditFinding, AuditRule, CommandCost, Level, RuleSum};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted};
use term::{Column, Table, plain, shell_line, style, width};

/// How many findings of one rule have a row.
const EXAMPLES: usize = 2;

/// What `becalm modules audit` answers: as JSON, docs/schema/becalm.modules.audit.md; as text,
/// [`ModulesAudit::render`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModulesAudit {
    /// `becalm.modules.audit/1`.
    schema: &'static str,
    /// Whether something is wrong.
    wrong: bool,
    #[serde(flatten)]
    audit: Audit,
}

impl ModulesAudit {
    /// What was found.
    pub fn of(audit: Audit) -> ModulesAudit {
        ModulesAudit { schema: "becalm.modules.audit/1", wrong: audit.is_wrong(), audit }
    }

    /// The same value.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The answer as a person reads it, at most `columns` columns wide. `all` shows every
    /// finding.
    pub fn render(&self, columns: usize, all: bool) -> String {
        let mut text = style::headline(&plain(&self.headline()), columns);
        for table in [self.paths(), self.costs()].into_iter().flatten() {
            text.push('\n');
            text.push_str(&table.render(columns));
        }
        for cost in &self.audit.costs {
            text.push_str(&caution(cost, columns));
        }
        text.push_str(&self.findings(columns, all));
        if let Some(next) = self.next(all) {
            text.push('\n');
            text.push_str(&style::next(&next));
        }
        text
    }

    fn headline(&self) -> String {
        let audit = &self.audit;
        let files: u64 = audit.modulepaths.iter().map(|path| path.census.modulefiles).sum();
        let what = format!(
            "{} in {}",
            counted(files, "modulefile", "modulefiles"),
            counted(audit.modulepaths.len() as u64, "modulepath", "modulepaths")
        );
        let found = |level| audit.rules.iter().filter(move |sum| sum.level == level);
        let total = |level| found(level).map(|sum| sum.count).sum::<u64>();
        let (errors, warnings) = (total(Level::Error), total(Level::Warning));
        if errors + warnings == 0 {
            return format!("{what}: nothing is wrong.");
        }
        let paid: u64 = found(Level::Error).chain(found(Level::Warning)).map(|sum| sum.calls).sum();
        let paid = match paid {
            0 => String::new(),
            paid => format!("; every avail makes {} for them", counted(paid, "call", "calls")),
        };
        let (errors, warnings) =
            (counted(errors, "error", "errors"), counted(warnings, "warning", "warnings"));
        format!("{what}: {errors}, {warnings}{paid}.")
    }

    fn paths(&self) -> Option<Table> {
        let mut table = Table::new([
            Column::path("modulepath"),
            Column::number("directories"),
            Column::number("modulefiles"),
            Column::number("rc files"),
            Column::number("strays"),
            Column::number("unreadable").spare(),
            Column::text("cache").spare(),
        ]);
        for path in &self.audit.modulepaths {
            let census = &path.census;
            table.row([
                path.path.to_string(),
                count(census.directories),
                count(census.modulefiles),
                count(census.rc_files),
                count(census.strays),
                count(census.unreadable),
                if path.has_cache { "yes" } else { "no" }.to_owned(),
            ]);
        }
        (!self.audit.modulepaths.is_empty()).then_some(table)
    }

    fn costs(&self) -> Option<Table> {
        let release = self.audit.release.as_deref()?;
        let mut table = Table::new([
            Column::path(&format!("Modules {release}")),
            Column::text("as"),
            Column::number("predicted"),
            Column::number("calls on the trees"),
            Column::number("metadata").spare(),
            Column::number("all calls").spare(),
            Column::number("time"),
        ]);
        for cost in &self.audit.costs {
            let predicted = cost.predicted.map(|predicted| match () {
                () if predicted.hangs => "for ever".to_owned(),
                () if predicted.at_least => format!("> {}", count(predicted.calls.all())),
                () => count(predicted.calls.all()),
            });
            let measured = cost.measured.as_ref();
            table.row([
                cost.command.clone(),
                cost.user.clone(),
                predicted.unwrap_or_default(),
                measured.map(|measured| count(measured.calls.all())).unwrap_or_default(),
                measured.map(|measured| count(measured.calls.metadata())).unwrap_or_default(),
                measured.map(|measured| count(measured.everywhere)).unwrap_or_default(),
                measured.map(|it| format!("{:.0} ms", it.milliseconds)).unwrap_or_default(),
            ]);
        }
        (!self.audit.costs.is_empty()).then_some(table)
    }

    fn findings(&self, columns: usize, all: bool) -> String {
        let mut text = String::new();
        for sum in &self.audit.rules {
            let of_rule = self.audit.findings.iter().filter(|finding| finding.rule == sum.rule);
            let shown = if all { usize::MAX } else { EXAMPLES };
            text.push('\n');
            text.push_str(&heading(sum, columns));
            for finding in of_rule.take(shown) {
                text.push_str(&format!(
                    "  {}\n",
                    width::shorten(&line(finding), columns.saturating_sub(2))
                ));
            }
            let rest = sum.count.saturating_sub(shown as u64);
            if rest > 0 {
                text.push_str(&format!("  … and {} more\n", count(rest)));
            }
            text.push_str(&width::wrap(&format!("→ {}", self.advice(sum.rule)), columns));
        }
        text
    }

    /// What to do, with the modulepaths that were looked at behind a command.
    fn advice(&self, rule: AuditRule) -> String {
        match rule.advice() {
            text if text.contains("becalm ") => format!("{text} {}", self.modulepaths()),
            text => text.to_owned(),
        }
    }

    fn modulepaths(&self) -> String {
        shell_line(self.audit.modulepaths.iter().map(|path| &path.path))
    }

    fn next(&self, all: bool) -> Option<String> {
        let has_more = self.audit.rules.iter().any(|sum| sum.count > EXAMPLES as u64);
        let paths = self.modulepaths();
        (has_more && !all).then(|| format!("becalm modules audit --no-run --all {paths}"))
    }
}

fn heading(sum: &RuleSum, columns: usize) -> String {
    let (word, style) = match sum.level {
        Level::Error => ("error", style::MORE),
        Level::Warning => ("warning", style::WARNING),
        Level::Note => ("note", style::NONE),
    };
    let calls = match sum.calls {
        0 => String::new(),
        calls => format!(", {} an avail", counted(calls, "call", "calls")),
    };
    let text = format!("{word}: {} ({}{calls})", sum.rule.words(), count(sum.count));
    format!("{}\n", style::paint(style, width::wrap(&text, columns).trim_end()))
}

fn line(finding: &AuditFinding) -> String {
    let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
    let users = match &finding.users[..] {
        [] => String::new(),
        users => format!(" (for {})", users.join(", ")),
    };
    plain(&format!("{}{line}: {}{users}", finding.path, finding.text))
}

/// Why a command was not run, or how it failed.
fn caution(cost: &CommandCost, columns: usize) -> String {
    let failed = cost.measured.as_ref().filter(|it| it.ended != launch::Ended::Exited(0));
    let why = match (&cost.not_measured, failed) {
        (Some(why), _) => format!("! {} as {} was not run: {why}", cost.command, cost.user),
        (None, Some(it)) => {
            format!("! {} as {} failed: {}", cost.command, cost.user, ended(it.ended))
        }
        (None, None) => return String::new(),
    };
    let line = width::wrap(&plain(&why), columns);
    format!("{}\n", style::paint(style::WARNING, line.trim_end()))
}

fn ended(ended: launch::Ended) -> String {
    match ended {
        launch::Ended::Exited(status) => format!("status {status}"),
        launch::Ended::Signaled(signal) => format!("killed by signal {signal}"),
    }
}
