//! The plan that `remedy` applies.

use std::ops::AddAssign;
use std::sync::Arc;

use remedy::{Counts, Plan, PredictedCounts, Step};

use super::{BindChange, Binding, Effect};

impl Binding {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The calls that search in all starts together, before and after.
    pub fn predicted(&self) -> PredictedCounts {
        let mut sum = PredictedCounts::default();
        for Effect { before, after, .. } in self.programs.iter().chain(&self.libraries) {
            add(&mut sum.before, before);
            add(&mut sum.after, after);
        }
        sum
    }

    /// The steps, for `remedy` to apply.
    pub fn to_plan(&self, title: String) -> Plan {
        let directories =
            self.directories.iter().map(|path| Step::Directory { path: path.clone(), mode: 0o755 });
        let links = self
            .links
            .iter()
            .map(|(path, target)| Step::Link { path: path.clone(), target: target.clone() });
        let files = self.files.iter().map(|(path, content)| Step::Create {
            path: path.clone(),
            mode: 0o755,
            content: content.clone(),
        });
        let patches = self.changes.iter().map(patch);
        let named =
            self.named.iter().map(|(path, seen)| Step::Rely { path: path.clone(), seen: *seen });
        let steps = directories.chain(links).chain(files).chain(patches).chain(named).collect();
        Plan { title, steps, risks: self.risks.clone(), predicted: Some(self.predicted()) }
    }
}

fn patch(change: &BindChange) -> Step {
    Step::Patch {
        path: change.path.clone(),
        also: change.also.clone(),
        seen: change.seen,
        edits: Arc::clone(&change.patches),
    }
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.opens.add_assign(more.opens);
    sum.failed_opens.add_assign(more.failed_opens);
    sum.stats.add_assign(more.stats);
    sum.failed_stats.add_assign(more.failed_stats);
}
