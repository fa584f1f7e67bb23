//! Starts that others have published, predicted blind: their own parameters are put in, what they do
//! not tell is assumed once for all, nothing is fitted. The table of docs/scale.md is what this
//! program says; `BECALM_BLESS=1` writes it.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cost::{CostModel, FilesystemProfile, JobSize, RecordedStart};
use recording::{ExitStatus, Nanos, Recording};
use testkit::made::{Made, ask};

/// A start of libraries, and how long it was published to take.
struct PublishedStart {
    source: &'static str,
    libraries: usize,
    /// Whether each is searched for along a path with a directory for each library, or opened by its
    /// path.
    is_searched: bool,
    ranks: u64,
    ranks_per_node: u64,
    seconds: f64,
}

const SHRINKWRAP: &str = "Shrinkwrap (Zakaria et al., SC22)";
const SPINDLE: &str = "Spindle (its README; Frings et al., ICS'13)";

/// What is not published is assumed: where libraries lie, and all of the filesystem. Shrinkwrap's ranks
/// on a node are becalm's usual 64; Spindle's are Blue Gene's 16, and its program is Pynamic as NERSC
/// configures it, of 495 and 215 libraries.
const STARTS: [PublishedStart; 5] = [
    of(SHRINKWRAP, 900, true, (512, 64), 169.0),
    of(SHRINKWRAP, 900, true, (2048, 64), 344.6),
    of(SHRINKWRAP, 900, false, (512, 64), 30.5),
    of(SHRINKWRAP, 900, false, (2048, 64), 47.8),
    of(SPINDLE, 710, true, (16_384, 16), 36_000.0),
];

const fn of(
    source: &'static str,
    libraries: usize,
    is_searched: bool,
    (ranks, ranks_per_node): (u64, u64),
    seconds: f64,
) -> PublishedStart {
    PublishedStart { source, libraries, is_searched, ranks, ranks_per_node, seconds }
}

impl PublishedStart {
    /// What one rank does: each library is looked for in the directories of those before it.
    fn recording(&self) -> Recording {
        let mut made = Made::new();
        let process = made.command("/usr/bin/app");
        for library in 0..self.libraries {
            let name = |directory| format!("/s/p{directory}/lib/l{library}.so");
            for directory in (0..library).filter(|_| self.is_searched) {
                made.call(process, ask("openat", &name(directory)).missing());
            }
            made.call(process, ask("openat", &name(library)).fd(3));
        }
        made.end(process, ExitStatus::Exited(0));
        Recording::read(&made.finish()[..]).unwrap()
    }

    fn predicted(&self) -> f64 {
        let recording = self.recording();
        let start = RecordedStart::of(&recording, &[PathBuf::from("/s")], Some(Nanos(0)));
        let job = JobSize { ranks: self.ranks, ranks_per_node: self.ranks_per_node };
        // Both were NFS; of that, nothing is published.
        let profile = FilesystemProfile::default();
        CostModel { profile, job, warm: false }.predict(&start).wait.all_ranks
    }
}

fn table() -> String {
    let mut text = String::from(
        "| published | libraries | found by | ranks | on a node | published | predicted | ratio |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for start in &STARTS {
        let PublishedStart { source, libraries, ranks, ranks_per_node, seconds, .. } = start;
        let found = if start.is_searched { "search" } else { "path" };
        let predicted = start.predicted();
        let ratio = predicted / seconds;
        writeln!(
            text,
            "| {source} | {libraries} | {found} | {ranks} | {ranks_per_node} | {seconds} s | \
             {predicted:.1} s | {ratio:.2} |"
        )
        .unwrap();
    }
    text
}

#[test]
fn the_page_has_the_ratios_that_come_out() {
    const BEGIN: &str = "<!-- made by crates/cost/tests/published.rs -->\n";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let end = rest.find("\n\n").unwrap() + 1;
    let table = table();
    if std::env::var_os("BECALM_BLESS").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{table}{}", &rest[end..])).unwrap();
        return;
    }
    assert_eq!(&rest[..end], table);
}
