//! Student's t.

use crate::beta::{beta_split, bisect};

/// The chance that |t| is at least this, with so many degrees of freedom (above 0).
pub fn student_p(t: f64, freedom: f64) -> f64 {
    let all = freedom + t * t;
    // Two parts of a whole, each with all its digits; a t whose square is too large is certain.
    if all.is_infinite() {
        return 0.0;
    }
    beta_split(freedom / 2.0, 0.5, freedom / all, t * t / all).below
}

/// The t that is exceeded, one way or the other, with the chance `p` (between 0 and 1).
pub fn student_t(p: f64, freedom: f64) -> f64 {
    bisect(f64::MAX, |t| student_p(t, freedom) > p)
}
