//! Exports, read back by the programs that people read them with: Python's json and csv, jq.

use std::io::Write;
use std::process::{Command, Stdio};

use recording::export::{self, ExportFormat, ExportOptions, Weight};
use recording::{ExitStatus, Recording};
use testkit::made::{Made, ask, bare, every_kind};

fn exported(recording: &Recording, format: ExportFormat) -> String {
    exported_with(recording, format, Weight::Count)
}

fn exported_with(recording: &Recording, format: ExportFormat, weight: Weight) -> String {
    let mut text = Vec::new();
    export::write(recording, format, &mut text, &ExportOptions { weight }).unwrap();
    String::from_utf8(text).expect("exports are UTF-8")
}

/// What a program prints for this input.
fn piped(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} must be installed: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feed = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}");
    feed.join().unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn python(script: &str, input: &str) -> String {
    piped("python3", &["-c", script], input)
}

/// A shell that starts two programs, one of them by a fork of a fork, with paths of all kinds.
pub fn demo() -> Made {
    let mut made = Made::new();
    let bash = made.start(None);
    made.exec(bash, "/home/me/go", "/usr/bin/bash", &["/bin/bash", "./go"]);
    made.call(bash, ask("openat", "/home/me/go").flags(0o2000000).fd(3).returned(3).took(1500));
    made.call(bash, ask("newfstatat", "/home/me/a, \"b\"\r\nc").missing().took(2499));
    made.call(bash, ask("newfstatat", b"/home/me/\xff;\xc3\xa9").missing().took(501));
    let child = made.start(Some(bash));
    let grandchild = made.start(Some(child));
    made.exec(grandchild, "/usr/bin/dirname", "/usr/bin/dirname", &["dirname", "x"]);
    made.call(grandchild, ask("openat", "/usr/lib/libc.so.6").loading().returned(3));
    made.call(grandchild, ask("openat", "/usr/lib/libc.so.6").loading().returned(3));
    made.call(grandchild, bare("wait4").failed(512));
    made.end(grandchild, ExitStatus::Signaled(15));
    made.end(child, ExitStatus::Exited(1));
    made.end(bash, ExitStatus::Exited(0));
    made
}

/// Every kind of record, with the largest and smallest numbers.
pub fn every_record() -> Recording {
    Recording::read(&every_kind::file().0[..]).unwrap()
}

#[test]
fn every_line_of_jsonl_is_an_object_and_the_first_names_the_schema() {
    let script = "
import sys, json
lines = [json.loads(line) for line in sys.stdin]
assert all(type(line) is dict for line in lines)
print(lines[0]['schema'], lines[0]['type'], lines[0]['header']['host'], lines[0]['cut'])
print(sorted((kind, sum(line['type'] == kind for line in lines)) for kind in {line['type'] for line in lines}))
times = [line['at_ns'] for line in lines if 'at_ns' in line]
assert times == sorted(times)
";
    let text = exported(&every_record(), ExportFormat::Jsonl);
    let expected = "becalm.export/1 header node1 None\n[('blind', 11), ('call', 5), ('end', 4), \
                    ('exec', 2), ('header', 1), ('image', 1), ('origin', 1), \
                    ('signal', 1), ('start', 4), ('touch', 2)]\n";
    assert_eq!(python(script, &text), expected);
}

#[test]
fn jsonl_loses_nothing() {
    let recording = every_record();
    let script = r"
import sys, json
def path(line, name):
    hex = line.get(name + '_hex')
    return bytes.fromhex(hex) if hex else None if line.get(name) is None else line[name].encode()
for line in map(json.loads, sys.stdin):
    if line['type'] == 'call':
        print([line['at_ns'], line['took_ns'], line['process'], line['thread'], line['number'],
               line['result'], line['errno'], line['fd'], line['flags'], line['in_loader'],
               line['phase'], line['by_descriptor'],
               path(line, 'path'), path(line, 'other_path'), path(line, 'site')])
";
    let printed = python(script, &exported(&recording, ExportFormat::Jsonl));
    let mut events = recording.events.clone();
    events.sort_by_key(|event| event.start);
    let expected: String = events.iter().map(|event| in_python(&recording, event)).collect();
    assert_eq!(printed, expected);
}

/// A call as Python prints the list of its fields.
fn in_python(recording: &Recording, event: &recording::Event) -> String {
    let option = |value: Option<String>| value.unwrap_or("None".into());
    let truth = |value: bool| if value { "True" } else { "False" };
    let bytes = |id: Option<recording::PathId>| {
        option(id.map(|id| {
            let path = recording.path(id).escape_ascii().to_string();
            // Python quotes with ' and escapes it; a path here has " but no '.
            format!("b'{}'", path.replace("\\\"", "\""))
        }))
    };
    let (result, errno) = match event.outcome {
        recording::Outcome::Returned(value) => (Some(value.to_string()), None),
        recording::Outcome::Failed(number) => (None, Some(number.to_string())),
    };
    format!(
        "[{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, '{}', {}, {}, {}, {}]\n",
        event.start.0,
        event.took.0,
        event.process.0,
        event.thread,
        event.call.number(),
        option(result),
        option(errno),
        option(event.fd.map(|fd| fd.to_string())),
        event.flags,
        truth(event.in_loader),
        format!("{:?}", event.phase).to_lowercase(),
        truth(event.by_descriptor),
        bytes(event.path),
        bytes(event.other_path),
        bytes(event.site),
    )
}

#[test]
fn jq_answers_questions_of_jsonl() {
    let text = exported(&demo().recording(), ExportFormat::Jsonl);
    let query = r#"select(.type == "call" and .error == "ENOENT") | [.call, .cause, .inferred]"#;
    let answer = piped("jq", &["-c", query], &text);
    assert_eq!(answer, "[\"newfstatat\",\"shell\",false]\n".repeat(2));
    let query = r#"select(.type == "end") | [.pid, .status, .max_rss_bytes]"#;
    let answer = piped("jq", &["-c", query], &text);
    let expected = r#"[1002,{"signaled":15},4194304]
[1001,{"exited":1},4194304]
[1000,{"exited":0},4194304]
"#;
    assert_eq!(answer, expected);
}

#[test]
fn csv_has_a_row_a_call_and_a_field_a_column_whatever_the_path() {
    let recording = demo().recording();
    let text = exported(&recording, ExportFormat::Csv);
    let header = "at_ns,took_ns,process,pid,thread,program,call,abi,metadata_op,result,error,path,\
                  other_path,fd,flags,site,in_loader,phase,by_descriptor,cause,inferred\n";
    assert!(text.starts_with(header), "{text}");
    let script = r"
import sys, csv
rows = list(csv.DictReader(sys.stdin.read().splitlines(keepends=True), strict=True))
assert all(None not in row and None not in row.values() for row in rows)
for row in rows:
    print([row['program'], row['call'], row['result'], row['error'], row['path'], row['cause']])
";
    let expected = r#"['bash go', 'openat', '3', '', '/home/me/go', 'shell']
['bash go', 'newfstatat', '', 'ENOENT', '/home/me/a, "b"\r\nc', 'shell']
['bash go', 'newfstatat', '', 'ENOENT', '/home/me/\\xff;é', 'shell']
['dirname', 'openat', '3', '', '/usr/lib/libc.so.6', 'loader (start)']
['dirname', 'openat', '3', '', '/usr/lib/libc.so.6', 'loader (start)']
['dirname', 'wait4', '', 'ERESTARTSYS', '', 'program']
"#;
    // Universal newlines would change the path's.
    let script = script.replace("sys.stdin.read()", "open(0, newline='').read()");
    assert_eq!(python(&script, &text), expected);
    let rows = exported(&every_record(), ExportFormat::Csv);
    let count = "import csv; print(len(list(csv.reader(open(0, newline=''), strict=True))))";
    assert_eq!(python(count, &rows), "6\n");
}

#[test]
fn chrome_traces_are_json_whose_events_nest_on_every_thread() {
    let recording = demo().recording();
    let script = r"
import sys, json
trace = json.load(sys.stdin)
events = trace['traceEvents']
for event in events:
    assert {'name', 'ph', 'pid', 'tid', 'ts', 'args'} <= event.keys(), event
    assert event['ph'] in 'XMi'
complete = [event for event in events if event['ph'] == 'X']
for tid in {event['tid'] for event in complete}:
    ends = 0
    for event in sorted((e for e in complete if e['tid'] == tid), key=lambda e: e['ts']):
        assert event['ts'] >= ends
        ends = event['ts'] + event['dur']
print(trace['displayTimeUnit'], trace['otherData']['host'])
print([(e['pid'], e['args']['name']) for e in events if e['ph'] == 'M'])
print([e['name'] for e in events if e['ph'] == 'i'])
print([(e['name'], e['cat'], e['ts'], e['dur'], e['args'].get('error')) for e in complete][:2])
print(len(complete))
";
    let expected = "ns node1
[(1000, 'bash go'), (1001, 'bash go'), (1002, 'dirname')]
['exec bash go', 'exec dirname']
[('openat', 'shell', 60.0, 1.5, None), ('newfstatat', 'shell', 80.0, 2.499, 'ENOENT')]
6
";
    assert_eq!(python(script, &exported(&recording, ExportFormat::Chrome)), expected);
    python(
        "import sys, json; json.load(sys.stdin)",
        &exported(&every_record(), ExportFormat::Chrome),
    );
}

#[test]
fn folded_stacks_go_from_the_command_to_the_file_and_add_up() {
    let recording = demo().recording();
    let expected = r#"bash go;shell;/home/me;a, "b"\x0d\x0ac 1
bash go;shell;/home/me;go 1
bash go;shell;/home/me;\xff\x3bé 1
bash go;bash go;dirname;loader (start);/usr/lib;libc.so.6 2
bash go;bash go;dirname;program 1
"#;
    assert_eq!(exported(&recording, ExportFormat::Folded), expected);
    let micros = exported_with(&recording, ExportFormat::Folded, Weight::Time);
    let numbers: Vec<u64> =
        micros.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
    assert_eq!(numbers, [2, 2, 1, 20, 10], "rounded to whole microseconds");
}

#[test]
fn straces_text_has_calls_signals_and_ends_in_the_order_of_time() {
    let mut made = demo();
    let at = recording::Nanos(made.now + 1);
    let (process, thread) = (recording::ProcessId(0), 1000);
    made.writer.record(&recording::Record::Signal { process, thread, signal: 17, at });
    let text = exported(&made.recording(), ExportFormat::Strace);
    let expected = r#"1000  1700000000.123516 openat(3, "/home/me/go", O_RDONLY|O_CLOEXEC) = 3 <0.000001>
1000  1700000000.123536 newfstatat(AT_FDCWD, "/home/me/a, \"b\"\r\nc", ..., 0) = -1 ENOENT (No such file or directory) <0.000002>
1000  1700000000.123556 newfstatat(AT_FDCWD, "/home/me/\377;\303\251", ..., 0) = -1 ENOENT (No such file or directory) <0.000000>
1002  1700000000.123636 openat(AT_FDCWD, "/usr/lib/libc.so.6", O_RDONLY) = 3 <0.000010>
1002  1700000000.123656 openat(AT_FDCWD, "/usr/lib/libc.so.6", O_RDONLY) = 3 <0.000010>
1002  1700000000.123676 wait4(...)      = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.000010>
1002  1700000000.123696 +++ killed by SIGTERM +++
1001  1700000000.123716 +++ exited with 1 +++
1000  1700000000.123736 +++ exited with 0 +++
1000  1700000000.123736 --- SIGCHLD {si_signo=SIGCHLD, ...} ---
"#;
    assert_eq!(text, expected);
}

#[test]
fn an_execve_has_the_arguments_that_the_new_program_found() {
    let mut made = Made::new();
    let bash = made.start(None);
    made.call(bash, ask("execve", "/bin/nothing").missing());
    made.call(bash, ask("execve", "/bin/demo"));
    made.exec(bash, "/bin/demo", "/bin/demo", &["demo", "a \"b\"\n"]);
    made.call(bash, ask("fstat", "/x").fd(3));
    made.call(bash, ask("newfstatat", "/x").fd(3).by_descriptor().flags(0x1000));
    let address = bare("mmap").fd(-1).flags(5).returned(0x7f00_0000_1000);
    made.call(bash, address);
    let text = exported(&made.recording(), ExportFormat::Strace);
    let calls: Vec<_> = text.lines().map(|line| &line[24..]).collect();
    let expected = [
        r#"execve("/bin/nothing", ..., ...) = -1 ENOENT (No such file or directory) <0.000010>"#,
        r#"execve("/bin/demo", ["demo", "a \"b\"\n"], ...) = 0 <0.000010>"#,
        r#"fstat(3, ...)   = 0 <0.000010>"#,
        r#"newfstatat(3, "", ..., AT_EMPTY_PATH) = 0 <0.000010>"#,
        r#"mmap(..., ..., PROT_READ|PROT_EXEC, ..., -1, ...) = 0x7f0000001000 <0.000010>"#,
    ];
    assert_eq!(calls, expected);
}

#[test]
fn a_script_that_was_recorded_is_executed_with_the_words_of_the_command() {
    let mut made = Made::new();
    let script = made.start(None);
    made.call(script, ask("execve", "/home/me/go"));
    made.exec(script, "/home/me/go", "/bin/bash", &["/bin/bash", "./go"]);
    made.call(script, ask("execve", "/home/me/other"));
    made.exec(script, "/home/me/other", "/bin/bash", &["/bin/bash", "./other"]);
    let recording = made.recording();
    let words: Vec<_> =
        recording.header.command().iter().map(|word| format!("\"{word}\"")).collect();
    let text = exported(&recording, ExportFormat::Strace);
    let calls: Vec<_> = text.lines().map(|line| &line[24..]).collect();
    assert!(
        calls[0].starts_with(&format!("execve(\"/home/me/go\", [{}], ...) = 0", words.join(", ")))
    );
    // What its own children gave is not known.
    assert!(
        calls[1].starts_with("execve(\"/home/me/other\", [\"/bin/bash\", \"./other\"], ...)"),
        "{text}"
    );
}

/// A pipe that is closed after so many bytes.
struct Closed(usize);

impl Write for Closed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_export_reports_its_sinks_error_as_it_is() {
    let recording = demo().recording();
    for format in ExportFormat::ALL {
        for room in [0, 100] {
            let result =
                export::write(&recording, format, &mut Closed(room), &ExportOptions::default());
            assert_eq!(
                result.unwrap_err().kind(),
                std::io::ErrorKind::BrokenPipe,
                "{format} after {room} bytes"
            );
        }
    }
}

#[test]
fn every_export_of_an_empty_run_is_well_formed() {
    let recording = Made::new().recording();
    assert_eq!(exported(&recording, ExportFormat::Strace), "");
    assert_eq!(exported(&recording, ExportFormat::Folded), "");
    assert_eq!(exported(&recording, ExportFormat::Csv).lines().count(), 1);
    assert_eq!(exported(&recording, ExportFormat::Jsonl).lines().count(), 1);
    piped("jq", &["-e", ".traceEvents == []"], &exported(&recording, ExportFormat::Chrome));
}
