//! What a calm file does, as sentences and as JSON.

use std::path::Path;
use std::time::Duration;

use cure::{CalmFile, CalmSavings};
use recording::shown_name;
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{bytes, count, counted, percent, time};
use term::{Column, Table, plain, style, width};

use super::script::LaunchScript;

/// What `becalm calm show` answers: docs/schema/becalm.calm.show.md.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CalmShown {
    /// `becalm.calm.show/1`.
    schema: &'static str,
    /// The calm file, as it was given.
    file: String,
    /// The command that it was made for, and repeats.
    command: Vec<String>,
    /// The working directory in which that was given.
    directory: String,
    /// The image that is mounted.
    image: Option<ShownImage>,
    /// Others that are mounted with it.
    beside: Vec<ShownImageBeside>,
    /// Copies that the command sees in the place of files.
    shown: Vec<ShownInPlace>,
    /// The variables that are changed.
    environment: ShownEnvironment,
    /// Whether bash runs small programs in its own process (`--builtins`).
    builtins: bool,
    /// Whether malloc asks for huge pages (`--hugepages`).
    hugepages: bool,
    /// How memory is laid out, as `--aslr` takes it.
    layout: Option<String>,
    /// What is read while the command starts, before it asks for it.
    read_ahead: Option<ShownAhead>,
    /// Other files that must be as they were.
    relies_on: Vec<String>,
    /// What it was expected to save when it was written.
    saves: Option<CalmSavings>,
    /// What `--as` prints.
    script: Option<LaunchScript>,
    /// The line to type next.
    #[serde(skip)]
    next: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownImageBeside {
    /// The image.
    file: String,
    /// Where it is mounted, where the calm file says that.
    at: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownImage {
    /// The calm file, as it was given.
    file: String,
    /// The paths that it belongs over.
    over: Vec<String>,
    /// Its size.
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownAhead {
    /// Of so many files.
    files: u64,
    /// So many parts.
    parts: u64,
    /// Its size.
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownInPlace {
    /// The calm file, as it was given.
    file: String,
    /// Its copy.
    copy: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownEnvironment {
    /// Those that are set.
    set: Vec<ShownVariable>,
    /// Those that are unset.
    unset: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownVariable {
    /// Its name.
    name: String,
    /// Its value.
    value: String,
}

impl CalmShown {
    /// What a calm file says.
    pub fn of(file: &Path, calm: &CalmFile, script: Option<LaunchScript>) -> CalmShown {
        let names = |names: &mut dyn Iterator<Item = &std::ffi::OsString>| -> Vec<String> {
            names.map(shown_name).collect()
        };
        let paths = |paths: &[std::path::PathBuf]| paths.iter().map(shown_name).collect();
        let environment = &calm.environment;
        let set = environment.set.iter().map(|(name, value)| ShownVariable {
            name: shown_name(name),
            value: shown_name(value),
        });
        let shown = calm.shown.iter().map(|shown| ShownInPlace {
            file: shown_name(&shown.file),
            copy: shown_name(&shown.copy),
        });
        let beside = calm.beside.iter().map(|beside| ShownImageBeside {
            file: shown_name(&beside.image.file),
            at: beside.at.as_ref().map(shown_name),
        });
        CalmShown {
            schema: "becalm.calm.show/1",
            file: shown_name(file),
            command: names(&mut calm.command.iter()),
            directory: shown_name(&calm.directory),
            image: calm.image.as_ref().map(|image| ShownImage {
                file: shown_name(&image.file),
                over: paths(&image.over),
                bytes: image.bytes,
            }),
            beside: beside.collect(),
            shown: shown.collect(),
            environment: ShownEnvironment {
                set: set.collect(),
                unset: names(&mut environment.unset.iter()),
            },
            builtins: calm.builtins,
            hugepages: calm.hugepages,
            layout: calm.layout.clone(),
            read_ahead: (!calm.read_ahead.parts.is_empty()).then(|| ShownAhead {
                files: calm.read_ahead.files.len() as u64,
                parts: calm.read_ahead.parts.len() as u64,
                bytes: calm.read_ahead.bytes(),
            }),
            relies_on: calm.relies_on.iter().map(|relied| shown_name(&relied.path)).collect(),
            saves: calm.saves.clone(),
            script,
            next: format!("becalm run {}", term::quoted_path(file)),
        }
    }

    /// As a person reads it.
    pub fn render(&self, columns: usize) -> String {
        let line = term::shell_line(&self.command);
        let mut text = style::headline(&format!("{} calms {line}", plain(&self.file)), columns);
        let steps = self.steps();
        if steps.is_empty() {
            text.push_str("It changes nothing at launch.\n");
        }
        for step in steps {
            text.push_str(&width::wrap(&plain(&step), columns));
        }
        if let Some(saves) = &self.saves {
            text.push('\n');
            text.push_str(&savings(saves, columns));
        }
        text.push('\n');
        text.push_str(&style::next(&self.next));
        text
    }

    /// What is done, a sentence each.
    fn steps(&self) -> Vec<String> {
        let mut steps = Vec::new();
        if let Some(ShownImage { file, over, bytes: size }) = &self.image {
            let over = over.join(", ");
            steps.push(format!("It mounts the image {file} ({}) over {over}.", bytes(*size)));
        }
        for ShownImageBeside { file, at } in &self.beside {
            let at = at.as_deref().unwrap_or("where it belongs");
            steps.push(format!("It mounts the image {file} at {at}."));
        }
        if let [first, ..] = &self.shown[..] {
            let copies = counted(self.shown.len() as u64, "copy", "copies");
            let files = if self.shown.len() == 1 { "its file" } else { "their files" };
            let first = &first.file;
            steps.push(format!(
                "It shows {copies} in the place of {files}, which stay as they are (the first: \
                 {first})."
            ));
        }
        let set = self.environment.set.iter();
        steps.extend(set.map(|set| format!("It sets {}={}.", set.name, term::quoted(&set.value))));
        steps.extend(self.environment.unset.iter().map(|name| format!("It unsets {name}.")));
        if self.builtins {
            steps.push("It has bash run small programs in its own process (--builtins).".into());
        }
        if self.hugepages {
            steps.push("It has malloc ask for huge pages (--hugepages).".to_owned());
        }
        if let Some(layout) = &self.layout {
            steps.push(match layout.as_str() {
                "off" => "It lays memory out without randomisation (--aslr off).".to_owned(),
                "job" => "It lays memory out alike in all ranks of a job (--aslr job).".to_owned(),
                other => format!("It lays memory out as it was found best (--aslr {other})."),
            });
        }
        if let Some(ShownAhead { files, parts, bytes: size }) = &self.read_ahead {
            steps.push(format!(
                "It reads {} of {} ahead while the command starts, in {}.",
                bytes(*size),
                counted(*files, "file", "files"),
                counted(*parts, "part", "parts"),
            ));
        }
        steps
    }
}

fn savings(saves: &CalmSavings, columns: usize) -> String {
    let (before, after) = (saves.metadata_ops_before, saves.metadata_ops_after);
    let mut text = format!(
        "A start sends {} instead of {} ({} fewer).\n",
        counted(after, "metadata operation", "metadata operations"),
        count(before),
        percent(before.saturating_sub(after), before),
    );
    if let (Some(before), Some(after)) = (saves.enoent_before, saves.enoent_after) {
        let (before, after) = (count(before), count(after));
        text.push_str(&format!("Failed lookups (ENOENT): {after} instead of {before}.\n"));
    }
    if saves.waits.is_empty() {
        return text;
    }
    let mut table = Table::new([
        Column::text("predicted wait on"),
        Column::number("ranks"),
        Column::number("nodes"),
        Column::number("before"),
        Column::number("after"),
    ]);
    for wait in &saves.waits {
        let span = |seconds| time(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let (before, after) = (span(wait.seconds_before), span(wait.seconds_after));
        table.row([&*wait.profile, &count(wait.ranks), &count(wait.nodes), &before, &after]);
    }
    text.push('\n');
    text.push_str(&table.render(columns));
    text
}
