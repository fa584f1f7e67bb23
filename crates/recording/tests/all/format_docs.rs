//! docs/recording-format.md is enough to write a reader: one written from it alone reads what
//! becalm reads, and the file that it shows is a recording of what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use recording::export::{self, ExportFormat, ExportOptions};
use recording::{Blind, ExitStatus, Header, ProcessId, Record, Recording};
use testkit::made::{Made, ask, every_kind, storm};

const DOCUMENT: &str = include_str!("../../../../docs/recording-format.md");

/// What the reader written from the document prints of a file: one JSON object a record.
fn foreign(file: &Path) -> Vec<serde_json::Value> {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign_reader/reader.py");
    let output = Command::new("python3").arg(reader).arg(file).output().expect("python3 runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The same records from becalm's JSON lines: paths in hexadecimal, derived fields left out.
fn own(recording: &Recording) -> Vec<serde_json::Value> {
    let mut text = Vec::new();
    export::write(recording, ExportFormat::Jsonl, &mut text, &ExportOptions::default()).unwrap();
    let lines = String::from_utf8(text).unwrap();
    lines.lines().map(|line| as_foreign(serde_json::from_str(line).unwrap())).collect()
}

fn as_foreign(mut line: serde_json::Value) -> serde_json::Value {
    let object = line.as_object_mut().unwrap();
    for name in ["path", "other_path", "site", "image", "cwd", "loader"] {
        let hex = object.remove(&format!("{name}_hex"));
        if let Some(serde_json::Value::String(text)) = object.get_mut(name) {
            let bytes = text.bytes().map(|byte| format!("{byte:02x}"));
            *text = hex.map_or(bytes.collect(), |hex| hex.as_str().unwrap().to_owned());
        }
    }
    if let Some(image) = object.get("image").and_then(|image| image.as_object()).cloned() {
        object.remove("image");
        object.extend(image);
    }
    if let Some(frames) = object.get_mut("frames").and_then(|frames| frames.as_array_mut()) {
        for frame in frames {
            if let Some(serde_json::Value::String(text)) = frame.get_mut("file") {
                *text = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            }
        }
    }
    let derived: &[&str] = match object["type"].as_str().unwrap() {
        "call" => &["pid", "call", "kind", "metadata_op", "error", "cause", "inferred", "range"],
        "start" => &["threads"],
        "exec" => &["pid", "exact_argv"],
        _ => &["pid"],
    };
    derived.iter().for_each(|name| drop(object.remove(*name)));
    line
}

/// Records by kind, each kind sorted as text: the order of the file is not that of time.
fn by_kind(lines: Vec<serde_json::Value>) -> BTreeMap<String, Vec<String>> {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for mut line in lines {
        line.sort_all_objects();
        let kind = line["type"].as_str().unwrap().to_owned();
        kinds.entry(kind).or_default().push(line.to_string());
    }
    // Not in JSON lines: mounts; threads are counted there; the header and how it ended are a line;
    // a range is a field of its call, words are one of their exec.
    for kind in ["thread", "file", "header", "blind", "mounts", "range", "words"] {
        kinds.remove(kind);
    }
    kinds.values_mut().for_each(|lines| lines.sort());
    kinds
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("recording.becalm");
    std::fs::write(&file, bytes).unwrap();
    (directory, file)
}

#[test]
fn a_reader_written_from_the_document_reads_every_kind_of_record() {
    let bytes = every_kind::file().0;
    let (_directory, path) = file(&bytes);
    let read = foreign(&path);
    let recording = Recording::read(&bytes[..]).unwrap();
    assert_eq!(by_kind(read.clone()), by_kind(own(&recording)));
    let of = |kind: &'static str| read.iter().filter(move |line| line["type"] == kind).cloned();
    let threads: Vec<_> = of("thread").collect();
    assert_eq!(
        threads,
        [serde_json::json!({"type": "thread", "process": 1, "thread": 4800, "at_ns": 50})]
    );
    let mounts: Vec<_> = of("mounts").collect();
    let mount =
        serde_json::json!({"point": "/opt/env", "fs": "fuse.becalm-image", "source": "becalm-é"});
    let change = serde_json::json!({
        "type": "mounts", "process": 1, "at_ns": 70, "namespace": 4026531841u64, "mounts": [mount]
    });
    assert_eq!(mounts, [change]);
    let ranges: Vec<_> = of("range").collect();
    let range = serde_json::json!({"type": "range", "offset": u64::MAX, "bytes": 4096});
    assert_eq!(ranges, [range]);
    let words: Vec<_> = of("words").collect();
    let expected = ["demo", r"\xff\x0a", r"\x5cx09\é"];
    assert_eq!(words, [serde_json::json!({"type": "words", "process": 2, "words": expected})]);
    let mut exported = Vec::new();
    export::write(&recording, ExportFormat::Jsonl, &mut exported, &ExportOptions::default())
        .unwrap();
    let said = r#""range":{"offset":18446744073709551615,"bytes":4096}"#;
    let exported = String::from_utf8(exported).unwrap();
    assert!(exported.contains(said));
    let said = format!("\"exact_argv\":{}", serde_json::to_string(&expected).unwrap());
    assert!(exported.contains(&said), "{exported}");
    let blinds: Vec<_> =
        of("blind").map(|line| line["blind"].as_str().unwrap().to_owned()).collect();
    let names = "io_uring setuid tracer_refused own_filter outer_filter unreadable other_root lost \
        request_failed faults_unseen faults_lost";
    assert_eq!(blinds.join(" "), names);
    let end = read.last().unwrap();
    assert_eq!(end["whole"], true);
    let header: Header = serde_json::from_value(end["header"].clone()).unwrap();
    assert_eq!(header, recording.header);
}

#[test]
fn a_reader_written_from_the_document_reads_a_big_recording_whole_and_cut() {
    let made = Made::new();
    let mut writer = made.writer;
    let ended = storm::record(&mut writer, 20_000);
    writer.finish(ended).unwrap();
    let bytes = made.bytes.take();
    for cut in [bytes.len(), bytes.len() - 1, bytes.len() / 2] {
        let (_directory, path) = file(&bytes[..cut]);
        let read = foreign(&path);
        let recording = Recording::read(&bytes[..cut]).unwrap();
        assert_eq!(read.last().unwrap()["whole"], recording.summary.is_some());
        assert_eq!(by_kind(read), by_kind(own(&recording)), "cut at {cut}");
    }
}

/// The number that the document gives each kind. A new kind does not compile here: it needs a
/// line in the document, in the reader written from it, and in the sample of every kind.
fn record_number(record: &Record) -> u8 {
    match record {
        Record::Path(_) => 0,
        Record::Call(_) => 1,
        Record::Start { .. } => 2,
        Record::Thread { .. } => 3,
        Record::Exec { .. } => 4,
        Record::End { .. } => 5,
        Record::Image { .. } => 6,
        Record::Blind(_) => 7,
        Record::Signal { .. } => 8,
        Record::Origin { .. } => 9,
        Record::Mounts(_) => 10,
        Record::Touch(_) => 11,
        Record::Range(_) => 12,
        Record::Words { .. } => 13,
    }
}

fn blind_number(blind: &Blind) -> u8 {
    match blind {
        Blind::IoUring { .. } => 0,
        Blind::Setuid { .. } => 1,
        Blind::TracerRefused { .. } => 2,
        Blind::OwnFilter { .. } => 3,
        Blind::OuterFilter => 4,
        Blind::Unreadable { .. } => 5,
        Blind::OtherRoot { .. } => 6,
        Blind::Lost { .. } => 7,
        Blind::RequestFailed { .. } => 8,
        Blind::FaultsUnseen { .. } => 9,
        Blind::FaultsLost { .. } => 10,
    }
}

#[test]
fn kinds_have_the_documented_numbers_and_the_sample_has_every_kind() {
    let records = every_kind::file().1;
    let numbers: BTreeSet<u8> = records.iter().map(record_number).collect();
    assert_eq!(numbers, (1..=13).collect(), "a path is given by the writer itself");
    for record in &records {
        assert_eq!(postcard::to_allocvec(record).unwrap()[0], record_number(record));
    }
    let numbers: BTreeSet<u8> = every_kind::blinds().iter().map(blind_number).collect();
    assert_eq!(numbers, (0..=10).collect());
    for blind in every_kind::blinds() {
        assert_eq!(postcard::to_allocvec(&blind).unwrap()[0], blind_number(&blind));
    }
}

/// What the document says was recorded for its example.
fn example() -> Made {
    let header = Header {
        becalm: "0.1.0".into(),
        host: "node1".into(),
        machine: "x86_64".into(),
        argv: vec!["true".into()],
        ..Header::default()
    };
    let mut made = Made::with(&header);
    let process = made.start(None);
    made.exec(process, "/bin/true", "/bin/true", &["true"]);
    made.call(process, ask("openat", "/lib/libc.so.6").missing().flags(0o2000000).loading());
    made.call(process, ask("openat", "/usr/lib/libc.so.6").returned(3).flags(0o2000000).loading());
    made.end(process, ExitStatus::Exited(0));
    made
}

/// The bytes of the document's hexadecimal dump, in the manner of `xxd`.
fn dumped() -> Vec<u8> {
    let dump = DOCUMENT.split("```text\n00000000: ").nth(1).expect("a dump");
    let dump = format!("00000000: {}", dump.split("```").next().unwrap());
    let bytes = |line: &str| {
        let words = line.split_once(": ").unwrap().1.split("  ").next().unwrap().to_owned();
        let digits: String = words.split_whitespace().collect();
        let pairs = (0..digits.len()).step_by(2);
        pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect::<Vec<_>>()
    };
    dump.lines().flat_map(bytes).collect()
}

#[test]
fn the_documents_example_is_a_recording_of_what_it_says() {
    let shown = Recording::read(&dumped()[..]).unwrap();
    let made = example().recording();
    assert_eq!(own(&shown), own(&made));
    assert_eq!(shown.summary, made.summary);
    assert!(shown.is_whole());
    assert_eq!(shown.process(ProcessId(0)).pid, 1000);
}
