//! Time over ranks, both on logarithmic scales: a start that does not scale is a straight slope.

use cost::{JobProjection, Projection};

use super::view::span;
use term::style;

const ROWS: usize = 10;
/// Room for a time before the axis.
const MARGIN: usize = 13;

/// What a place of the plot shows.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Empty,
    Before,
    After,
    Both,
}

/// Before and after, over 1 to 100,000 ranks and the job's own.
pub(super) fn plot(before: &Projection, after: Option<&Projection>, columns: usize) -> String {
    let width = columns.saturating_sub(MARGIN + 3).clamp(10, 64);
    let before = before.rows();
    let after = after.map(Projection::rows).unwrap_or_default();
    let all = || before.iter().chain(&after);
    let least = decade_below(all().map(|point| point.seconds).fold(f64::INFINITY, f64::min));
    let most = all().map(|point| point.seconds).fold(least, f64::max).max(least * 10.0);
    let last = before.last().map_or(10.0, |point| point.ranks as f64).max(10.0);
    let mut grid = vec![[Mark::Empty; ROWS]; width];
    for (points, mark) in [(&before, Mark::Before), (&after, Mark::After)] {
        for (number, column) in grid.iter_mut().enumerate() {
            let ranks = last.powf(number as f64 / (width - 1) as f64);
            let Some(seconds) = at(points, ranks) else { continue };
            let height = (seconds / least).log10() / (most / least).log10();
            let row = ((ROWS - 1) as f64 * height).round().clamp(0.0, (ROWS - 1) as f64) as usize;
            column[row] = if column[row] == Mark::Empty { mark } else { Mark::Both };
        }
    }
    draw(&grid, (least, most), last, !after.is_empty())
}

/// The time for so many ranks, between the two points next to it.
fn at(points: &[JobProjection], ranks: f64) -> Option<f64> {
    let above = points.iter().position(|point| point.ranks as f64 >= ranks * 0.999_999)?;
    let right = points.get(above)?;
    let left = points.get(above.saturating_sub(1))?;
    let (from, to) = (left.ranks as f64, right.ranks as f64);
    if to <= from || left.seconds <= 0.0 {
        return Some(right.seconds);
    }
    let part = (ranks / from).ln() / (to / from).ln();
    Some(left.seconds * (right.seconds / left.seconds).powf(part))
}

/// The power of ten at or below.
fn decade_below(seconds: f64) -> f64 {
    if seconds > 1e-9 && seconds.is_finite() { 10f64.powf(seconds.log10().floor()) } else { 1e-9 }
}

/// The columns of a plot, with its axes.
fn draw(grid: &[[Mark; ROWS]], (least, most): (f64, f64), last: f64, two: bool) -> String {
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let height = row as f64 / (ROWS - 1) as f64;
        let label = match row.is_multiple_of(3) {
            true => span(least * (most / least).powf(height)),
            false => String::new(),
        };
        let mut line = format!("{label:>MARGIN$} |");
        for column in grid {
            match column[row] {
                Mark::Empty => line.push(' '),
                Mark::Before => line.push('o'),
                Mark::After => line.push_str(&style::paint(style::LESS, "+")),
                Mark::Both => line.push('*'),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&axis(grid.len(), last));
    if two {
        text.push_str(&format!("{:MARGIN$}  o before  + after  * both\n", ""));
    }
    text
}

/// The ranks below the plot: a tick at each power of ten.
fn axis(width: usize, last: f64) -> String {
    let mut line = vec!['-'; width];
    let mut labels = vec![' '; width];
    for power in 0..=last.log10() as u32 {
        let ranks = 10f64.powi(power as i32);
        let column = (ranks.ln() / last.ln() * (width - 1) as f64).round() as usize;
        line[column] = '+';
        let label = if power < 3 { format!("{ranks}") } else { format!("{}k", ranks / 1e3) };
        // It ends below its tick: so the last has room, however narrow the plot is.
        let start = (column + 1).saturating_sub(label.len());
        for (place, char) in labels.iter_mut().skip(start).zip(label.chars()) {
            *place = char;
        }
    }
    let line: String = line.into_iter().collect();
    let labels: String = labels.into_iter().collect();
    let margin = " ".repeat(MARGIN);
    format!("{margin} +{line}\n{:>MARGIN$}  {}\n", "ranks", labels.trim_end())
}
