//! Files whose content a followed command depends on.

use std::ffi::{CStr, CString};

use rustix::io::Errno;

use super::follow::{FollowedCommand, disturbed};
use super::policy::unrepeatable;
use super::{AnswerDependency, LeftBecause, StatAttributes};

impl FollowedCommand<'_> {
    /// A file that is there could not be opened: its attributes say why, as long as they are the
    /// same.
    pub(super) fn failed_open(&mut self, path: CString, error: i32) -> Result<(), LeftBecause> {
        let now = StatAttributes::of(&path, true);
        if let Ok(told) = now {
            self.check_settled(&path, &path, &told)?;
            self.add(AnswerDependency::Content { path, told });
            return Ok(());
        }
        let now = now.map_err(Errno::raw_os_error);
        if now != Err(error) {
            return Err(unrepeatable("a file cannot be opened, for no reason that shows"));
        }
        self.add(AnswerDependency::Attributes { path, follow: true, told: Err(error) });
        Ok(())
    }

    /// A file or directory that was opened, as `opened` leads to it.
    pub(super) fn content(&mut self, path: CString, opened: &CStr) -> Result<(), LeftBecause> {
        let told = StatAttributes::of(opened, true)
            .map_err(|_| disturbed("an open file could not be looked at"))?;
        self.content_of(path, opened, told)
    }

    /// The same, of which this was told.
    pub(super) fn content_of(
        &mut self,
        path: CString,
        opened: &CStr,
        told: StatAttributes,
    ) -> Result<(), LeftBecause> {
        if !told.has_content() {
            return Err(unrepeatable(&format!("{} is no file", shown(&path))));
        }
        if self.asks_for_user && is_of_name_service(&path) {
            return Ok(());
        }
        self.check_settled(opened, &path, &told)?;
        self.add(AnswerDependency::Content { path, told });
        Ok(())
    }

    /// Notes if not a file's times tell of every change that is still to come.
    pub(super) fn check_settled(
        &mut self,
        path: &CStr,
        name: &CStr,
        told: &StatAttributes,
    ) -> Result<(), LeftBecause> {
        let margin = self.margins.of(path, told.device);
        let margin = margin
            .ok_or_else(|| unrepeatable(&format!("{} has no times to rely on", shown(name))))?;
        if told.changed.0 >= self.began - margin {
            self.disturb(&format!("{} has just changed", shown(name)));
        }
        Ok(())
    }

    fn disturb(&mut self, why: &str) {
        self.trace.disturbed.get_or_insert_with(|| why.to_owned());
    }

    /// What was read while it ran is read as it still is.
    pub(super) fn check_contents(&mut self) {
        let has_changed = |dependency: &AnswerDependency| {
            matches!(dependency, AnswerDependency::Content { .. }) && !dependency.holds()
        };
        if self.trace.dependencies.iter().any(has_changed) {
            self.disturb("a file changed while it was read");
        } else if let Some(directory) = self.ways.moved() {
            let why = format!("{} was moved", shown(directory));
            self.disturb(&why);
        }
    }

    pub(super) fn add(&mut self, dependency: AnswerDependency) {
        if !self.known.contains(&dependency) {
            self.known.insert(dependency.clone());
            self.trace.dependencies.push(dependency);
        }
    }
}

/// What daemons of name services share with their clients, and write all the time: sssd's, nscd's.
fn is_of_name_service(path: &CStr) -> bool {
    let path = path.to_bytes();
    [&b"/var/lib/sss/"[..], b"/var/cache/nscd/", b"/run/nscd/", b"/var/run/nscd/"]
        .iter()
        .any(|directory| path.starts_with(directory))
}

fn shown(path: &CStr) -> String {
    recording::shown(path.to_bytes()).to_string()
}
