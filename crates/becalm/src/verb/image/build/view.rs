//! `becalm image build`: what was packed, and what is used from it and lies outside.

use std::collections::BTreeMap;
use std::path::Path;

use image::Reference;
use image::container::Sealed;
use image::squash::{BytecodeFault, Healed, PathsImage};
use image_format::tree::{OmitReason, OmittedFile};
use recording::{ByteUnits, shown_name};
use schemars::JsonSchema;
use serde::Serialize;
use term::number::{bytes, count, counted, percent};
use term::{Cell, Column, Table, style};

/// How many of what lies outside have a row.
const ROWS: usize = 12;

/// What `becalm image build` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Packed<'a> {
    /// `becalm.image.build/1`.
    schema: &'static str,
    /// The image's file.
    image: String,
    #[serde(flatten)]
    built: &'a PathsImage,
    /// What makes it a container; null of a squashfs.
    sif: Option<&'a Sealed>,
}

impl<'a> Packed<'a> {
    /// What was packed into a file; into a container with what.
    pub fn of(image: &Path, built: &'a PathsImage, sif: Option<&'a Sealed>) -> Packed<'a> {
        let schema = "becalm.image.build/1";
        Packed { schema, image: shown_name(image), built, sif }
    }

    /// The answer as a person reads it, at most `columns` columns wide.
    pub fn render(&self, columns: usize, next: &str) -> String {
        let mut text = style::headline(&self.headline(), columns);
        let body = self.healed(columns)
            + &self.left_out(columns)
            + &self.narrowed()
            + &self.outside(columns);
        text.push_str(&body);
        let gap = if body.is_empty() { "" } else { "\n" };
        text + gap + &style::next(next)
    }

    fn headline(&self) -> String {
        let built = self.built;
        let order = match (built.traced, built.files) {
            (0, _) => "in the order of their paths".to_owned(),
            (traced, _) => format!("{} of them first, as they were opened", count(traced)),
        };
        // Of a few small files, the image is the larger.
        let share = match built.image_bytes < built.bytes {
            true => format!(" ({})", percent(built.image_bytes, built.bytes)),
            false => String::new(),
        };
        format!(
            "{}: {}{} of {} in {}{}, {order}{}",
            term::plain(&self.image),
            self.sif.map_or_else(String::new, |sif| format!("SIF for {}, ", sif.arch)),
            counted(built.files, "file", "files"),
            bytes(ByteUnits(built.bytes)),
            bytes(ByteUnits(built.image_bytes)),
            share,
            self.beside(),
        )
    }

    /// What a container has besides what was packed.
    fn beside(&self) -> String {
        let Some(sif) = self.sif else { return String::new() };
        let base = sif
            .base
            .as_ref()
            .map(|base| format!("; over {}", term::plain(&base.to_string_lossy())));
        let layer = sif
            .overlay_bytes
            .map(|size| format!("; with a layer of {} to write to", bytes(ByteUnits(size))));
        base.unwrap_or_default() + &layer.unwrap_or_default()
    }

    /// What was healed: a row a kind, and one for each file that could not be.
    fn healed(&self, columns: usize) -> String {
        let Some(healed) = &self.built.healed else { return String::new() };
        let mut text = String::new();
        let mut table = Table::new([
            Column::text("healed"),
            Column::number("modules"),
            Column::text("for"),
            Column::path("for example").spare(),
        ]);
        let mut kinds: BTreeMap<_, (u64, &Path)> = BTreeMap::new();
        for module in &healed.bytecode {
            let kind = (bytecode_words(module.was), &*module.python);
            kinds.entry(kind).or_insert((0, &module.path)).0 += 1;
        }
        for ((what, python), (modules, path)) in &kinds {
            let path = path.to_string_lossy();
            table.row([
                Cell::from(*what),
                Cell::from(count(*modules)),
                Cell::from(*python),
                Cell::from(&*path),
            ]);
        }
        if !kinds.is_empty() {
            text = format!("\n{}", table.render(columns));
        }
        text += &libraries(healed, columns);
        text += &python_path(healed, columns);
        if !healed.as_it_was.is_empty() {
            let mut table = Table::new([Column::text("not healed"), Column::path("").spare()]);
            for file in healed.as_it_was.iter().take(ROWS) {
                table.row([&*term::plain(&file.why), &file.path.to_string_lossy()]);
            }
            let rest = more(healed.as_it_was.len());
            text += &format!("\n{}{rest}", table.render(columns));
        }
        text
    }

    fn left_out(&self, columns: usize) -> String {
        if self.built.left_out.is_empty() {
            return String::new();
        }
        let mut table = Table::new([Column::text("left out"), Column::path("").spare()]);
        let why = |left: &OmittedFile| match left.why {
            OmitReason::Unreadable => "unreadable",
            OmitReason::Socket => "socket",
        };
        for left in self.built.left_out.iter().take(ROWS) {
            table.row([why(left), &left.path.to_string_lossy()]);
        }
        format!("\n{}{}", table.render(columns), more(self.built.left_out.len()))
    }

    fn narrowed(&self) -> String {
        match self.built.narrowed {
            0 => String::new(),
            files => format!(
                "\n{} of files and directories are not kept, and their permissions in the image \
                 give nobody more than these did: `getfacl -Rs` lists them\n",
                counted(files, "access control list", "access control lists"),
            ),
        }
    }

    fn outside(&self, columns: usize) -> String {
        if self.built.outside.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            Column::text("used by"),
            Column::number("times"),
            Column::path("outside"),
            Column::path("for example from").spare(),
        ]);
        for outside in self.built.outside.iter().take(ROWS) {
            table.row([
                Cell::from(words(outside.by)),
                Cell::from(count(outside.times)),
                Cell::from(&*outside.what.to_string_lossy()),
                Cell::from(&*outside.from.to_string_lossy()),
            ]);
        }
        format!("\n{}{}", table.render(columns), more(self.built.outside.len()))
    }
}

/// What became of PYTHONPATH, and which of its entries stay for themselves.
fn python_path(healed: &Healed, columns: usize) -> String {
    let Some(joined) = &healed.python_path else { return String::new() };
    let mut table = Table::new([
        Column::text("joined"),
        Column::number("entries"),
        Column::number("now"),
        Column::path("for example").spare(),
    ]);
    let example = joined.to.iter().find(|path| !joined.from.contains(path));
    table.row([
        Cell::from("PYTHONPATH"),
        Cell::from(count(joined.from.len() as u64)),
        Cell::from(count(joined.to.len() as u64)),
        Cell::from(&*example.map(|path| path.to_string_lossy()).unwrap_or_default()),
    ]);
    let mut text = format!("\n{}", table.render(columns));
    if !joined.apart.is_empty() {
        let mut table = Table::new([Column::text("not joined"), Column::path("").spare()]);
        for entry in joined.apart.iter().take(ROWS) {
            let why = match (&entry.name, &entry.leaves) {
                (Some(name), _) => format!("another entry offers {name}, too"),
                (None, Some(source)) => format!("{source} may look above it"),
                (None, None) => "not packed".to_owned(),
            };
            table.row([&*term::plain(&why), &entry.path.to_string_lossy()]);
        }
        text += &format!("\n{}{}", table.render(columns), more(joined.apart.len()));
    }
    text
}

/// Which libraries were bound, and what that spares their starts.
fn libraries(healed: &Healed, columns: usize) -> String {
    let Some(first) = healed.libraries.first() else { return String::new() };
    let mut table = Table::new([
        Column::text("bound"),
        Column::number("files"),
        Column::number("failed before"),
        Column::number("now"),
        Column::path("for example").spare(),
    ]);
    table.row([
        Cell::from("RPATH"),
        Cell::from(count(healed.libraries.len() as u64)),
        Cell::from(count(healed.library_search.failed_before)),
        Cell::from(count(healed.library_search.failed_after)),
        Cell::from(&*first.path.to_string_lossy()),
    ]);
    format!("\n{}", table.render(columns))
}

fn bytecode_words(was: BytecodeFault) -> &'static str {
    match was {
        BytecodeFault::Missing => "missing bytecode",
        BytecodeFault::Stale => "stale bytecode",
    }
}

fn words(reference: Reference) -> &'static str {
    match reference {
        Reference::Symlink => "symbolic link",
        Reference::Pth => ".pth file",
        Reference::Editable => "editable install",
        Reference::Home => "pyvenv.cfg",
        Reference::Interpreter => "ELF interpreter",
        Reference::Library => "needed library",
    }
}

fn more(all: usize) -> String {
    match all.saturating_sub(ROWS) {
        0 => String::new(),
        more => format!("({} more: --json)\n", count(more as u64)),
    }
}
