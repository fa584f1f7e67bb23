//! What stands in the way of a verdict, in words.

use lab::aslr::analyze::{Analysis, Doubt, ExcludedSlow};
use term::number::count;

use super::view::{chance, words};

/// What differs is not the layout.
pub(super) fn confounded(analysis: &Analysis) -> String {
    let worst = analysis.comparisons.iter().filter(|comparison| comparison.confounded);
    let Some(worst) = worst.min_by(|a, b| a.p_of_all.total_cmp(&b.p_of_all)) else {
        return String::new();
    };
    format!(
        "Confounded: {} has more slow ranks than {} (p = {}), but what made them slow is known, and \
         is not the layout: {}. Of the others it has not more (p = {}).",
        worst.arm,
        analysis.baseline,
        chance(worst.p_of_all),
        excluded(&worst.left_out),
        chance(worst.p)
    )
}

/// Which causes, and how often in the arm and in the baseline.
pub(super) fn excluded(rows: &[ExcludedSlow]) -> String {
    let row = |row: &ExcludedSlow| {
        format!("{} {} against {}", words(row.cause), count(row.slow), count(row.baseline))
    };
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}

/// Why nothing can be told.
pub(super) fn doubted(doubt: Doubt, analysis: &Analysis) -> String {
    let share = analysis.threshold * 100.0;
    match doubt {
        Doubt::Speeds if analysis.blocks > 0 => format!(
            "a quarter of the blocks or jobs is over {share:.0} % off the median job, and a job of \
             one process or two does not tell which of them is slow; run jobs of three ranks or more"
        ),
        Doubt::Speeds => format!(
            "a quarter of the jobs or more is over {share:.0} % quicker than the median job, so that \
             nobody can tell what is slow; run arms in shuffled blocks (becalm lab aslr campaign)"
        ),
        Doubt::Sizes => {
            "the jobs of one arm have more ranks than those of another, and so more slow \
                         ones; run jobs of one size"
                .to_owned()
        }
        Doubt::Nodes => {
            "the arms ran on different nodes, so that what differs may be the nodes; run \
                         both on the same, in shuffled blocks (becalm lab aslr campaign)"
                .to_owned()
        }
    }
}
