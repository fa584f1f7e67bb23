//! Variables, as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The environment that a `module` command would run in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<OsString, OsString>);

impl Environment {
    /// This process's.
    pub fn own() -> Environment {
        Environment(std::env::vars_os().collect())
    }

    /// A variable, if it is set.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable, if it is set to text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str()
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// The variables whose names begin like this.
    pub fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a OsStr)> {
        let named = self.0.iter().filter_map(|(name, value)| Some((name.to_str()?, &**value)));
        named.filter(move |(name, _)| name.starts_with(prefix))
    }
}
