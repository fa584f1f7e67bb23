//! Pictures (`--html FILE`) as a browser draws them: headless Chromium, which gives the document as
//! it is once the script of the page has run.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use recording::{Outcome, Recording};
use serde_json::Value;
use testkit::{Scene, run};

use crate::BECALM;
use crate::sample::*;

/// A page's document, drawn by a browser.
fn drawn(page: &Path) -> String {
    let document = document(page);
    assert!(document.contains("data-becalm=\"drawn\""), "{document}");
    document
}

/// A document as it is once its scripts have run.
fn document(page: &Path) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium-headless-shell")
        .args([
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=20000",
            "--dump-dom",
            "--allow-file-access-from-files",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .env("HOME", profile.path())
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What the element of this id says of itself.
fn told(document: &str, id: &str, attribute: &str) -> String {
    let (_, rest) =
        document.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}"));
    let tag = rest.split('>').next().unwrap();
    let (_, value) =
        tag.split_once(&format!(" data-{attribute}=\"")).unwrap_or_else(|| panic!("{id}: {tag}"));
    value.split('"').next().unwrap().to_owned()
}

fn told_number(document: &str, id: &str, attribute: &str) -> f64 {
    told(document, id, attribute).parse().unwrap()
}

fn picture(words: &[&str], page: &Path) {
    let output = Command::new(BECALM).args(words).arg("--html").arg(page).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
}

/// The data of a page, as its script reads it.
fn data(page: &Path) -> Value {
    let text = fs::read_to_string(page).unwrap();
    let (_, data) = text.split_once("id=\"data\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

/// A start of real programs, recorded.
fn recorded(directory: &Path, name: &str, command: &[&str]) -> PathBuf {
    let file = directory.join(name);
    let mut becalm = Command::new(BECALM);
    becalm.args(["record", "--until", "exit", "-o"]).arg(&file).arg("--").args(command);
    assert_eq!(becalm.output().unwrap().status.code(), Some(0));
    file
}

/// A bash that starts a Python: loader, shell, imports.
fn bash_and_python(directory: &Path, name: &str) -> PathBuf {
    let line = "ls / >/dev/null; python3 -c 'import json, email'";
    recorded(directory, name, &["bash", "-c", line])
}

fn total(file: &str, by: &str) -> (f64, f64) {
    let report = json(&becalm(["report", file, "--by", by, "--json"]));
    let number = |field: &str| report["total"][field].as_f64().unwrap();
    (number("metadata_ops"), number("enoent"))
}

#[test]
fn each_view_shows_the_numbers_of_the_recording() {
    let directory = tempfile::tempdir().unwrap();
    let file = bash_and_python(directory.path(), "start.becalm");
    let (name, page) = (file.to_str().unwrap(), directory.path().join("start.html"));
    picture(&["report", name], &page);
    let document = drawn(&page);
    let (ops, failed) = total(name, "cause");
    assert_eq!(told_number(&document, "timeline", "ops"), ops);
    assert_eq!(told_number(&document, "directories", "ops"), ops);
    assert_eq!(told_number(&document, "directories", "failed"), failed);
    assert!(told_number(&document, "directories", "tiles") >= 5.0);
    for (view, by) in [("libraries", "library"), ("modules", "module")] {
        let (ops, failed) = total(name, by);
        assert_eq!(told_number(&document, view, "ops"), ops, "{view}");
        assert_eq!(told_number(&document, view, "failed"), failed, "{view}");
    }
    let processes = Recording::open(&file).unwrap().processes.len();
    assert_eq!(told_number(&document, "timeline", "lanes"), processes as f64);
    assert!(document.contains("libc.so.6") && document.contains("email"));
}

#[test]
fn the_sliders_begin_at_what_becalm_predicts() {
    let directory = tempfile::tempdir().unwrap();
    let file = bash_and_python(directory.path(), "start.becalm");
    let (name, page) = (file.to_str().unwrap(), directory.path().join("start.html"));
    picture(&["report", name], &page);
    let document = drawn(&page);
    let scaled = json(&becalm(["scale", name, "--json"]));
    let scaled = scaled.pointer("/before/predicted_wait").or(scaled.pointer("/predicted_wait"));
    for (attribute, field) in [("one", "one_rank"), ("all", "all_ranks")] {
        let said = told_number(&document, "waits", attribute);
        let predicted = scaled.unwrap()[field].as_f64().unwrap();
        assert!(
            (said - predicted).abs() <= predicted * 0.01,
            "{attribute}: {said}, not {predicted}"
        );
    }
}

/// Uses a page of this width as somebody without a pointer does, and says what it then shows.
const WITHOUT_A_POINTER: &str = r#"<!doctype html><body><p id="told"></p>
<iframe id="frame" src="start.html" style="width: 360px; height: 800px"></iframe><script>
const told = document.getElementById('told').dataset, frame = document.getElementById('frame');
const pause = () => new Promise((done) => setTimeout(done, 300));
frame.onload = async () => {
    await pause();
    const page = frame.contentDocument, view = (id) => page.getElementById(id);
    const press = (key, from) => from.dispatchEvent(new frame.contentWindow.KeyboardEvent('keydown', { key, bubbles: true }));
    const lanes = () => view('timeline').querySelector('.lanes svg');
    told.overflow = page.documentElement.scrollWidth - 360;
    told.whole = view('timeline').dataset.to;
    lanes().focus();
    ['+', '+', 'ArrowRight'].forEach((key) => press(key, lanes()));
    told.from = view('timeline').dataset.from;
    told.to = view('timeline').dataset.to;
    press('ArrowDown', lanes());
    told.lane = view('timeline').querySelector('[aria-live]').textContent;
    told.was = view('directories').dataset.current;
    press('Enter', view('directories').querySelector('.map g'));
    told.into = view('directories').dataset.current;
    told.waited = view('waits').dataset.one;
    const slider = view('waits').querySelector('input[type=range]');
    slider.value = 1000;
    slider.dispatchEvent(new frame.contentWindow.Event('input'));
    await pause();
    told.waits = view('waits').dataset.one;
    told.done = 'yes';
};
</script></body>"#;

#[test]
fn a_phone_shows_all_of_it_and_keys_do_what_a_pointer_does() {
    let directory = tempfile::tempdir().unwrap();
    let file = bash_and_python(directory.path(), "start.becalm");
    picture(&["report", file.to_str().unwrap()], &directory.path().join("start.html"));
    let around = directory.path().join("around.html");
    fs::write(&around, WITHOUT_A_POINTER).unwrap();
    let document = document(&around);
    let number = |attribute: &str| told_number(&document, "told", attribute);
    assert_eq!(told(&document, "told", "done"), "yes", "{document}");
    assert!(number("overflow") <= 0.0, "{} pixels too wide", number("overflow"));
    assert!(number("from") > 0.0 && number("to") - number("from") < number("whole") / 3.0);
    assert!(told(&document, "told", "lane").contains("metadata operation"));
    assert_ne!(told(&document, "told", "was"), told(&document, "told", "into"));
    assert!(number("waits") > number("waited") * 5.0, "a latency of 20 ms");
}

#[test]
fn two_recordings_are_shown_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let before = bash_and_python(directory.path(), "before.becalm");
    let after = recorded(directory.path(), "after.becalm", &["ls", "/"]);
    let page = directory.path().join("both.html");
    let names = [&before, &after].map(|file| file.to_str().unwrap());
    picture(&["report", names[0], "--vs", names[1]], &page);
    let document = drawn(&page);
    let ops = names.map(|name| total(name, "cause").0 as u64);
    assert_eq!(told(&document, "comparison", "ops"), format!("{} {}", ops[0], ops[1]));
    assert!(document.contains(">before</button>") && document.contains(">after</button>"));
}

#[test]
fn nothing_but_a_page_is_written_over() {
    let scene = Scene::new();
    assert_eq!(run(&mut scene.record(&["true"])).code(), 0);
    let (rec, other) = (scene.rec(), scene.at("other.becalm"));
    fs::copy(&rec, &other).unwrap();
    let before = fs::read(&other).unwrap();
    for verb in ["report", "scale"] {
        let ran = becalm([verb, &rec, "--vs", &other, "--html", &other]);
        assert_eq!(ran.status.code(), Some(1), "{}", stderr(&ran));
        assert!(stderr(&ran).contains("is no HTML page"), "{}", stderr(&ran));
        assert_eq!(fs::read(&other).unwrap(), before);
    }
    let page = scene.at("page.html");
    for _ in 0..2 {
        assert!(becalm(["report", &rec, "--html", &page]).status.success(), "its own, again");
    }
}

#[test]
fn the_ranks_of_a_job_are_a_map() {
    let directory = tempfile::tempdir().unwrap();
    let mut mpirun = Command::new("mpirun");
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.args(["--oversubscribe", "--bind-to", "none", "-n", "3", BECALM, "record"]);
    mpirun.args(["-o", "all.becalm", "--", "ls", "/"]).current_dir(directory.path());
    assert!(mpirun.output().unwrap().status.success());
    let file = directory.path().join("all.becalm");
    let (name, page) = (file.to_str().unwrap(), directory.path().join("ranks.html"));
    picture(&["report", name], &page);
    let document = drawn(&page);
    let report = json(&becalm(["report", name, "--json"]));
    let ops = report["figures"]["metadata_ops"]["total"].as_f64().unwrap();
    assert_eq!(told_number(&document, "ranks", "ops"), ops);
    assert_eq!(told_number(&document, "ranks", "cells"), 3.0);
    assert_eq!(document.matches("<rect class=\"cell\"").count(), 3);
    picture(&["report", name, "--rank", "2"], &page);
    assert!(told_number(&drawn(&page), "timeline", "ops") > 0.0);
}

#[test]
fn check_writes_the_picture_of_what_it_answers_and_passes_the_status_on() {
    let scene = Scene::new();
    let page = PathBuf::from(scene.at("start.html"));
    let words =
        ["check", "--json=check.json", "--html", "start.html", "--", "sh", "-c", "ls /; exit 7"];
    let ran = Command::new(BECALM).current_dir(scene.directory()).args(words).output().unwrap();
    assert_eq!(ran.status.code(), Some(7), "{}", stderr(&ran));
    let answer = fs::read(scene.at("check.json")).unwrap();
    let answer = testkit::answer::parse(answer);
    let shown = data(&page);
    let start = &shown["starts"][0];
    assert_eq!(start["headline"], answer["headline"]);
    assert_eq!(start["predicted_wait"], answer["predicted_wait"]);
    assert!(drawn(&page).contains(answer["headline"].as_str().unwrap()));

    let words = ["check", "--html", "none/start.html", "--", "touch", "ran"];
    let ran = Command::new(BECALM).current_dir(scene.directory()).args(words).output().unwrap();
    assert_eq!(ran.status.code(), Some(125), "known before the command runs");
    assert!(stderr(&ran).contains("none/start.html"), "{}", stderr(&ran));
    assert!(!scene.path("ran").exists());
}

#[test]
fn a_picture_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let name = file.to_str().unwrap();
    for (target, said) in [
        ("/dev/full", "/dev/full: No space left"),
        ("/none/x.html", "/none/x.html"),
        (name, "is no HTML page"),
    ] {
        let failed = failure(&becalm(["report", name, "--html", target]));
        assert!(failed.contains(said), "{failed}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    let page = becalm(["report", name, "--html", "-"]);
    assert!(stdout(&page).starts_with("<!doctype html>") && stdout(&page).ends_with("</html>\n"));
}

/// Names that would be markup, script, an event or another line, were they not text; each would
/// leave a mark on the document.
const INJECTIONS: [&[u8]; 8] = [
    b"/a/</script><script>document.documentElement.dataset.marked=1</script>/x",
    b"/a/<!--<script>/x",
    b"/a/<img src=x onerror=document.documentElement.dataset.marked=2>/x",
    b"/a/\" onpointerover=\"document.documentElement.dataset.marked=3/x",
    b"/a/');document.documentElement.dataset.marked=4;('/x",
    b"/a/\xe2\x80\xa8document.documentElement.dataset.marked=5\xe2\x80\xa9/x",
    b"/a/\xff\xfe\x1b[2J\x00\r\n</style><svg onload=document.documentElement.dataset.marked=6>/x",
    b"/a/\xe2\x80\xaelmth.evil/__proto__/constructor/x",
];

#[test]
fn a_hostile_recording_injects_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hostile.becalm");
    let word = "</script><script>document.documentElement.dataset.marked=9</script>";
    let mut sample = Sample::new(&file, "/bin/</title><b>x", &["prog", word]);
    for path in INJECTIONS {
        for _ in 0..20 {
            sample.call("openat", path, MISSING).loader("openat", path, Outcome::Returned(3));
        }
    }
    sample.end();
    let page = directory.path().join("hostile.html");
    picture(&["report", file.to_str().unwrap()], &page);
    let document = drawn(&page);
    assert!(!document.contains("data-marked"), "{document}");
    let (_, body) = document.split_once("<main").unwrap();
    let (body, _) = body.split_once("</main>").unwrap();
    for made in ["<img", "<script", "<svg onload", "<b>x", "\u{202e}"] {
        assert!(!body.contains(made), "{made}: {body}");
    }
    assert!(body.contains("dataset.marked=2"), "it is shown as text");
    assert_eq!(told_number(&document, "directories", "ops"), 320.0);
}

#[test]
fn what_got_into_a_page_all_the_same_could_neither_run_nor_ask_the_network() {
    let directory = tempfile::tempdir().unwrap();
    let file = emacs_recording(directory.path());
    let page = directory.path().join("page.html");
    picture(&["report", file.to_str().unwrap()], &page);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let mark = "document.documentElement.dataset.marked=1";
    let got_in = format!(
        "<script>{mark}</script><img src=\"http://{at}/\" onerror=\"{mark}\"><iframe src=\"http://{at}/\"></iframe>\
         <link rel=stylesheet href=\"http://{at}/\"><script src=\"http://{at}/\"></script></body>"
    );
    let text = fs::read_to_string(&page).unwrap().replace("</body>", &got_in);
    fs::write(&page, text).unwrap();
    assert!(!drawn(&page).contains("data-marked"));
    server.set_nonblocking(true).unwrap();
    let mut asked = String::new();
    if let Ok((mut from, _)) = server.accept() {
        let _ = from.read_to_string(&mut asked);
        panic!("the network was asked: {asked}");
    }
}

/// A recording of so many calls, many processes and directories.
fn storm(file: &Path, calls: u64) {
    let sink = Box::new(fs::File::create(file).unwrap());
    let mut writer = recording::Writer::new(sink, &testkit::made::header()).unwrap();
    let ended = testkit::made::storm::record(&mut writer, calls);
    writer.finish(ended).unwrap();
}

#[test]
fn a_picture_of_100_000_calls_is_less_than_2_mb_and_shows_them_all() {
    let directory = tempfile::tempdir().unwrap();
    let (file, page) = (directory.path().join("storm.becalm"), directory.path().join("storm.html"));
    storm(&file, 100_000);
    let name = file.to_str().unwrap();
    picture(&["report", name, "--vs", name], &page);
    let size = fs::metadata(&page).unwrap().len();
    assert!(size < 2_000_000, "{size} bytes, of two");
    let document = drawn(&page);
    let (ops, failed) = total(name, "cause");
    assert_eq!(told_number(&document, "timeline", "ops"), ops);
    assert_eq!(told_number(&document, "directories", "failed"), failed);
}
