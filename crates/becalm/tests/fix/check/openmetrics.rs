//! `becalm check --openmetrics FILE`, read by Prometheus' own library.

use std::fs;

use testkit::installed::readers_python;

use super::*;

/// The samples of a file, as Prometheus' parsers of OpenMetrics and of its own text read them: each
/// name, its labels and its value.
fn samples(file: &str) -> Vec<(String, Value, f64)> {
    let script = "import json, sys\n\
                  from prometheus_client import parser, openmetrics\n\
                  from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict\n\
                  text = open(sys.argv[1], newline='').read()\n\
                  of = lambda read: [[s.name, s.labels, s.value] for m in read(text) for s in m.samples]\n\
                  assert all(m.type == 'gauge' and m.documentation for m in strict(text))\n\
                  assert of(strict) == of(parser.text_string_to_metric_families)\n\
                  print(json.dumps(of(strict)))";
    let ran = run(Command::new(readers_python()).args(["-c", script, file]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn a_start_in_numbers_is_read_by_prometheus_whatever_its_program_is_called() {
    let scene = Scene::new();
    let program = scene.file("a\"b\\c\n# EOF\n", "#!/bin/sh\n[ -e /none ]\nexit 0\n", 0o755);
    let options = ["--openmetrics=start.prom", "--json=start.json", "--budget=failed=0"];
    let ran = run(&mut check(&scene, &options, &[&program]));
    assert_eq!(ran.code(), 3, "{}", ran.err());
    let found: Value = serde_json::from_slice(&fs::read(scene.at("start.json")).unwrap()).unwrap();
    let samples = samples(&scene.at("start.prom"));
    let sum = |name: &str| -> f64 {
        let of = samples.iter().filter(|(sample, ..)| *sample == format!("becalm_start_{name}"));
        of.map(|(.., value)| value).sum()
    };
    assert_eq!(sum("metadata_operations"), found["totals"]["metadata_ops"]);
    assert_eq!(sum("failed_lookups"), found["totals"]["enoent"]);
    assert_eq!(sum("distinct_paths"), found["totals"]["distinct"]);
    assert_eq!((sum("processes"), sum("whole"), sum("within_budget")), (1.0, 1.0, 0.0));
    let wait = |ranks: &str| {
        let is_it = |sample: &&(String, Value, f64)| sample.1["ranks"] == ranks;
        samples.iter().find(is_it).unwrap().2
    };
    assert_eq!(wait("1"), found["predicted_wait"]["one_rank"]);
    assert_eq!(wait("1000"), found["predicted_wait"]["all_ranks"]);
    let named = samples[0].1["program"].as_str().unwrap();
    assert_eq!(Some(named), found["program"].as_str());
}

#[test]
fn metrics_are_written_whole_over_nothing_but_metrics() {
    let scene = Scene::new();
    scene.file("notes", "mine", 0o644);
    let refused = run(&mut check(&scene, &["--openmetrics=notes"], &["true"]));
    assert_eq!(refused.code(), 125, "{}", refused.err());
    assert_eq!(fs::read(scene.at("notes")).unwrap(), b"mine");
    for _ in 0..2 {
        let ran = run(&mut check(&scene, &["--openmetrics=true.prom"], &["sh", "-c", "exit 3"]));
        assert_eq!(ran.code(), 3, "{}", ran.err());
    }
    assert!(fs::read_to_string(scene.at("true.prom")).unwrap().ends_with("\n# EOF\n"));
    let mut names: Vec<_> = fs::read_dir(scene.directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    assert_eq!(names, ["notes", "true.prom"]);
}
