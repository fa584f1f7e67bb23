//! What the program ministat says of the same numbers, character by character.
//!
//! Written from ministat(1) and from what Debian's build prints (version 20150715), with what is
//! odd about it: the variance is a difference of sums, the median of an even number of values is
//! the upper one, the column called 99.5 % is that of 99.8 %, and a set that stacks lower than
//! one before it cuts the plot. Student's t compares means, and is blind to rare outliers: see
//! [`stats::Chance`] for those.

mod general;
mod plot;

use general::general;
use plot::MinistatPlot;

use stats::student_t;

/// A set of each number has its mark; where two sets share a place, the sum of their numbers has.
const SYMBOLS: [char; 8] = [' ', 'x', '+', '*', '%', '#', '@', 'O'];

/// How many sets have a mark.
pub const MOST_SETS: usize = SYMBOLS.len() - 1;
/// How many values a set must have.
pub const FEWEST_VALUES: usize = 3;

/// How sure a comparison is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confidence {
    /// 80 %
    P80,
    /// 90 %
    P90,
    /// 95 %
    #[default]
    P95,
    /// 98 %
    P98,
    /// 99 %
    P99,
    /// What ministat calls 99.5 %, and is 99.8 %.
    P99_5,
}

/// The values of that column of ministat's table for 1 and 7 to 12 degrees of freedom, which are
/// not what t is: 318.309, 4.785, 4.501, 4.297, 4.144, 4.025 and 3.930.
const ODD: [(usize, f64); 7] =
    [(1, 318.313), (7, 4.782), (8, 4.499), (9, 4.296), (10, 4.143), (11, 4.024), (12, 3.929)];
/// From more degrees of freedom on, ministat takes those of infinitely many.
const MOST_FREEDOM: usize = 100;
/// Enough for infinitely many: the fifth digit is the same.
const INFINITE: f64 = 1e6;

impl Confidence {
    /// The name, in per cent.
    pub fn percent(self) -> f64 {
        match self {
            Confidence::P80 => 80.0,
            Confidence::P90 => 90.0,
            Confidence::P95 => 95.0,
            Confidence::P98 => 98.0,
            Confidence::P99 => 99.0,
            Confidence::P99_5 => 99.5,
        }
    }

    /// The one of that name.
    pub fn named(percent: f64) -> Option<Confidence> {
        use Confidence::{P80, P90, P95, P98, P99, P99_5};
        [P80, P90, P95, P98, P99, P99_5].into_iter().find(|level| level.percent() == percent)
    }

    /// ministat's value of t: to three places.
    fn t(self, freedom: usize) -> f64 {
        let odd = ODD.iter().find(|(of, _)| *of == freedom);
        if let (Confidence::P99_5, Some((_, t))) = (self, odd) {
            return *t;
        }
        let exact = if freedom > MOST_FREEDOM { INFINITE } else { freedom as f64 };
        let p = if self == Confidence::P99_5 { 0.002 } else { 1.0 - self.percent() / 100.0 };
        (student_t(p, exact) * 1e3).round() / 1e3
    }
}

/// Values under a name.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSet {
    name: String,
    sorted: Vec<f64>,
    sum: f64,
    squares: f64,
}

impl DataSet {
    /// These values, added up in this order; none if they are fewer than [`FEWEST_VALUES`] or
    /// some are no finite numbers.
    pub fn new(name: &str, values: Vec<f64>) -> Option<DataSet> {
        if values.len() < FEWEST_VALUES || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let (sum, squares) = values
            .iter()
            .fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
        let mut sorted = values;
        sorted.sort_unstable_by(f64::total_cmp);
        Some(DataSet { name: name.to_owned(), sorted, sum, squares })
    }

    /// How many there are.
    pub fn n(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// The largest.
    pub fn max(&self) -> f64 {
        self.sorted[self.n() - 1]
    }

    /// The one in the middle, or the upper one of two.
    pub fn median(&self) -> f64 {
        self.sorted[self.n() / 2]
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.sum / self.n() as f64
    }

    /// The standard deviation of the sample; no number where rounding made the variance negative,
    /// as of values that are all the same.
    pub fn standard_deviation(&self) -> f64 {
        let variance = self.variance();
        // With a sign, as the processor makes it and ministat shows it.
        if variance < 0.0 { -f64::NAN } else { variance.sqrt() }
    }

    fn variance(&self) -> f64 {
        let n = self.n() as f64;
        (self.squares - self.sum * self.sum / n) / (n - 1.0)
    }
}

/// How the means of two sets differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanDifference {
    /// By how much the mean of the one is over that of the other.
    pub difference: f64,
    /// Half the width of the interval that holds it.
    pub margin: f64,
    /// The mean of the other.
    pub of: f64,
    /// The pooled standard deviation.
    pub pooled: f64,
}

impl MeanDifference {
    /// Student's t of two sets that are supposed to have one variance.
    pub fn between(one: &DataSet, other: &DataSet, confidence: Confidence) -> MeanDifference {
        let (n, m) = (one.n() as f64, other.n() as f64);
        let freedom = one.n() + other.n() - 2;
        let pooled = (n - 1.0) * one.variance() + (m - 1.0) * other.variance();
        let pooled = (pooled / freedom as f64).sqrt();
        let margin = confidence.t(freedom) * (pooled * (1.0 / n + 1.0 / m).sqrt());
        MeanDifference { difference: one.mean() - other.mean(), margin, of: other.mean(), pooled }
    }

    /// Whether it is beyond its margin.
    pub fn is_proven(&self) -> bool {
        self.difference.abs() > self.margin
    }

    fn render(&self, confidence: Confidence) -> String {
        let percent = confidence.percent();
        if !self.is_proven() {
            return format!("No difference proven at {percent:.1}% confidence\n");
        }
        let show = |value| general(value, 6);
        let share = |value: f64| show(value * 100.0 / self.of);
        format!(
            "Difference at {percent:.1}% confidence\n\t{} +/- {}\n\t{}% +/- {}%\n\
             \t(Student's t, pooled s = {})\n",
            show(self.difference),
            show(self.margin),
            share(self.difference),
            share(self.margin),
            show(self.pooled)
        )
    }
}

/// What to print, and how.
#[derive(Clone, Copy, Debug)]
pub struct MinistatOptions {
    /// How wide the plot is between its edges, in columns; at least 2.
    pub width: usize,
    /// Whether each set has a bar of its own (`-s`).
    pub separate_bars: bool,
    /// How sure comparisons are (`-c`).
    pub confidence: Confidence,
    /// How many rows a plot may take: one that needs more is left out, as all are with `-A`. Any
    /// number, if none: ministat's plot has a row for each value of the fullest column.
    pub most_rows: Option<usize>,
}

impl Default for MinistatOptions {
    /// Those of ministat without options or a terminal.
    fn default() -> MinistatOptions {
        MinistatOptions {
            width: 74,
            separate_bars: false,
            confidence: Confidence::P95,
            most_rows: None,
        }
    }
}

/// What ministat prints of these sets: all but the first are compared with it. Sets after the
/// seventh have no mark, and are left out.
pub fn ministat(sets: &[DataSet], look: &MinistatOptions) -> String {
    let sets = &sets[..sets.len().min(MOST_SETS)];
    let Some(first) = sets.first() else { return String::new() };
    let mut text = String::new();
    for (set, symbol) in sets.iter().zip(&SYMBOLS[1..]) {
        text.push_str(&format!("{symbol} {}\n", set.name));
    }
    text.push_str(&match MinistatPlot::of(sets, look.width.max(2), look.separate_bars) {
        Some(plot) if look.most_rows.is_some_and(|most| plot.height > most) => String::new(),
        Some(plot) => plot.render(),
        None => "[no plot, span is zero width]\n".to_owned(),
    });
    text.push_str("    N           Min           Max        Median           Avg        Stddev\n");
    for (number, (set, symbol)) in sets.iter().zip(&SYMBOLS[1..]).enumerate() {
        let (mean, deviation) = (set.mean(), set.standard_deviation());
        text.push_str(&format!("{symbol} {:3}", set.n()));
        for value in [set.min(), set.max(), set.median(), mean, deviation] {
            text.push_str(&format!(" {:>13}", general(value, 8)));
        }
        text.push('\n');
        if number > 0 {
            let difference = MeanDifference::between(set, first, look.confidence);
            text.push_str(&difference.render(look.confidence));
        }
    }
    text
}
