//! Seeing a tree with another user's eyes: root becomes the user in a process of its own. Group
//! databases, ACLs, capabilities and network filesystems are then asked, not modelled.

use std::io;

use launch::{Captured, Command, Stage, StageError};
use rustix::process::{DumpableBehavior, Gid, Uid, geteuid, getuid, set_dumpable_behavior};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name, or the number where there is none.
    pub name: String,
    /// The number.
    pub user: u32,
    /// The main group's number.
    pub group: u32,
    /// The numbers of all groups.
    pub groups: Vec<u32>,
}

/// Why something could not be done as a user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// There is no such user.
    #[error("{name}: no such user")]
    Unknown {
        /// The name or number.
        name: String,
    },
    /// id(1), which knows all sources of users, cannot be run.
    #[error("cannot ask id(1) who {name} is: {why}")]
    CannotAsk {
        /// The name or number.
        name: String,
        /// Why.
        why: String,
    },
    /// Only root may become another.
    #[error("cannot become {name}: {error}")]
    CannotBecome {
        /// The user.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// The process for it failed.
    #[error(transparent)]
    Stage(#[from] StageError),
}

impl User {
    /// The user of that name or number. A number that belongs to nobody is a user, too, with
    /// the group of the same number.
    ///
    /// This forks: call it while the process has one thread.
    ///
    /// # Errors
    /// [`UserError`].
    pub fn named(name: &str) -> Result<User, UserError> {
        let ask = |option: &str| ask_id(option, name);
        let number = name.parse::<u32>().ok();
        let Some(user) = ask("-u")? else {
            let user = number.ok_or_else(|| UserError::Unknown { name: name.to_owned() })?;
            return Ok(User { name: name.to_owned(), user, group: user, groups: vec![user] });
        };
        let first = |numbers: &str| numbers.split_whitespace().next()?.parse().ok();
        let unclear = || UserError::CannotAsk {
            name: name.to_owned(),
            why: "its answer is no number".to_owned(),
        };
        let known = |answer: Option<String>| answer.ok_or_else(unclear);
        Ok(User {
            name: known(ask("-un")?)?.trim().to_owned(),
            user: first(&user).ok_or_else(unclear)?,
            group: first(&known(ask("-g")?)?).ok_or_else(unclear)?,
            groups: known(ask("-G")?)?
                .split_whitespace()
                .map(|group| group.parse().map_err(|_| unclear()))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Does something as this user, in a process of its own, and gives back what came of it.
    ///
    /// This forks: call it while the process has one thread.
    ///
    /// # Errors
    /// [`UserError`].
    pub fn play<T: Serialize + DeserializeOwned>(
        &self,
        stage: &Stage,
        act: impl FnOnce() -> T,
    ) -> Result<T, UserError> {
        // What it runs is the user's to look into, and root's environment is not.
        let for_another_user = geteuid().is_root() && self.user != 0;
        let stage = Stage { for_another_user, ..stage.clone() };
        let played = stage.play(|| match self.become_it() {
            Ok(()) => Ok(act()),
            Err(error) => Err(error.raw_os_error()),
        })?;
        played.result.map_err(|code: i32| UserError::CannotBecome {
            name: self.name.clone(),
            error: io::Error::from_raw_os_error(code),
        })
    }

    /// Makes this process's only thread the user's, for good.
    fn become_it(&self) -> rustix::io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        if getuid() == user && !geteuid().is_root() {
            return Ok(());
        }
        set_thread_groups(&groups)?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // A process that changed its user cannot be traced by that user unless it says so; and
        // what it starts is to be recorded.
        set_dumpable_behavior(DumpableBehavior::Dumpable)
    }
}

/// What id(1) answers; none if it knows no such user.
fn ask_id(option: &str, name: &str) -> Result<Option<String>, UserError> {
    let failed = |why: String| UserError::CannotAsk { name: name.to_owned(), why };
    let argv = ["id", option, "--", name].map(Into::into).to_vec();
    let played = Stage::new().play(|| {
        launch::timed(&Command::of(argv)).map(|timed| timed.ended).map_err(|why| why.to_string())
    })?;
    match played.result.map_err(failed)? {
        launch::Ended::Exited(0) => Ok(Some(text(&played.stdout))),
        launch::Ended::Exited(1) => Ok(None),
        ended => Err(failed(format!("it ended with {ended:?}"))),
    }
}

fn text(captured: &Captured) -> String {
    String::from_utf8_lossy(&captured.head).into_owned()
}
