//! Layout variability: whether an unlucky address layout slows one process in thousands.
//!
//! | room | what it holds |
//! |---|---|
//! | `log` | what a campaign writes down: a line a process |
//! | `campaign` | many processes of each arm, run and written down |
//! | `measured` | which program the time was taken of, behind a wrapper |
//! | `verify` | whether all ranks have one layout, and what makes them differ |
//! | `scan` | layouts walked one by one, and the slow ones tested again |
//! | `explain` | why a layout is slow: each of its regions moved alone, counters, page colours |
//! | `analyze` | such logs, read and judged: counts, intervals, causes, plots |

pub mod analyze;
pub mod campaign;
pub mod explain;
pub mod log;
pub mod measured;
pub mod scan;
pub mod verify;
