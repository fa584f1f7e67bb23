//! A plan, applied part by part, under one id. What cannot be done is left out, with the reason,
//! and does not keep the rest from being done.

use std::path::{Path, PathBuf};

use modules::cache::{self, Occasion};
use modules::calm::{CalmPart, CalmPartKind, CalmPlan, CalmState, steps};
use modules::site::{Environment, ModulesSite};

use crate::asked_to_end::journal_options;
use crate::exit::Failure;
use crate::verb::modules::index::Indexer;
use crate::verb::modules::tidy;
use crate::verb::undo;

/// What is being applied.
pub struct Calming<'a> {
    site: &'a ModulesSite,
    environment: &'a Environment,
    title: String,
    state: PathBuf,
    id: Option<String>,
}

impl<'a> Calming<'a> {
    /// Nothing yet.
    pub fn new(
        site: &'a ModulesSite,
        environment: &'a Environment,
        title: String,
    ) -> Result<Calming<'a>, Failure> {
        let state = remedy::state_directory()?;
        Ok(Calming { site, environment, title, state, id: None })
    }

    /// What `becalm undo` takes it back by; none if nothing was applied.
    pub fn id(&self) -> Option<String> {
        self.id.clone()
    }

    /// Applies what is planned; each part says what became of it.
    pub fn apply(&mut self, plan: &mut CalmPlan, modulecmd: Option<&Path>) -> Result<(), Failure> {
        let done = self.tidy(plan);
        settle(plan, CalmPartKind::Tidy, done);
        for path in plan.planned(CalmPartKind::Cache) {
            let built = self.build_cache(&path);
            settle_one(plan, CalmPartKind::Cache, &path, built);
        }
        self.index(plan, modulecmd)?;
        let written = self.write_files(plan);
        for kind in [CalmPartKind::Hook, CalmPartKind::Upkeep] {
            settle(plan, kind, written.clone());
        }
        Ok(())
    }

    /// Tidies, and takes it back where somebody would see or wait otherwise.
    fn tidy(&mut self, plan: &CalmPlan) -> Result<(), String> {
        let tidying = &plan.tidying;
        if tidying.is_empty() {
            return Ok(());
        }
        let words = |failure: Failure| format!("{:#}", failure.error);
        let steps = tidying.to_plan(self.title.clone()).map_err(|why| why.to_string())?;
        // The first view is the planner's.
        let asked = &plan.views[1..];
        let (applied, verdict) =
            tidy::apply(self.site, self.environment, tidying, &steps, asked).map_err(words)?;
        if verdict.is_good(false) {
            self.id = applied;
            return Ok(());
        }
        if let Some(id) = applied {
            undo::take_back(&id).map_err(words)?;
        }
        let difference = verdict.differences.first();
        let slower = verdict.changes.iter().find(|change| change.is_slower);
        Err(match (difference, slower) {
            (Some(one), _) => {
                format!("taken back: {} is answered otherwise to {}", one.user, one.command)
            }
            (None, Some(one)) => format!("taken back: {} became slower", one.command),
            (None, None) => "taken back".into(),
        })
    }

    fn build_cache(&mut self, path: &Path) -> Result<(), String> {
        let tree = super::super::cache::tree(path);
        let users = cache::users(&tree).map_err(|why| why.to_string())?;
        let journal = journal_options(self.state.clone());
        let occasion = Occasion { journal, is_upkeep: false, under: self.id.clone() };
        let waiting = term::ProgressBar::new();
        let progress = |done, of| waiting.tell("running Modules", done, of);
        let built = cache::build(path, self.site, &users, &occasion, &progress);
        self.id = Some(built.map_err(|why| why.to_string())?.journal);
        Ok(())
    }

    fn index(&mut self, plan: &mut CalmPlan, modulecmd: Option<&Path>) -> Result<(), Failure> {
        let paths = plan.planned(CalmPartKind::Index);
        if paths.is_empty() {
            return Ok(());
        }
        let indexer = Indexer::new(modulecmd)?;
        indexer.go_on(&self.title, self.id.as_deref());
        for path in paths {
            let answer = indexer.index(path.clone(), 0);
            let made = answer.refused.map_or(Ok(()), Err);
            settle_one(plan, CalmPartKind::Index, &path, made);
        }
        indexer.warn_of_closed_directory();
        self.id = indexer.id().or(self.id.take());
        Ok(())
    }

    fn write_files(&mut self, plan: &CalmPlan) -> Result<(), String> {
        if plan.files.is_empty() {
            return Ok(());
        }
        let steps = steps(&plan.files);
        let written = remedy::Plan { title: self.title.clone(), steps, ..remedy::Plan::default() };
        let options = journal_options(self.state.clone());
        let applied = match &self.id {
            Some(id) => remedy::extend(id, &written, &options),
            None => remedy::apply(&written, &options),
        };
        self.id = Some(applied.map_err(|why| why.to_string())?.id);
        Ok(())
    }
}

fn settle(plan: &mut CalmPlan, kind: CalmPartKind, done: Result<(), String>) {
    let parts = plan.parts.iter_mut().filter(|part| part.part == kind);
    parts.for_each(|part| became(part, &done));
}

fn settle_one(plan: &mut CalmPlan, kind: CalmPartKind, path: &Path, done: Result<(), String>) {
    let mut parts = plan.parts.iter_mut();
    if let Some(part) = parts.find(|part| part.part == kind && part.path == path) {
        became(part, &done);
    }
}

fn became(part: &mut CalmPart, done: &Result<(), String>) {
    if part.state != CalmState::Planned {
        return;
    }
    match done {
        Ok(()) => part.state = CalmState::Applied,
        Err(why) => part.left_out(why.clone()),
    }
}
