//! `becalm run` with several images: which they are, and what they have in common.

use std::path::Path;

use image::mount::{BesideMounts, ConflictKind, Entered, ImageConflict};
use recording::shown_name;
use schemars::JsonSchema;
use serde::Serialize;
use term::{Column, Table};

/// Another image that the command sees.
#[derive(Serialize, JsonSchema)]
pub struct EnteredBeside {
    /// Its file, without symbolic links in its path.
    file: String,
    /// The paths that it is mounted over.
    over: Vec<String>,
    /// The file in memory of this node that what its trace read is read from; none: all is read from
    /// the image's own file.
    hot_part: Option<String>,
}

impl EnteredBeside {
    /// One of what was entered.
    pub fn of(mounts: &BesideMounts) -> EnteredBeside {
        EnteredBeside {
            file: shown_name(&mounts.image),
            over: mounts.over.iter().map(shown_name).collect(),
            hot_part: mounts.hot_part.as_ref().map(shown_name),
        }
    }
}

/// Something that images of one run have in common.
#[derive(Serialize, JsonSchema)]
pub struct FoundConflict {
    /// `in-root`: laid over what a whole root has there; `within`: its place lies within another
    /// image's; `new-place`: there was nothing at its place; `same-name`: a variable's directories
    /// have the same names in both.
    kind: &'static str,
    /// The place, or the variable's name.
    at: String,
    /// The image that is seen.
    image: String,
    /// The image that is hidden by it; null for `new-place`.
    hidden: Option<String>,
    /// The first names that both have, with `same-name`.
    names: Vec<String>,
    /// How many names both have, with `same-name`.
    count: u64,
}

impl FoundConflict {
    /// One of what was found.
    pub fn of(conflict: &ImageConflict) -> FoundConflict {
        FoundConflict {
            kind: match conflict.kind {
                ConflictKind::InRoot => "in-root",
                ConflictKind::Within => "within",
                ConflictKind::NewPlace => "new-place",
                ConflictKind::SameName => "same-name",
            },
            at: shown_name(&conflict.at),
            image: shown_name(&conflict.image),
            hidden: conflict.hidden.as_ref().map(shown_name),
            names: conflict.names.clone(),
            count: conflict.count,
        }
    }
}

/// Says it to the first rank, before the command starts.
pub fn say(entered: &Entered) {
    if entered.conflicts.is_empty() {
        return;
    }
    let columns = [Column::path("where"), Column::text("seen is"), Column::text("and not")];
    let mut table = Table::new(columns.into_iter().chain([Column::text("since")]));
    for conflict in &entered.conflicts {
        let hidden = match (&conflict.hidden, conflict.kind) {
            (Some(hidden), ConflictKind::SameName) => name_of(hidden),
            (Some(hidden), _) => format!("what {} has there", name_of(hidden)),
            (None, _) => String::new(),
        };
        table.row([shown_name(&conflict.at), name_of(&conflict.image), hidden, why(conflict)]);
    }
    let columns = term::width::terminal_of(std::io::stderr());
    term::print_beside(&format!("becalm: several images:\n{}", table.render(columns)));
}

fn why(conflict: &ImageConflict) -> String {
    let names = || {
        let more = match conflict.count - conflict.names.len() as u64 {
            0 => String::new(),
            more => format!(" and {} more", term::number::count(more)),
        };
        format!("{}{more}: its directory comes first", conflict.names.join(", "))
    };
    match conflict.kind {
        ConflictKind::InRoot => "it is laid into the root".to_owned(),
        ConflictKind::Within => "it lies within that".to_owned(),
        ConflictKind::NewPlace => "there was nothing; for this command only".to_owned(),
        ConflictKind::SameName => names(),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(shown_name).unwrap_or_else(|| shown_name(path))
}
