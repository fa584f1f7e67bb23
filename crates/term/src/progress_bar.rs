//! A bar for work that takes over a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressDrawTarget, ProgressStyle};

/// Work is silent for this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far a piece of work is. Shown once it has taken over a second, where standard error is a
/// terminal; may be told from several threads.
pub struct ProgressBar {
    bar: indicatif::ProgressBar,
    since: Instant,
}

impl Default for ProgressBar {
    fn default() -> ProgressBar {
        ProgressBar::new()
    }
}

impl ProgressBar {
    /// Nothing is shown yet.
    pub fn new() -> ProgressBar {
        let bar = indicatif::ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len}")
        {
            bar.set_style(style);
        }
        ProgressBar { bar, since: Instant::now() }
    }

    /// What is being done, and how much of how much is done.
    pub fn tell(&self, what: &'static str, done: u64, of: u64) {
        self.bar.set_message(what);
        self.bar.set_length(of);
        self.bar.set_position(done);
        if self.bar.is_hidden() && self.since.elapsed() > PATIENCE {
            // Stays hidden where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.tick();
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
