//! What scipy and numpy compute from the same numbers.
//!
//! They are in the folder `venv` of `$BECALM_TEST_HOME`, where setup/install-test-tools puts
//! them.
#![allow(clippy::unwrap_used)] // A test program.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use stats::{Random, Summary, independent, median_ranks, paired, trend};

/// What a Python expression over the variable `given` is, with numpy and scipy.stats at hand.
fn python(expression: &str, given: &Value) -> Value {
    let home = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let test_home = home("BECALM_TEST_HOME")
        .or_else(|| Some(home("XDG_CACHE_HOME")?.join("becalm-tests")))
        .or_else(|| Some(home("HOME")?.join(".cache/becalm-tests")));
    let program = format!(
        "import json, math, sys, numpy as np, scipy.stats as st\n\
         given = json.loads(sys.argv[1])\n\
         print(json.dumps({expression}))"
    );
    let output = Command::new(test_home.unwrap().join("venv/bin/python3"))
        .args(["-c", &program, &given.to_string()])
        .output()
        .expect("run setup/install-test-tools");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Skewed like the times of programs: most near the shortest, some far out.
fn times(seed: u64, n: usize) -> Vec<f64> {
    let mut random = Random::seeded(seed);
    let mut even = || (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
    (0..n).map(|_| 0.010 - 0.002 * (1.0 - even()).ln()).collect()
}

#[track_caller]
fn assert_close(ours: f64, theirs: &Value, what: &str) {
    let theirs = theirs.as_f64().unwrap();
    assert!((ours - theirs).abs() <= 1e-9 * theirs.abs().max(1e-3), "{what}: {ours}, not {theirs}");
}

#[test]
fn a_summary_is_numpys_and_scipys() {
    for n in [2, 3, 10, 37, 1000] {
        let values = times(n as u64, n);
        let ours = Summary::of(&values).unwrap();
        let theirs = python(
            "dict(min=min(given), q=list(np.percentile(given, [25, 50, 75])), max=max(given), \
             mean=np.mean(given), sd=np.std(given, ddof=1), mad=st.median_abs_deviation(given))",
            &json!(values),
        );
        assert_close(ours.min, &theirs["min"], "min");
        assert_close(ours.lower_quartile, &theirs["q"][0], "lower quartile");
        assert_close(ours.median, &theirs["q"][1], "median");
        assert_close(ours.upper_quartile, &theirs["q"][2], "upper quartile");
        assert_close(ours.max, &theirs["max"], "max");
        assert_close(ours.mean, &theirs["mean"], "mean");
        assert_close(ours.standard_deviation.unwrap(), &theirs["sd"], "standard deviation");
        assert_close(ours.median_absolute_deviation, &theirs["mad"], "MAD");
    }
}

#[test]
fn the_interval_of_a_median_is_the_one_of_scipys_quantile_test() {
    for n in [6, 7, 10, 25, 100, 1500] {
        let values = times(n as u64, n);
        let ours = median_ranks(n).unwrap();
        // The ranks below come from scipy's binomial distribution.
        let theirs = python(
            "(lambda k: [k - 1, 1 - 2 * st.binom.cdf(k - 1, given, 0.5)])\
             (int(st.binom.ppf(0.025, given, 0.5)))",
            &json!(n),
        );
        assert_eq!(ours.low as u64, theirs[0].as_u64().unwrap(), "{n}");
        assert_close(ours.coverage, &theirs[1], "coverage");
        let ratio = paired(&values, &vec![1.0; n]).unwrap().interval.unwrap();
        let interval = python(
            "list(st.quantile_test(given, q=0, p=0.5).confidence_interval(0.95))",
            &json!(values),
        );
        assert_close(ratio.low, &interval[0], "low");
        assert_close(ratio.high, &interval[1], "high");
    }
}

#[test]
fn a_ratio_of_series_measured_apart_is_where_scipys_rank_sum_test_turns() {
    for (m, n) in [(4, 5), (10, 10), (12, 30), (60, 60)] {
        let (before, after) = (times(1, m), times(2, n));
        let ours = independent(&before, &after).unwrap();
        let interval = ours.interval.unwrap();
        // Just inside the interval a shift by it is not rejected at 5 %, just outside it is.
        let p_values = python(
            "[st.mannwhitneyu(given[0], [x * shift for x in given[1]], method='exact').pvalue \
             for shift in given[2]]",
            &json!([
                before,
                after,
                [
                    interval.low * (1.0 + 1e-9),
                    interval.low * (1.0 - 1e-9),
                    interval.high * (1.0 - 1e-9),
                    interval.high * (1.0 + 1e-9),
                ]
            ]),
        );
        let p: Vec<f64> =
            p_values.as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).collect();
        assert!(p[0] > 0.05 && p[2] > 0.05, "{m} and {n}: {p:?}");
        assert!(p[1] <= 0.05 && p[3] <= 0.05, "{m} and {n}: {p:?}");
        let estimate = python(
            "math.exp(np.median([math.log(b / a) for b in given[0] for a in given[1]]))",
            &json!([before, after]),
        );
        assert_close(ours.ratio, &estimate, "ratio");
    }
}

#[test]
fn a_trend_is_scipys_kendall_tau_against_time() {
    let mut values = times(5, 40);
    for (run, value) in values.iter_mut().enumerate() {
        *value += run as f64 * 1e-4;
    }
    // The p-value of a z-score without continuity correction lies near the one with it.
    let theirs = python(
        "st.kendalltau(range(len(given)), given, method='asymptotic').pvalue",
        &json!(values),
    );
    let chance = python("2 * st.norm.sf(abs(given))", &json!(trend(&values)));
    let (theirs, chance) = (theirs.as_f64().unwrap(), chance.as_f64().unwrap());
    assert!(chance >= theirs && chance < 1.2 * theirs, "{chance}, not {theirs}");
}
