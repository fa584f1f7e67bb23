//! `becalm modules index`: which modulepaths can be answered for.

use std::path::PathBuf;

use recording::shown_name;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use term::number::counted;
use term::{plain, quoted};

/// What `becalm modules index` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesIndex {
    /// `becalm.modules.index/1`.
    schema: &'static str,
    /// Whether every modulepath has an index now: the exit status is 0.
    good: bool,
    /// One for each modulepath.
    indexes: Vec<IndexAnswer>,
}

/// The answer for one modulepath.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct IndexAnswer {
    /// The modulepath.
    #[serde(serialize_with = "recording::serialize_shown")]
    #[schemars(with = "recording::Name")]
    pub modulepath: PathBuf,
    /// Where its index is; none where there is none.
    #[serde(serialize_with = "lossy_if_any")]
    #[schemars(with = "Option<String>")]
    pub index: Option<PathBuf>,
    /// Directories in it.
    pub directories: u64,
    /// rc files in it.
    pub rc_files: u64,
    /// Other files that everyone may read.
    pub files: u64,
    /// Files and directories that each user looks at.
    pub limited: u64,
    /// Why there is no index.
    pub refused: Option<String>,
}

impl ModulesIndex {
    /// The answers for some modulepaths.
    pub fn of(indexes: Vec<IndexAnswer>) -> ModulesIndex {
        let good = indexes.iter().all(|index| index.refused.is_none());
        ModulesIndex { schema: "becalm.modules.index/1", good, indexes }
    }

    /// Whether every modulepath has an index.
    pub fn is_good(&self) -> bool {
        self.good
    }

    /// The answer as a person reads it.
    pub fn render(&self) -> String {
        self.indexes.iter().map(one).collect()
    }
}

fn one(answer: &IndexAnswer) -> String {
    let path = quoted(&answer.modulepath);
    match &answer.refused {
        Some(why) => format!("{path}: left to Modules: {}\n", plain(why)),
        None => format!(
            "{path}: indexed: {} in {}, {}, {} that each user looks at\n",
            counted(answer.files, "file", "files"),
            counted(answer.directories, "directory", "directories"),
            counted(answer.rc_files, "rc file", "rc files"),
            answer.limited,
        ),
    }
}

fn lossy_if_any<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(shown_name).serialize(to)
}
