//! A page of the documentation, as what a reader types and what he is shown.
//!
//! A block in ``` is a session, where lines begin with `$ `, or lines for a shell. Blocks of
//! another language (```json, ```toml, ```text, ```ini, ```tcl) are no commands. An HTML comment
//! right before a block, which no reader sees, says of it
//!
//! | | |
//! |---|---|
//! | `<!-- not run: why -->` | it cannot run here |
//! | `<!-- status: 1 0 -->` | how its commands end, one after the other; 0 where none is given |
//! | `<!-- shown as it was: why -->` | it runs, but what is shown is of another time or machine |
pub mod scene;
pub mod words;

/// What is typed, and what is shown for it.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The command, with the lines that go on.
    pub command: String,
    /// The lines that are shown, if any are.
    pub shown: Vec<String>,
}

/// A block of a page.
#[derive(Clone, Debug)]
pub struct Block {
    /// The line of its first ```, from 1.
    pub line: usize,
    pub entries: Vec<Entry>,
    /// What stands before and between in a session is kept: whether it is one.
    pub is_session: bool,
    pub status: Vec<i32>,
    pub not_run: Option<String>,
    pub as_it_was: Option<String>,
}

/// The blocks of a page that hold commands.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let Some(language) = lines[at].strip_prefix("```") else {
            at += 1;
            continue;
        };
        let length = lines[at + 1..].iter().position(|line| line.starts_with("```")).unwrap();
        let inner = &lines[at + 1..at + 1 + length];
        if ["", "sh", "console"].contains(&language.trim()) {
            blocks.push(block(at + 1, inner, lines[..at].iter().rev()));
        }
        at += length + 2;
    }
    blocks
}

fn block<'a>(line: usize, inner: &[&str], before: impl Iterator<Item = &'a &'a str>) -> Block {
    let is_session = inner.iter().any(|line| line.starts_with("$ "));
    let entries = if is_session { session(inner) } else { script(inner) };
    let mut block =
        Block { line, entries, is_session, status: Vec::new(), not_run: None, as_it_was: None };
    for comment in before.map_while(|line| line.strip_prefix("<!-- ")?.strip_suffix(" -->")) {
        match comment.split_once(": ") {
            Some(("not run", why)) => block.not_run = Some(why.to_owned()),
            Some(("shown as it was", why)) => block.as_it_was = Some(why.to_owned()),
            Some(("status", all)) => {
                block.status = all.split(' ').map(|one| one.parse().unwrap()).collect();
            }
            _ => panic!("line {line}: what is <!-- {comment} -->?"),
        }
    }
    block
}

/// `$ command`, its further lines after `> `, and what it says.
fn session(inner: &[&str]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in inner {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), entries.last_mut()) {
            (Some(command), _, _) => {
                entries.push(Entry { command: command.to_owned(), shown: Vec::new() });
            }
            (_, Some(more), Some(entry)) if entry.shown.is_empty() => {
                entry.command.push('\n');
                entry.command.push_str(more);
            }
            (_, _, Some(entry)) => entry.shown.push((*line).to_owned()),
            (_, _, None) => panic!("{line}: before any command"),
        }
    }
    entries
}

/// Lines for a shell: an indented line, or one after `\` or `|`, goes on with the one before.
fn script(inner: &[&str]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in inner.iter().filter(|line| !line.trim().is_empty()) {
        match entries.last_mut() {
            Some(last) if line.starts_with(' ') || last.command.ends_with(['\\', '|']) => {
                last.command.push('\n');
                last.command.push_str(line);
            }
            _ if line.starts_with("# ") => {}
            _ => entries.push(Entry { command: (*line).to_owned(), shown: Vec::new() }),
        }
    }
    entries
}

/// The page with other lines shown in one block.
pub fn with_shown(text: &str, block: &Block, said: &[Vec<String>]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let start = block.line;
    let length = lines[start..].iter().position(|line| line.starts_with("```")).unwrap();
    let mut new = Vec::new();
    for (entry, said) in block.entries.iter().zip(said) {
        for (at, line) in entry.command.lines().enumerate() {
            new.push(format!("{} {line}", if at == 0 { "$" } else { ">" }));
        }
        new.extend(said.iter().cloned());
    }
    lines.splice(start..start + length, new);
    lines.join("\n") + "\n"
}
