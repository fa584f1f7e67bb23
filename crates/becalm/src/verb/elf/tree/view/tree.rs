//! The dependencies as a tree, what repeats folded.

use std::collections::HashSet;
use std::ffi::OsStr;

use loader::simulation::{Edge, FoundBy, LoadedObject};
use term::{plain, style};

use super::{LibraryTree, found_by};

/// Missing names, as in libtree.
const MISSING: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();
/// Names of libraries.
const NAME: anstyle::Style = anstyle::AnsiColor::Cyan.on_default();

impl LibraryTree<'_> {
    /// The answer in a sentence, then the tree. An object's needs are shown where the loader
    /// meets it first; elsewhere its name alone.
    pub fn render(&self, columns: usize) -> String {
        let mut text = style::headline(&self.headline(), columns);
        text.push('\n');
        text.push_str(&plain(&self.file.to_string_lossy()));
        text.push('\n');
        let mut branch = Branch { tree: self, shown: HashSet::from([0]), text };
        branch.needs_of(0, &mut String::new());
        branch.text
    }

    fn missing_at(&self, object: usize, name: &OsStr) -> Option<String> {
        let missing = &self.simulation.missing;
        let here = missing.iter().find(|each| each.needed_by == object && each.name == name);
        // Asked for again, a name that was not found is not listed again.
        let found = here.or_else(|| missing.iter().find(|each| each.name == name));
        found.map(|each| each.why.to_string())
    }
}

struct Branch<'a> {
    tree: &'a LibraryTree<'a>,
    shown: HashSet<usize>,
    text: String,
}

impl Branch<'_> {
    fn needs_of(&mut self, object: usize, indent: &mut String) {
        let edges = &self.tree.simulation.objects[object].edges;
        for (number, edge) in edges.iter().enumerate() {
            let is_last = number + 1 == edges.len();
            self.text.push_str(indent);
            self.text.push_str(if is_last { "└── " } else { "├── " });
            let unfolds = self.line(object, edge);
            if let Some(to) = unfolds {
                let length = indent.len();
                indent.push_str(if is_last { "    " } else { "│   " });
                self.needs_of(to, indent);
                indent.truncate(length);
            }
        }
    }

    /// One need; the object whose own needs follow, if it is shown for the first time.
    fn line(&mut self, object: usize, edge: &Edge) -> Option<usize> {
        let name = plain(&edge.name.to_string_lossy());
        let Some(to) = edge.to else {
            let why = self.tree.missing_at(object, &edge.name);
            let why = why.as_deref().unwrap_or("not found");
            let line = style::paint(MISSING, &format!("{name}: {}", plain(why)));
            self.text.push_str(&line);
            self.text.push('\n');
            return None;
        };
        let loaded = &self.tree.simulation.objects[to];
        // The loader meets an object breadth first: below the one that it was loaded for.
        let is_first = loaded.loader == Some(object) && self.shown.insert(to);
        self.text.push_str(&style::paint(NAME, &name));
        self.text.push_str(&match is_first {
            true => self.where_from(loaded, &name),
            false => style::paint(style::HEADER, " (shown elsewhere)"),
        });
        self.text.push('\n');
        is_first.then_some(to)
    }

    fn where_from(&self, loaded: &LoadedObject, name: &str) -> String {
        let path = plain(&loaded.path.to_string_lossy());
        let by = match loaded.how {
            FoundBy::Rpath { of } if Some(of) != loaded.loader => {
                let of = &self.tree.simulation.objects[of];
                let of = of.path.file_name().unwrap_or(of.path.as_os_str());
                format!("rpath of {}", plain(&of.to_string_lossy()))
            }
            ref how => found_by(how).to_owned(),
        };
        let by = style::paint(style::LESS, &format!("[{by}]"));
        // A bound name says itself where from.
        if path == name { format!(" {by}") } else { format!(" {by} {path}") }
    }
}
