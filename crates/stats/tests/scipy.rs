//! What scipy and numpy compute from the same numbers.
//!
//! They are in the directory `venv` of `$BECALM_TEST_HOME`, where setup/install-test-tools puts
//! them.
#![allow(clippy::unwrap_used)] // A test program.

use std::process::Command;

use serde_json::{Value, json};
use stats::{
    Chance, Count, Random, Summary, any, at_least, beta_quantile, beta_split, independent,
    median_ranks, paired, power, student_p, student_t, trend,
};

/// What a Python expression over the variable `given` is, with numpy and scipy.stats at hand.
fn python(expression: &str, given: &Value) -> Value {
    let program = format!(
        "import json, math, sys, numpy as np, scipy.stats as st\n\
         given = json.loads(sys.argv[1])\n\
         print(json.dumps({expression}))"
    );
    let output = Command::new(testkit::installed::venv().join("bin/python3"))
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

/// Relative to their value, however small it is.
#[track_caller]
fn assert_equal(ours: f64, theirs: &Value, what: &str) {
    let theirs = theirs.as_f64().unwrap();
    assert!((ours - theirs).abs() <= 1e-9 * theirs.abs(), "{what}: {ours:e}, not {theirs:e}");
}

#[test]
fn the_incomplete_beta_function_is_scipys_to_nine_digits_in_both_tails() {
    let mut cases = Vec::new();
    for a in [0.5, 1.0, 3.0, 17.25, 400.0, 38_016.0, 1e6] {
        for b in [0.5, 2.0, 30.0, 999.5, 38_013.0, 1e7] {
            let mean: f64 = a / (a + b);
            let deviation = (mean * (1.0 - mean) / (a + b + 1.0)).sqrt();
            for away in [-8.0, -2.0, -0.1, 0.0, 0.3, 3.0, 9.0] {
                let x = mean + away * deviation;
                if x > 0.0 && x < 1.0 {
                    cases.push([a, b, x]);
                }
            }
        }
    }
    let theirs = python(
        "[[float(st.beta.cdf(x, a, b)), float(st.beta.sf(x, a, b))] for a, b, x in given]",
        &json!(cases),
    );
    for ([a, b, x], theirs) in cases.iter().zip(theirs.as_array().unwrap()) {
        let ours = beta_split(*a, *b, *x, 1.0 - x);
        assert_equal(ours.below, &theirs[0], &format!("below {x} of {a} and {b}"));
        assert_equal(ours.above, &theirs[1], &format!("above {x} of {a} and {b}"));
    }
}

#[test]
fn quantiles_of_the_beta_distribution_are_scipys() {
    let mut cases = Vec::new();
    for (a, b) in [(0.5, 0.5), (3.0, 38_014.0), (38_014.0, 3.0), (12.0, 7.5), (1.0, 1e6)] {
        cases.extend([1e-6, 0.025, 0.5, 0.975, 0.999].map(|below| [a, b, below]));
    }
    let theirs = python("[float(st.beta.ppf(p, a, b)) for a, b, p in given]", &json!(cases));
    for ([a, b, below], theirs) in cases.iter().zip(theirs.as_array().unwrap()) {
        assert_equal(beta_quantile(*a, *b, *below), theirs, &format!("{below} of {a} and {b}"));
    }
}

#[test]
fn students_t_is_scipys_from_one_degree_of_freedom_to_a_million() {
    let mut cases = Vec::new();
    for freedom in [1.0, 2.0, 7.5, 30.0, 100.0, 76_030.0, 1e6] {
        cases.extend([1e-6, 0.3, 1.0, 1.96, 5.0, 30.0].map(|t| [freedom, t]));
    }
    let theirs = python("[2 * float(st.t.sf(t, df)) for df, t in given]", &json!(cases));
    for ([freedom, t], theirs) in cases.iter().zip(theirs.as_array().unwrap()) {
        // Where scipy's own value is no longer a normal double there is nothing to compare.
        if theirs.as_f64().unwrap() > 1e-290 {
            assert_equal(student_p(*t, *freedom), theirs, &format!("p of {t}, {freedom}"));
        }
    }
    let theirs = python("[float(st.t.isf(0.025, df)) for df, t in given]", &json!(cases));
    for ([freedom, _], theirs) in cases.iter().zip(theirs.as_array().unwrap()) {
        assert_equal(student_t(0.05, *freedom), theirs, &format!("t of {freedom}"));
    }
}

/// Counts from the published ones to such as no table of the time held.
fn counts() -> Vec<[u64; 4]> {
    vec![
        [3, 38_016, 0, 38_016],
        [6, 38_016, 0, 38_016],
        [0, 38_016, 3, 38_016],
        [1, 1, 0, 1],
        [5, 10, 5, 10],
        [17, 40, 3, 35],
        [8, 100, 25, 90],
        [5_700, 38_016, 5_500, 38_016],
        [400, 1_000_000, 500, 900_000],
        [0, 5, 0, 7],
        [5, 5, 7, 7],
    ]
}

fn sides([a, m, b, n]: [u64; 4]) -> (Count, Count) {
    (Count { seen: a, of: m }, Count { seen: b, of: n })
}

#[test]
fn fishers_test_is_scipys_one_sided_and_two_sided() {
    let theirs = python(
        "[[float(st.fisher_exact([[a, m - a], [b, n - b]], alternative=how)[1]) \
           for how in ('greater', 'two-sided')] for a, m, b, n in given]",
        &json!(counts()),
    );
    for (case, theirs) in counts().into_iter().zip(theirs.as_array().unwrap()) {
        let (one, other) = sides(case);
        let chance = Chance::of(one, other);
        assert_equal(chance.at_least(one.seen), &theirs[0], &format!("greater {case:?}"));
        assert_equal(chance.as_unlikely(one.seen), &theirs[1], &format!("two-sided {case:?}"));
    }
}

#[test]
fn a_test_within_blocks_is_the_convolution_of_scipys_hypergeometric_distributions() {
    let blocks: Vec<[u64; 4]> =
        vec![[3, 40, 1, 40], [0, 40, 0, 40], [12, 40, 9, 40], [40, 40, 40, 40], [2, 30, 0, 45]];
    let theirs = python(
        "(lambda parts: float(sum(__import__('functools').reduce(np.convolve, parts) \
            [sum(a for a, *_ in given):])))( \
         [st.hypergeom(m + n, a + b, m).pmf(np.arange(m + 1)) for a, m, b, n in given])",
        &json!(blocks),
    );
    let seen = blocks.iter().map(|[a, ..]| a).sum();
    let ours = Chance::within(blocks.into_iter().map(sides)).at_least(seen);
    assert_equal(ours, &theirs, "within blocks");
}

#[test]
fn intervals_of_proportions_are_scipys_clopper_and_pearson() {
    // Not binomtest().proportion_ci, whose search ends at 2e-12: too far from 1.6e-5.
    let theirs = python(
        "[[[float(st.beta.ppf(tail, a, m - a + 1)) if a else 0.0, \
            float(st.beta.isf(tail, a + 1, m - a)) if a < m else 1.0] \
           for tail in (0.025, 0.005)] for a, m, *_ in given]",
        &json!(counts()),
    );
    for ([seen, of, ..], theirs) in counts().into_iter().zip(theirs.as_array().unwrap()) {
        for (level, theirs) in [(0.95, &theirs[0]), (0.99, &theirs[1])] {
            let ours = Count { seen, of }.bounds(level);
            assert_equal(ours.low, &theirs[0], &format!("low {seen} of {of}"));
            assert_equal(ours.high, &theirs[1], &format!("high {seen} of {of}"));
        }
    }
}

#[test]
fn binomial_tails_and_powers_are_scipys() {
    let cases = [(5, 67_210, 1e-4), (1, 24_576, 1e-4), (60, 100, 0.5), (40_000, 1_000_000, 0.039)];
    let theirs = python("[float(st.binom.sf(k - 1, n, p)) for k, n, p in given]", &json!(cases));
    for ((least, tries, p), theirs) in cases.iter().zip(theirs.as_array().unwrap()) {
        assert_equal(at_least(*least, *tries, *p), theirs, &format!("{least} of {tries}"));
    }
    assert_equal(any(24_576, 1e-4), &theirs[1], "any");
    // Against a side that shows none, the power is the chance of at least five.
    assert_equal(power(67_210, 1e-4, 0.0, 0.05), &theirs[0], "power");
    // Else, it is summed over what that side may show.
    let theirs = python(
        "float(sum(st.binom.pmf(j, 30, 0.2) * sum(st.binom.pmf(i, 30, 0.5) for i in range(31) \
           if st.hypergeom.sf(i - 1, 60, i + j, 30) <= 0.05) for j in range(31)))",
        &json!(null),
    );
    let ours = power(30, 0.5, 0.2, 0.05);
    assert!((ours - theirs.as_f64().unwrap()).abs() < 1e-9, "{ours}, not {theirs}");
}
