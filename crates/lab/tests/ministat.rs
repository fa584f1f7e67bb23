//! What the program ministat prints of the same numbers.
#![allow(clippy::unwrap_used)] // A test program.

use std::process::Command;

use lab::ministat::{Confidence, DataSet, MinistatOptions, ministat};
use stats::Random;

/// Numbers between 0 and 1.
fn even(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64
}

/// About normal: the sum of twelve even numbers.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| even(random)).sum::<f64>() - 6.0
}

/// Files of numbers, as many as ministat takes and as few as it needs, large, small, equal,
/// skewed, with outliers, below zero, huge and tiny.
fn data_sets() -> Vec<Vec<Vec<String>>> {
    let mut random = Random::seeded(8);
    let text = |values: Vec<f64>| values.iter().map(f64::to_string).collect::<Vec<_>>();
    let mut sets = vec![
        vec![
            ["50", "200", "150", "400", "750", "400", "150"].map(str::to_owned).to_vec(),
            ["150", "400", "720", "500", "930"].map(str::to_owned).to_vec(),
        ],
        vec![text(vec![7.0; 3])],
        vec![text(vec![0.1; 10]), text(vec![0.1; 7])],
        vec![text(vec![0.1; 10]), text(vec![0.3; 7])],
        vec![text(vec![1.0, 2.0, 3.0]), text(vec![1.0, 2.0, 3.0])],
        vec![text(vec![-1.0, 0.0, 1.0]), text(vec![5.0, 6.0, 7.0, 8.0])],
        vec![text(vec![1e-300, 2e-300, 3e-300]), text(vec![2e-300, 2e-300, 5e-300])],
        vec![text(vec![1e100, 2e100, 4e100]), text(vec![-1e100, 0.0, 1.0])],
        vec![text(vec![0.0, 0.0, 0.0]), text(vec![0.0, 0.0, 1e-9])],
        // A set that stacks higher than those after it: the plot is cut, and then forgets.
        vec![
            text(vec![1.0; 9]),
            text(vec![1.0, 2.0, 3.0]),
            text(vec![3.0, 3.0, 3.0, 3.0, 2.0]),
            text(vec![9.0; 40]),
        ],
    ];
    for (n, m, apart) in [(3, 3, 9.0), (4, 6, 3.0), (5, 4, 2.0), (7, 7, 0.1), (40, 63, 1.0)] {
        let one = (0..n).map(|_| 100.0 + normal(&mut random)).collect();
        let other = (0..m).map(|_| 100.0 + apart + normal(&mut random)).collect();
        sets.push(vec![text(one), text(other)]);
    }
    for n in [51, 52, 500, 38_016] {
        let mut times = |slow: f64| -> Vec<f64> {
            let outlier = |slow: f64, at: usize| if at.is_multiple_of(12_000) { slow } else { 1.0 };
            (0..n).map(|at| outlier(slow, at) * (0.1 - 0.002 * even(&mut random).ln())).collect()
        };
        let (on, off) = (times(2.0), times(1.0));
        sets.push(vec![text(on), text(off)]);
    }
    let seven = (0..7u64).map(|shift| {
        text((0..20 + shift).map(|_| shift as f64 / 3.0 + normal(&mut random)).collect())
    });
    sets.push(seven.collect());
    sets.push(vec![text((0..90).map(|_| even(&mut random).powi(9)).collect())]);
    sets
}

#[test]
fn every_character_is_what_debians_ministat_prints() {
    let directory = tempfile::tempdir().unwrap();
    let sets = data_sets();
    assert!(sets.len() >= 20);
    for (number, files) in sets.iter().enumerate() {
        let names: Vec<_> = (0..files.len()).map(|file| format!("set{number}.{file}")).collect();
        for (name, values) in names.iter().zip(files) {
            std::fs::write(directory.path().join(name), values.join("\n") + "\n").unwrap();
        }
        let ours = names.iter().zip(files).map(|(name, values)| {
            DataSet::new(name, values.iter().map(|text| text.parse().unwrap()).collect()).unwrap()
        });
        let ours: Vec<_> = ours.collect();
        for (percent, width, separate_bars) in
            [(80.0, 40, true), (90.0, 75, false), (95.0, 74, false), (98.0, 2, true)]
                .into_iter()
                .chain([(99.0, 200, true), (99.5, 60, false)])
        {
            let mut theirs = Command::new("ministat");
            theirs.current_dir(directory.path());
            theirs.args(["-c", &percent.to_string(), "-w", &width.to_string()]);
            theirs.args(separate_bars.then_some("-s")).args(&names);
            let theirs = theirs.output().expect("run setup/install-test-tools");
            assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
            let confidence = Confidence::named(percent).unwrap();
            assert_eq!(
                ministat(
                    &ours,
                    &MinistatOptions { width, separate_bars, confidence, most_rows: None }
                ),
                String::from_utf8_lossy(&theirs.stdout),
                "set {number} at {percent} %"
            );
        }
    }
}

#[test]
fn a_plot_that_is_too_tall_is_left_out_as_with_its_option() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("set"), "1\n".repeat(30) + "2\n").unwrap();
    let values = [vec![1.0; 30], vec![2.0]].concat();
    let set = DataSet::new("set", values).unwrap();
    let look = |most_rows| MinistatOptions {
        width: 74,
        separate_bars: false,
        confidence: Confidence::default(),
        most_rows: Some(most_rows),
    };
    let theirs =
        Command::new("ministat").current_dir(directory.path()).args(["-A", "set"]).output();
    let theirs = theirs.expect("run setup/install-test-tools").stdout;
    let ours = |most_rows| ministat(std::slice::from_ref(&set), &look(most_rows));
    assert_eq!(ours(29), String::from_utf8_lossy(&theirs));
    assert!(ours(30).lines().count() > 30);
}

#[test]
fn two_values_or_one_that_is_no_number_are_no_set() {
    assert_eq!(DataSet::new("two", vec![1.0, 2.0]), None);
    assert_eq!(DataSet::new("nan", vec![1.0, 2.0, f64::NAN]), None);
    assert_eq!(
        ministat(
            &[],
            &MinistatOptions {
                width: 74,
                separate_bars: false,
                confidence: Confidence::P95,
                most_rows: None
            }
        ),
        ""
    );
}
