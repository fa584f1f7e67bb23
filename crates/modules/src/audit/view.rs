//! A tree as one user sees it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::site::{User, UserError};
use crate::tree::{ModulepathTree, WalkLimits, walk};

/// The trees as one user sees them.
#[derive(Clone, Debug)]
pub struct UserView {
    /// The user whom a process has to become for it; none is the caller.
    pub user: Option<User>,
    /// The user's name, or number where there is none.
    pub name: String,
    /// The trees, in the order of the modulepath.
    pub trees: Vec<ModulepathTree>,
}

/// What crosses from the user's process.
#[derive(Serialize, Deserialize)]
struct UserTrees(Vec<ModulepathTree>);

impl UserView {
    /// Walks modulepaths as a user, or as the caller.
    ///
    /// This forks: call it while the process has one thread.
    ///
    /// # Errors
    /// [`UserError`].
    pub fn of(
        modulepaths: &[&Path],
        user: Option<User>,
        limits: WalkLimits,
    ) -> Result<UserView, UserError> {
        let look = || UserTrees(modulepaths.iter().map(|path| walk(path, limits)).collect());
        let UserTrees(trees) = match &user {
            Some(user) => user.play(&launch::Stage::new(), look)?,
            None => look(),
        };
        let own = rustix::process::geteuid().as_raw().to_string();
        let name = match &user {
            Some(user) => user.name.clone(),
            None => User::named(&own).map_or(own, |user| user.name),
        };
        Ok(UserView { user, name, trees })
    }
}
