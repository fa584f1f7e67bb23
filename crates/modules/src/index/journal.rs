//! Indexes come to be where they are through the journal, all of one run under one name, so that undo
//! takes them away.

use std::path::Path;

use remedy::{Options, Plan, Step};

/// The journal that a run writes indexes by.
pub struct IndexJournal {
    options: Options<'static>,
    title: String,
    id: Option<String>,
}

impl IndexJournal {
    /// As these say, which have the state directory ([`remedy::state_directory`]).
    pub fn new(options: Options<'static>, title: String) -> IndexJournal {
        IndexJournal { options, title, id: None }
    }

    /// From now on nothing is put in place yet, by a run that is called otherwise.
    pub fn begin_again(&mut self, title: String) {
        self.title = title;
        self.id = None;
    }

    /// What comes now is undone with what was applied under this id.
    pub fn go_on_under(&mut self, id: String) {
        self.id = Some(id);
    }

    /// The id of what was put in place; none if nothing was, or only made anew.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Puts a file in place, all at once, with the directories above it. One that becalm has put
    /// there is made anew under the name that it has.
    pub(super) fn put(&mut self, path: &Path, content: Vec<u8>) -> Result<(), remedy::Error> {
        let options = &self.options;
        if remedy::renew(path, &content, options)?.is_some() {
            return Ok(());
        }
        let directories = path.ancestors().skip(1);
        let missing: Vec<_> = directories.take_while(|directory| !directory.exists()).collect();
        let missing = missing.into_iter().rev();
        let mut steps: Vec<_> =
            missing.map(|path| Step::Directory { path: path.to_owned(), mode: 0o755 }).collect();
        let (path, mode) = (path.to_owned(), 0o644);
        steps.push(match path.symlink_metadata() {
            Ok(_) => Step::Replace { path, mode, content },
            Err(_) => Step::Create { path, mode, content },
        });
        let plan = Plan { title: self.title.clone(), steps, ..Plan::default() };
        match &self.id {
            Some(id) => drop(remedy::extend(id, &plan, options)?),
            None => self.id = Some(remedy::apply(&plan, options)?.id),
        }
        Ok(())
    }
}
