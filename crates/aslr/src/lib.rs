//! Layout variability: whether an unlucky address layout slows one process in thousands.
//!
//! | room | what it holds |
//! |---|---|
//! | `log` | what a campaign writes down: a line a process |
//! | `analyze` | such logs, read and judged: counts, intervals, causes, plots |

pub mod analyze;
pub mod log;
