//! ministat's plot: a mark for each value, and below it where the mean, the median and one
//! standard deviation are.

use super::{DataSet, SYMBOLS};

/// A plot of `width` columns between two bars.
pub(super) struct MinistatPlot {
    width: usize,
    /// The left edge of the first column.
    start: f64,
    /// How much a column spans.
    step: f64,
    /// Which sets have a mark here, as bits; a row is as wide as the plot. The first row is the
    /// lowest.
    rows: Vec<Vec<u8>>,
    /// How many rows are shown: those that the set plotted last needs, even where others need
    /// more.
    pub(super) height: usize,
    bars: Vec<Option<Vec<u8>>>,
}

impl MinistatPlot {
    /// The plot of these sets; none where all values are the same.
    pub(super) fn of(sets: &[DataSet], width: usize, separate_bars: bool) -> Option<MinistatPlot> {
        let (mut min, mut max) = (999e99, -999e99);
        for set in sets {
            let (mean, deviation) = (set.mean(), set.standard_deviation());
            for value in [set.min(), set.max(), mean - deviation, mean + deviation] {
                // Compared, not with f64::min: what is no number moves nothing.
                min = if value < min { value } else { min };
                max = if value > max { value } else { max };
            }
        }
        let span = max - min;
        if span == 0.0 {
            return None;
        }
        let step = span / (width as f64 - 1.0);
        let start = min - 0.5 * step;
        let bars = vec![None; sets.len()];
        let mut plot = MinistatPlot { width, start, step, rows: Vec::new(), height: 0, bars };
        for (number, set) in sets.iter().enumerate() {
            plot.mark(set, number + 1);
            plot.bar(set, if separate_bars { number } else { 0 });
        }
        Some(plot)
    }

    /// The column of a value. The last one for what no column holds, as sums of huge values may
    /// be.
    fn column(&self, value: f64) -> usize {
        (((value - self.start) / self.step) as usize).min(self.width - 1)
    }

    /// Stacks a mark for each value on those in its column.
    fn mark(&mut self, set: &DataSet, mark: usize) {
        let columns: Vec<_> = set.sorted.iter().map(|value| self.column(*value)).collect();
        let stacks = columns.chunk_by(|a, b| a == b);
        let height = stacks.clone().map(<[_]>::len).max().unwrap_or(0);
        if height > self.height {
            // What a set before the last one stacked higher is forgotten here, as it is there.
            self.rows.truncate(self.height);
            self.rows.resize(height, vec![0; self.width]);
        }
        self.height = height;
        for stack in stacks {
            for row in &mut self.rows[..stack.len()] {
                row[stack[0]] |= mark as u8;
            }
        }
    }

    fn bar(&mut self, set: &DataSet, number: usize) {
        let (mean, deviation) = (set.mean(), set.standard_deviation());
        let spread = (!deviation.is_nan())
            .then(|| (self.column(mean - deviation), self.column(mean + deviation)));
        let (median, mean) = (self.column(set.median()), self.column(mean));
        let bar = self.bars[number].get_or_insert_with(|| vec![b' '; self.width]);
        if let Some((from, to)) = spread {
            bar[to] = b'|';
            bar[from] = b'|';
            for place in bar.iter_mut().take(to).skip(from + 1).filter(|place| **place == b' ') {
                *place = b'_';
            }
        }
        bar[median] = b'M';
        bar[mean] = b'A';
    }

    /// The plot in its frame.
    pub(super) fn render(&self) -> String {
        let edge = format!("+{}+\n", "-".repeat(self.width));
        let mut text = edge.clone();
        let mut line = |places: &mut dyn Iterator<Item = char>| {
            text.push('|');
            text.extend(places);
            text.push_str("|\n");
        };
        for row in self.rows[..self.height].iter().rev() {
            line(&mut row.iter().map(|marks| SYMBOLS[usize::from(*marks)]));
        }
        for bar in self.bars.iter().flatten() {
            line(&mut bar.iter().map(|byte| char::from(*byte)));
        }
        text.push_str(&edge);
        text
    }
}
