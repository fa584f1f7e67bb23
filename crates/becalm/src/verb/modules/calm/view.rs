//! `becalm modules calm`: what is done, what is not and why, on one screen.

use modules::calm::{CalmPart, CalmPartKind, CalmPlan, CalmState, TIMER};
use modules::tidy::Tidying;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{count, counted};
use term::{plain, style, width};

/// What `becalm modules calm` answers.
#[derive(Serialize, JsonSchema)]
pub struct ModulesCalm<'a> {
    /// `becalm.modules.calm/1`.
    schema: &'static str,
    /// The name in the journal, for `becalm undo`; null where nothing was written.
    applied: Option<&'a str>,
    /// The system calls that one `avail` makes on the modulepaths now, by the model,
    calls_before: u64,
    /// and with the plan applied.
    calls_after: u64,
    /// The parts of the plan, in the order in which they are done.
    parts: &'a [CalmPart],
    /// What is done in the trees: `becalm.modules.tidy/1` describes it.
    tidying: &'a Tidying,
    /// What to type next; empty if there is nothing to do.
    next: String,
    #[serde(skip)]
    asked_to_apply: bool,
}

impl<'a> ModulesCalm<'a> {
    /// The answer for a plan, before or after it was applied.
    pub fn of(
        plan: &'a CalmPlan,
        asked_to_apply: bool,
        applied: Option<&'a str>,
        next: String,
    ) -> ModulesCalm<'a> {
        ModulesCalm {
            schema: "becalm.modules.calm/1",
            applied,
            calls_before: plan.calls_before,
            calls_after: plan.calls_after,
            parts: &plan.parts,
            tidying: &plan.tidying,
            next,
            asked_to_apply,
        }
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize) -> String {
        let mut text = style::headline(&plain(&self.headline()), columns);
        for (state, heading) in [
            (CalmState::Applied, "Done:"),
            (CalmState::Planned, "Would do:"),
            (CalmState::There, "As it should be:"),
            (CalmState::LeftOut, "Left out:"),
        ] {
            text.push_str(&self.section(state, heading, columns));
        }
        if let Some(id) = self.applied {
            text.push('\n');
            text.push_str(&width::wrap(
                &format!("becalm undo {id} takes all of it back."),
                columns,
            ));
        }
        if !self.next.is_empty() {
            text.push('\n');
            text.push_str(&style::next(&self.next));
        }
        text
    }

    fn headline(&self) -> String {
        let calls = match self.calls_before == self.calls_after {
            true => {
                format!("avail makes {} on the trees", counted(self.calls_after, "call", "calls"))
            }
            false => format!(
                "avail from {} to {} calls on the trees",
                count(self.calls_before),
                count(self.calls_after)
            ),
        };
        let has = |state| self.parts.iter().any(|part| part.state == state);
        match (self.asked_to_apply, self.applied) {
            (true, Some(_)) if has(CalmState::LeftOut) => {
                format!("Calmed, but for what is left out: {calls}")
            }
            (true, Some(_)) => format!("Calmed: {calls}"),
            (false, _) if has(CalmState::Planned) => format!("Would calm: {calls}"),
            _ => format!("Nothing to calm: {calls}"),
        }
    }

    /// The parts in one state, those with the same to say in one line.
    fn section(&self, state: CalmState, heading: &str, columns: usize) -> String {
        let mut lines: Vec<(CalmPartKind, &str, Vec<String>)> = Vec::new();
        for part in self.parts.iter().filter(|part| part.state == state) {
            let path = part.path.to_string_lossy().into_owned();
            match lines.iter_mut().find(|line| line.0 == part.part && line.1 == part.text) {
                Some((.., paths)) => paths.push(path),
                None => lines.push((part.part, &part.text, vec![path])),
            }
        }
        if lines.is_empty() {
            return String::new();
        }
        let mut text = format!("\n{}\n", style::paint(style::LABEL, heading));
        for (part, what, paths) in lines {
            let line = format!("{} {}: {what}", word(part), paths.join(", "));
            text.push_str(&width::wrap(&plain(&line), columns));
        }
        text
    }
}

fn word(part: CalmPartKind) -> &'static str {
    match part {
        CalmPartKind::Tidy => "tidy",
        CalmPartKind::Cache => "cache",
        CalmPartKind::Index => "index",
        CalmPartKind::Hook => "hook",
        CalmPartKind::Upkeep => "timer",
    }
}

/// Whether all that was planned was done.
pub fn is_done(planned: &[CalmPart], now: &[CalmPart]) -> bool {
    let pairs = planned.iter().zip(now);
    pairs
        .into_iter()
        .all(|(before, now)| before.state != CalmState::Planned || now.state == CalmState::Applied)
}

/// What to type after it was applied: the timer is enabled, the hook is tried, or it is undone.
pub fn next(plan: &CalmPlan, applied: Option<&str>) -> String {
    let Some(id) = applied else { return String::new() };
    let was = |kind| {
        let mut parts = plan.parts.iter();
        parts.find(move |part| part.part == kind && part.state == CalmState::Applied)
    };
    if let Some(part) = was(CalmPartKind::Upkeep) {
        let user = if rustix::process::geteuid().is_root() { "" } else { " --user" };
        let timer = part.path.join(TIMER);
        let enabled = match ["/etc/systemd/system", "systemd/user"]
            .iter()
            .any(|end| part.path.ends_with(end))
        {
            true => TIMER.to_owned(),
            false => term::quoted_path(&timer),
        };
        return format!("systemctl{user} enable --now {enabled}");
    }
    match was(CalmPartKind::Hook) {
        Some(part) => part.text.clone(),
        None => format!("becalm undo {id}"),
    }
}
