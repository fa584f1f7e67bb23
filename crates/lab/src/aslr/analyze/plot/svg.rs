//! A drawing, put together as text.

use std::fmt::Write;

/// Readable on white and on black, and told apart by who sees no red or no green (Okabe and Ito).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#999999"];

/// The colour of an arm.
pub(super) fn colour(arm: usize) -> &'static str {
    COLOURS[arm % COLOURS.len()]
}

/// An arm's name as it fits beside a plot: of a path, what it ends in.
pub(super) fn short(name: &str) -> &str {
    const MOST: usize = 15;
    let from = name.char_indices().rev().nth(MOST - 1).map_or(0, |(at, _)| at);
    &name[from..]
}

/// A drawing.
pub(super) struct Svg {
    text: String,
}

/// Where a text stands beside its place.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Svg {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{}</title>\n\
             <style>text {{ fill: #777 }} .line {{ stroke: #777; fill: none }}</style>\n",
            term::xml(title)
        );
        Svg { text }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), is_dashed: bool) {
        let dashes = if is_dashed { " stroke-dasharray=\"4 3\"" } else { "" };
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.text,
            "<path class=\"line\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"{dashes}/>"
        );
    }

    pub(super) fn label(&mut self, (x, y): (f64, f64), anchor: Anchor, label: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let label = term::xml(label);
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{label}</text>"
        );
    }

    /// Small squares, one at each place.
    pub(super) fn dots(&mut self, colour: &str, places: impl Iterator<Item = (u32, u32)>) {
        let _ = write!(self.text, "<path stroke=\"{colour}\" stroke-opacity=\"0.5\" d=\"");
        for (x, y) in places {
            let _ = write!(self.text, "M{x} {y}h1");
        }
        self.text.push_str("\"/>\n");
    }

    /// A circle that says what it is.
    pub(super) fn circle(&mut self, colour: &str, (x, y): (f64, f64), what: &str) {
        let what = term::xml(what);
        let _ = writeln!(
            self.text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"2\"><title>{what}</title></circle>"
        );
    }

    /// A line through places.
    pub(super) fn curve(&mut self, colour: &str, places: &[(f64, f64)]) {
        let _ =
            write!(self.text, "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" d=\"");
        for (number, (x, y)) in places.iter().enumerate() {
            let _ = write!(self.text, "{}{x:.1} {y:.1}", if number == 0 { 'M' } else { 'L' });
        }
        self.text.push_str("\"/>\n");
    }

    pub(super) fn end(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}
