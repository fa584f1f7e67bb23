//! Folded stacks, and the flame graph of them.

use std::io::{self, Write};

use inferno::flamegraph::color::{BasicPalette, Color, MultiPalette, PaletteMap};
use inferno::flamegraph::{self, Palette, TextTruncateDirection};

/// What a frame is, which gives it its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BarKind {
    /// A program: a process, or all of the same ancestry.
    Program,
    /// A function of a program or library.
    Function,
    /// A function of the kernel.
    Kernel,
    /// Time that no sample was taken in.
    Missed,
}

/// One bar of the graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphBar {
    /// What it says.
    pub name: String,
    /// What it is.
    pub kind: BarKind,
}

/// A stack, the outermost box first, and how wide it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphStack {
    /// The bars.
    pub bars: Vec<GraphBar>,
    /// In microseconds, or process starts.
    pub width: u64,
}

/// What is written over the graph.
#[derive(Clone, Debug)]
pub struct Captions {
    /// The title.
    pub title: String,
    /// A line below it.
    pub subtitle: String,
    /// What widths count: `µs`, `process starts`.
    pub unit: &'static str,
}

/// Writes stacks as lines of `program;function;function_[k] 123`, sorted: what flamegraph.pl,
/// speedscope and inferno read.
///
/// # Errors
/// Those of `out`.
pub fn folded(stacks: &[GraphStack], out: &mut dyn Write) -> io::Result<()> {
    for line in lines(stacks) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Draws the graph, as SVG that can be searched and zoomed in a browser.
///
/// # Errors
/// Those of `out`.
pub fn svg(stacks: &[GraphStack], captions: &Captions, out: &mut dyn Write) -> io::Result<()> {
    let mut colours = PaletteMap::default();
    for part in stacks.iter().flat_map(|stack| &stack.bars) {
        match part.kind {
            BarKind::Program => _ = colours.insert(text(part), BLUE),
            BarKind::Missed => _ = colours.insert(text(part), GREY),
            BarKind::Function | BarKind::Kernel => {}
        }
    }
    let mut options = flamegraph::Options::default();
    options.title = safe(&captions.title);
    options.subtitle = Some(safe(&captions.subtitle));
    options.count_name = captions.unit.to_owned();
    options.name_type = "".to_owned();
    options.notes = "becalm lab profile".to_owned();
    // Yellow, and orange for what ends in _[k].
    options.colors = Palette::Multi(MultiPalette::Java);
    options.palette_map = Some(&mut colours);
    options.deterministic = true;
    options.text_truncate_direction = TextTruncateDirection::Right;
    let lines = lines(stacks);
    if lines.is_empty() {
        // The crate draws an error for no lines, and fails.
        options.colors = Palette::Basic(BasicPalette::Blue);
        return flamegraph::from_lines(&mut options, ["nothing to show 1"], out);
    }
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
}

/// Names are cut after so many characters: C++ has some of kilobytes.
const NAME: usize = 300;

const BLUE: Color = Color { r: 130, g: 170, b: 225 };
const GREY: Color = Color { r: 190, g: 190, b: 190 };

fn lines(stacks: &[GraphStack]) -> Vec<String> {
    let filled = stacks.iter().filter(|stack| stack.width > 0 && !stack.bars.is_empty());
    let mut lines: Vec<String> = filled
        .map(|stack| {
            let names: Vec<String> = stack.bars.iter().map(text).collect();
            format!("{} {}", names.join(";"), stack.width)
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// A bar's name as the folded form takes it: `;` parts bars, and a number at the end of the
/// last would be read as a second width, so a no-break space goes before it. A leading `#` would
/// make a comment of the line.
fn text(part: &GraphBar) -> String {
    let mut text = safe(&part.name).replace(';', ",");
    let digits = text.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.').len();
    if digits < text.len() && text[..digits].ends_with(' ') {
        text.replace_range(digits - 1..digits, "\u{a0}");
    }
    if text.starts_with('#') {
        text.insert(0, '\u{a0}');
    }
    match part.kind {
        BarKind::Kernel => text + "_[k]",
        _ => text,
    }
}

/// What XML cannot hold, and what steers a terminal or hides text, spelt out. `<`, `&` and quotes
/// are escaped where the SVG is written.
fn safe(name: &str) -> String {
    let mut safe = String::with_capacity(name.len().min(NAME));
    for char in name.chars().take(NAME) {
        let steers = char.is_control()
            || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(char, '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}');
        if steers {
            let bytes = char.to_string().into_bytes();
            safe.extend(bytes.iter().map(|byte| format!("\\x{byte:02x}")));
        } else {
            safe.push(char);
        }
    }
    if safe.trim().is_empty() { "(no name)".to_owned() } else { safe }
}
