//! Values along a line of pixels.

/// A time axis: linear, or logarithmic where times differ much.
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

/// From this ratio on, the short times would be squeezed together.
const WIDE: f64 = 4.0;

impl Axis {
    /// The values from `low` to `high` on the pixels from `from` to `to`.
    pub(super) fn of_times(low: f64, high: f64, from: f64, to: f64) -> Axis {
        let is_log = low > 0.0 && high / low > WIDE;
        let high = if high > low { high } else { low + low.abs().max(1e-9) * 0.01 };
        Axis { low, high, is_log, from, to }
    }

    /// The same, logarithmic.
    pub(super) fn log(low: f64, high: f64, from: f64, to: f64) -> Axis {
        Axis { low, high, is_log: true, from, to }
    }

    /// Where a value is.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round values inside, about ten at most.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_log && self.high / self.low > 100.0 {
            let (first, last) = (self.low.log10().ceil() as i32, self.high.log10().floor() as i32);
            return (first..=last).map(|power| 10f64.powi(power)).collect();
        }
        let step = round_step((self.high - self.low) / 8.0);
        let first = (self.low / step).ceil();
        let count = ((self.high / step).floor() - first).clamp(0.0, 20.0) as u32;
        (0..=count).map(|number| (first + f64::from(number)) * step).collect()
    }
}

/// The next 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    power * factors.into_iter().find(|factor| power * factor >= least).unwrap_or(10.0)
}
