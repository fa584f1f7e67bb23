//! The screen, as it is drawn at three widths. `BECALM_BLESS=1` draws them anew.

use std::path::Path;

use cost::{FilesystemProfile, PredictedWait};
use cure::{CurePrediction, PredictedStart};
use explain::ExplainOptions;
use recording::{ExitStatus, Header, Recording};
use testkit::made::{Made, ask, header};

use super::*;

/// A program whose 40 libraries are searched in 60 directories, and which looks at 20 files itself.
fn slow() -> Recording {
    let argv = vec!["./app".into(), "--version".into()];
    let mut made = Made::with(&Header { argv, ..header() });
    let process = made.command("/opt/app/bin/app");
    for library in 0..40 {
        for directory in 0..=library {
            let path = format!("/opt/store/package-{directory:02}/lib/liba{library}.so");
            let open = ask("openat", &path).loading();
            made.call(process, if directory < library { open.missing() } else { open });
        }
    }
    for file in 0..60 {
        made.call(process, ask("stat", &format!("/opt/app/share/{file}")));
    }
    made.end(process, ExitStatus::Exited(0));
    made.recording()
}

/// A program that looks at 20 files.
fn calm() -> Recording {
    let mut made = Made::new();
    let process = made.command("/opt/app/bin/app");
    for file in 0..20 {
        made.call(process, ask("stat", &format!("/opt/app/share/{file}")));
    }
    made.end(process, ExitStatus::Exited(0));
    made.recording()
}

fn answer(recording: &Recording) -> CheckAnswer {
    let lustre = FilesystemProfile::find("lustre".as_ref()).unwrap();
    let options = ExplainOptions {
        other_models: vec![cost::CostModel { profile: lustre, ..cost::CostModel::default() }],
        recording: "last".to_owned(),
        ..ExplainOptions::default()
    };
    let findings = explain::explain(recording, &options);
    CheckAnswer::of(recording, None, findings, CurePlan::default())
}

#[track_caller]
fn assert_drawn(name: &str, answer: &CheckAnswer) {
    let screens = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verb/check/view/screens");
    for columns in [60, 80, 120] {
        let drawn = anstream::adapter::strip_str(&answer.render(columns)).to_string();
        assert!(drawn.lines().count() <= 24, "{drawn}");
        for line in drawn.lines().filter(|line| !line.contains("becalm ")) {
            assert!(width::of(line) <= columns, "{columns}: {line}");
        }
        let file = screens.join(format!("{name}-{columns}.txt"));
        if std::env::var_os("BECALM_BLESS").is_some() {
            std::fs::write(&file, &drawn).unwrap();
        }
        assert_eq!(drawn, std::fs::read_to_string(&file).unwrap_or_default(), "{file:?}");
    }
}

#[test]
fn a_slow_start_is_one_screen_with_the_verdict_first_and_one_command_to_type() {
    let mut slow = answer(&slow());
    let start = |metadata_ops, one_rank| PredictedStart {
        metadata_ops,
        enoent: 0,
        wait: Some(PredictedWait { one_rank, ..PredictedWait::default() }),
    };
    slow.predicted = Some(CurePrediction { before: start(880, 0.4), after: start(120, 0.06) });
    assert_drawn("slow", &slow);
}

#[test]
fn a_calm_start_is_told_in_a_line_or_two() {
    let calm = answer(&calm());
    assert_drawn("calm", &calm);
    assert!(calm.render(80).lines().count() <= 2);
}

#[test]
fn what_is_left_out_is_told_above_the_storms() {
    let mut slow = answer(&slow());
    let text = "312 of 900 metadata operations are in no predicted wait".to_owned();
    slow.findings.warnings.push(explain::RunWarning { kind: explain::WarningKind::LeftOut, text });
    let drawn = anstream::adapter::strip_str(&slow.render(80)).to_string();
    assert!(drawn.lines().nth(1).unwrap().starts_with("! 312 of 900 "), "{drawn}");
}
