//! What a recorded start takes with many ranks: limits, and growth that others have published.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Duration;

use cost::{
    ComputeSource, CostModel, FilesystemProfile, JobSize, Projection, ProjectionError,
    RecordedStart, ServerDisk, SharedChoice, csv,
};
use recording::{ExitStatus, Mount, Nanos, ProcessId, Recording};
use testkit::made::{Made, ask, bare, header};

/// A profile whose nodes keep everything but what is said otherwise.
fn profile(round_trip: &str, service: &str, cache: &str) -> FilesystemProfile {
    let defaults = [
        ("entries", "'forever'"),
        ("negatives", "'forever'"),
        ("open", "'cached'"),
        ("list", "'cached'"),
    ];
    let mut text = format!(
        "name = 'test'\n[mds]\nround_trip = '{round_trip}'\nservice = '{service}'\n[cache]\n"
    );
    for (name, value) in defaults.into_iter().filter(|(name, _)| !cache.contains(name)) {
        text.push_str(&format!("{name} = {value}\n"));
    }
    FilesystemProfile::parse(&(text + cache), "test").unwrap()
}

/// A program that finds so many files in a shared directory, opens so many there, and so often asks
/// for another name that is not there.
fn searching(found: usize, opened: usize, missing: usize) -> Recording {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    for number in 0..found {
        made.call(process, ask("stat", &format!("/opt/s/found{number}")));
    }
    for number in 0..opened {
        made.call(process, ask("openat", &format!("/opt/s/opened{number}")).fd(3));
    }
    for number in 0..missing {
        made.call(process, ask("openat", &format!("/opt/s/no{number}")).missing());
    }
    ended(made, process)
}

fn ended(mut made: Made, process: ProcessId) -> Recording {
    made.end(process, ExitStatus::Exited(0));
    Recording::read(&made.finish()[..]).unwrap()
}

/// What it costs if it computes nothing.
fn projected(recording: &Recording, profile: &FilesystemProfile, job: JobSize) -> Projection {
    let start = RecordedStart::of(recording, &[PathBuf::from("/opt/s")], Some(Nanos(0)));
    project(&start, profile, job, false)
}

fn project(
    start: &RecordedStart,
    profile: &FilesystemProfile,
    job: JobSize,
    warm: bool,
) -> Projection {
    CostModel { profile: profile.clone(), job, warm }.project(start)
}

fn job(ranks: u64, nodes: u64) -> JobSize {
    JobSize::on_nodes(ranks, nodes)
}

#[track_caller]
fn close(model: f64, published: f64, part: f64) {
    let error = model / published - 1.0;
    println!("model {model:.3}, published {published}: {:+.1} %", error * 100.0);
    assert!(error.abs() <= part, "{model} and {published}");
}

#[test]
fn one_rank_takes_its_computing_and_its_operations() {
    let recording = searching(100, 50, 30);
    let start = RecordedStart::of(&recording, &["/opt/s".into()], Some(Nanos(500_000_000)));
    let profile = profile("900us", "100us", "open = 'revalidated'");
    let one = project(&start, &profile, job(1, 1), false);
    // 180 names and 50 opens.
    assert_eq!(one.rpcs.total, 230);
    close(one.job.seconds, 0.5 + 0.230, 1e-6);
    assert_eq!(one.job.queued_seconds, 0.0);
    assert_eq!(one.compute, ComputeSource::Given);
}

#[test]
fn where_the_server_takes_no_time_any_number_of_ranks_takes_as_long_as_one() {
    let recording = searching(100, 50, 30);
    let all =
        projected(&recording, &profile("1ms", "0", "open = 'revalidated'"), job(100_000, 1_000));
    close(all.job.seconds, 0.230, 1e-6);
    assert_eq!(all.saturation, None);
}

#[test]
fn where_the_network_takes_no_time_ranks_take_the_servers_work() {
    let recording = searching(0, 0, 1_000);
    let all = projected(&recording, &profile("0", "100us", "negatives = '0'"), job(64, 64));
    close(all.job.seconds, 6.4, 1e-3);
    close(all.job.server_seconds, 6.4, 1e-6);
    assert_eq!(all.saturation.unwrap().ranks, 1.0);
}

#[test]
fn a_hundred_thousand_ranks_of_a_hundred_thousand_calls_are_projected_in_seconds() {
    let recording = searching(20_000, 30_000, 50_000);
    let start = RecordedStart::of(&recording, &["/opt/s".into()], None);
    let profile = FilesystemProfile::find("lustre".as_ref()).unwrap();
    let begun = processor_time();
    let all = project(&start, &profile, job(100_000, 1_000), false);
    let took = processor_time() - begun;
    println!("{took:?} for {} points", all.points.len() + 3);
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(all.job.rpcs, 1_000 * 50_000 + 100_000 * (50_000 + 30_000));
}

#[test]
fn the_more_ranks_the_longer_and_the_points_are_on_one_curve() {
    let recording = searching(200, 100, 300);
    for name in ["nfs", "lustre", "gpfs", "local"] {
        let all =
            projected(&recording, &FilesystemProfile::find(name.as_ref()).unwrap(), job(777, 13));
        let rows = all.rows();
        assert_eq!(rows.len(), 17);
        for pair in rows.windows(2) {
            assert!(pair[0].ranks < pair[1].ranks);
            assert!(pair[1].seconds >= pair[0].seconds * 0.999, "{name} {pair:?}");
            assert!(pair[1].rpcs >= pair[0].rpcs);
        }
    }
}

#[test]
fn at_the_knee_the_server_works_as_long_as_one_rank_takes() {
    let recording = searching(500, 500, 0);
    for nodes in [1, 100] {
        let profile = profile("480us", "20us", "open = 'revalidated'");
        let all = projected(&recording, &profile, job(6_400, nodes));
        let knee = all.saturation.unwrap();
        let there = projected(
            &recording,
            &profile,
            JobSize { ranks: knee.ranks as u64, ..job(6_400, nodes) },
        );
        close(there.job.server_seconds, 1_500.0 * 500e-6, 0.05);
    }
}

#[test]
fn a_start_that_outlasts_the_nodes_memory_asks_again() {
    // The same thousand names, twice; the whole takes longer than they are trusted.
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    for number in (0..1_000).chain(0..1_000) {
        made.call(process, ask("stat", &format!("/opt/s/found{number}")));
    }
    let recording = ended(made, process);
    let profile = profile("1ms", "100us", "entries = '30s'");
    let short = projected(&recording, &profile, job(10, 10));
    assert_eq!(short.job.rpcs, 10 * 1_000);
    let long = projected(&recording, &profile, job(1_000, 1_000));
    assert_eq!(long.job.rpcs, 1_000 * 2_000, "{} s", long.job.seconds);
}

#[test]
fn a_warm_node_asks_only_what_it_does_not_keep() {
    let recording = searching(100, 50, 30);
    let start = RecordedStart::of(&recording, &["/opt/s".into()], Some(Nanos(0)));
    let warm = project(&start, &profile("1ms", "0", "open = 'revalidated'"), job(1, 1), true);
    assert_eq!((warm.rpcs.total, warm.rpcs.opens), (50, 50));
    let cold = project(&start, &profile("1ms", "0", "open = 'revalidated'"), job(1, 1), false);
    assert_eq!(cold.rpcs_again, warm.rpcs);
}

/// A profile whose server's disk takes 5 ms to an inode and 12 ms to a file's first byte.
fn cold(profile: FilesystemProfile) -> FilesystemProfile {
    let [metadata_latency, data_latency] = ["5ms", "12ms"].map(|span| span.parse().unwrap());
    let disk = Some(ServerDisk { metadata_latency, data_latency });
    FilesystemProfile { disk, ..profile }.with_cold_server().unwrap()
}

#[test]
fn a_cold_server_reads_each_inode_and_each_directory_once_in_the_whole_job() {
    let recording = searching(100, 50, 30);
    let warm = profile("1ms", "0", "open = 'revalidated'");
    // Of 150 files, and the directory that all 180 names are looked up in.
    let disk = 151.0 * 5e-3;
    for job in [job(1, 1), job(64, 1), job(64, 64), job(100_000, 1_000)] {
        let before = projected(&recording, &warm, job);
        let after = projected(&recording, &cold(warm.clone()), job);
        assert_eq!(before.job.rpcs, after.job.rpcs);
        close(after.job.seconds - before.job.seconds, disk, 1e-6);
    }
}

#[test]
fn a_cold_server_seeks_each_file_once_and_has_forgotten_what_a_warm_node_caches() {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    for file in ["/opt/s/a", "/opt/s/b", "/opt/s/a"] {
        made.call(process, ask("openat", file).fd(3));
        made.call(process, ask("read", file).fd(3).returned(1_000));
    }
    let recording = ended(made, process);
    let start = RecordedStart::of(&recording, &["/opt/s".into()], Some(Nanos(0)));
    let profile = cold(profile("0", "0", "open = 'revalidated'"));
    let first = project(&start, &profile, job(8, 2), false);
    close(first.job.seconds, 3.0 * 5e-3 + 2.0 * 12e-3, 1e-6);
    // The opens are revalidated, so the two inodes are read again; the names and the data are not.
    let again = project(&start, &profile, job(8, 2), true);
    close(again.job.seconds, 2.0 * 5e-3, 1e-6);
}

#[test]
fn what_is_left_out_of_a_start_is_not_waited_for_and_what_is_read_after_it_is() {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    made.call(process, ask("openat", "/opt/s/no").missing());
    made.call(process, ask("openat", "/opt/s/a").fd(3));
    made.call(process, ask("read", "/opt/s/a").fd(3).returned(1_000));
    made.call(process, ask("stat", "/opt/s/b"));
    let recording = ended(made, process);
    let start = RecordedStart::of(&recording, &["/opt/s".into()], Some(Nanos(0)));
    let profile = profile("1ms", "0", "open = 'revalidated'");
    let model = CostModel { profile, job: job(1, 1), warm: false };
    let all = model.predict(&start).wait;
    let op = |path: &[u8]| {
        let is = |event: &recording::Event| {
            event.is_metadata() && event.path.is_some_and(|id| recording.path(id) == path)
        };
        recording.events.iter().position(is).unwrap()
    };
    let without = |paths: &[&[u8]]| {
        model.predict_without(&start, &paths.iter().map(|path| op(path)).collect())
    };
    assert_eq!(without(&[]), all);
    assert_eq!((all.rpcs, all.bytes_read), (4, 1_000));
    let search = without(&[b"/opt/s/no"]);
    assert_eq!((search.rpcs, search.bytes_read), (3, 1_000));
    close(search.one_rank, 3e-3, 1e-6);
    let image = without(&[b"/opt/s/no", b"/opt/s/a"]);
    assert_eq!((image.rpcs, image.bytes_read), (1, 1_000));
}

#[test]
fn data_comes_to_each_node_once_at_the_bandwidth_that_all_share() {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    made.call(process, ask("openat", "/opt/s/big").fd(3));
    for _ in 0..2 {
        made.call(process, ask("read", "/opt/s/big").fd(3).returned(500_000_000));
    }
    let recording = ended(made, process);
    let mut profile = profile("0", "0", "");
    profile.data.bandwidth = Some("1GB/s".parse().unwrap());
    let all = projected(&recording, &profile, job(64, 4));
    assert_eq!(all.predicted_wait.bytes_read, 1_000_000_000);
    close(all.job.seconds, 4.0, 1e-3);
}

#[test]
fn what_the_kernel_opens_at_an_exec_is_asked_for_though_no_call_is_seen() {
    let mut made = Made::new();
    let process = made.start(None);
    made.call(process, ask("execve", "/opt/s/run.sh").at(30_000));
    made.exec(process, "/opt/s/run.sh", "/opt/s/bash", &["run.sh"]);
    let recording = ended(made, process);
    let one = projected(&recording, &profile("1ms", "0", "open = 'revalidated'"), job(1, 1));
    assert_eq!((one.rpcs.lookups, one.rpcs.opens), (2, 2), "the script and its interpreter");
}

#[test]
fn time_in_a_call_is_not_computing_and_nobody_computes_longer_than_the_processor() {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    // 1 ms of computing, a call of 5 ms; then 10 s of sleep in a call that is not recorded.
    made.call(process, ask("stat", "/opt/s/a").at(1_040_000).took(5_000_000));
    made.call(process, ask("stat", "/opt/s/b").at(10_006_040_000).took(1_000));
    let recording = ended(made, process);
    let start = RecordedStart::of(&recording, &["/opt/s".into()], None);
    // What `made` says of the processor.
    close(start.compute_time().seconds(), 0.003, 1e-3);
}

#[test]
fn network_mounts_are_what_is_shared_else_all_that_the_node_does_not_serve_itself() {
    let record = |mounts: &[(&str, &str)]| {
        let mount = |(point, fs): &(&str, &str)| Mount {
            point: (*point).into(),
            fs: (*fs).into(),
            source: String::new(),
        };
        let mounts = mounts.iter().map(mount).collect();
        let mut made = Made::with(&recording::Header { mounts, ..header() });
        let process = made.command("/usr/bin/demo");
        for path in ["/usr/lib/a", "/opt/s/a", "/home/me/a", "/home/shm/a", "/tmp/a"] {
            made.call(process, ask("stat", path));
        }
        ended(made, process)
    };
    let local = record(&[("/", "ext4"), ("/home/shm", "tmpfs")]);
    let start = RecordedStart::of(&local, &[], None);
    assert_eq!(
        (start.chosen, start.metadata_ops, start.elsewhere),
        (SharedChoice::Everything, 4, 1)
    );
    let network = record(&[("/", "ext4"), ("/home", "nfs4"), ("/home/shm", "tmpfs")]);
    let start = RecordedStart::of(&network, &[], None);
    assert_eq!((start.chosen, start.metadata_ops, start.elsewhere), (SharedChoice::Network, 1, 4));
    let start = RecordedStart::of(&network, &["/usr".into()], None);
    assert_eq!((start.chosen, start.metadata_ops, start.elsewhere), (SharedChoice::Given, 1, 4));
}

#[test]
fn a_recording_without_questions_or_of_other_directories_gets_a_clear_answer() {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    made.call(process, bare("getpid"));
    let nothing = ended(made, process);
    let start = RecordedStart::of(&nothing, &[], None);
    assert!(matches!(start.check(), Err(ProjectionError::Nothing)));
    let elsewhere = searching(3, 0, 0);
    let error =
        RecordedStart::of(&elsewhere, &["/home".into()], None).check().unwrap_err().to_string();
    assert!(error.contains("none of the 3") && error.contains("--below /opt"), "{error}");
}

#[test]
fn a_recording_that_lies_costs_neither_time_nor_a_panic() {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    // A recording of its size with longer ones is refused.
    let deep = "/a".repeat(400);
    for number in 0..20 {
        made.call(process, ask("stat", &format!("{deep}{number}")).missing());
        made.call(process, ask("openat", "/opt/s/x").fd(3));
        made.call(process, ask("read", "/opt/s/x").fd(3).returned(i64::MAX));
        made.call(process, ask("stat", "/opt/s/y").at(u64::MAX - number).took(u64::MAX));
    }
    let recording = ended(made, process);
    let begun = processor_time();
    for name in ["nfs", "lustre"] {
        let profile = FilesystemProfile::find(name.as_ref()).unwrap();
        let start = RecordedStart::of(&recording, &["/opt/s".into()], None);
        let all = project(&start, &profile, job(1_000_000_000, 1_000_000_000), false);
        assert!(all.job.seconds.is_finite());
    }
    let took = processor_time() - begun;
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_table_has_a_row_for_each_number_of_ranks_and_columns_for_both() {
    let (before, after) = (searching(10, 10, 10), searching(10, 0, 0));
    let profile = profile("1ms", "10us", "");
    let [before, after] = [&before, &after].map(|it| projected(it, &profile, job(30, 3)));
    let text = csv(&before, Some(&after));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 17);
    assert!(rows.iter().all(|row| row.len() == 12), "{text}");
    let row = rows.iter().find(|row| row[0] == "30").unwrap();
    assert_eq!((row[1], row[2], row[7]), ("3", "90", "30"));
}

/// A rank finds 281 names and looks 6,250 up that are not there; the server needs 10 us an RPC.
#[test]
fn negatives_that_are_not_cached_are_sent_by_every_rank_and_cached_ones_by_every_node() {
    let search = searching(281, 0, 6_250);
    let calm = searching(281, 0, 0);
    let keeps = profile("190us", "10us", "");
    let forgets = profile("190us", "10us", "negatives = '0'");
    let all = job(24_576, 128);
    let (nodes, ranks, service) = (128.0, 24_576.0, 10e-6);
    let forgotten = (nodes * 281.0 + ranks * 6_250.0) * service;
    close(projected(&search, &forgets, all).job.seconds, forgotten, 0.01);
    close(projected(&search, &keeps, all).job.seconds, nodes * 6_531.0 * service, 0.01);
    close(projected(&calm, &keeps, all).job.seconds, nodes * 281.0 * service, 0.02);
    close(projected(&search, &keeps, all).job_if_negatives_not_cached.seconds, forgotten, 0.01);
}

/// Shrinkwrap (Zakaria et al., SC22): a program of 900 libraries starts in 169 s with 512
/// processes and 344.6 s with 2,048; shrinkwrapped in 30.5 s and 47.8 s.
///
/// Fitted: every process sends for itself (opens are revalidated, no negative dentry cache);
/// shrinkwrapped it opens 900 files; before, ten RPCs a library, because the growth from 512
/// to 2,048 shrank tenfold; the server needs 12 us an operation. What the model has to say is
/// the growth. The constant beside it (110 s and 25 s) is no work of the metadata server, and the
/// model does not have it: absolute times of few processes are too short.
#[test]
fn shrinkwraps_growth_with_processes_is_the_servers_and_its_constant_is_not() {
    let profile = profile("190us", "12us", "negatives = '0'\nopen = 'revalidated'");
    for (recording, few, many) in
        [(searching(0, 900, 8_100), 169.0, 344.6), (searching(0, 900, 0), 30.5, 47.8)]
    {
        let time = |ranks| projected(&recording, &profile, job(ranks, ranks / 16)).job.seconds;
        close(time(2_048) - time(512), many - few, 0.06);
        assert!(time(512) < few, "there is a constant");
    }
}

/// Spindle (Frings et al., ICS'13): ten hours to main with 16,384 processes; with it, where one
/// process sends for all, no growth with nodes.
///
/// Fitted, as no counts were published: 22,000 RPCs of each process (500 libraries, 44
/// directories) at 100 us (10,000 a second) make it ten hours. So this holds the model's
/// proportions only.
#[test]
fn spindles_ten_hours_are_a_server_of_every_process() {
    let profile = profile("500us", "100us", "negatives = '0'\nopen = 'revalidated'");
    let recording = searching(0, 500, 21_500);
    let without = |ranks| projected(&recording, &profile, job(ranks, ranks / 16)).job.seconds;
    close(without(16_384), 10.0 * 3600.0, 0.02);
    close(without(16_384) / without(1_024), 16.0, 0.01);
}

/// How long this thread has had a processor (proc_pid_schedstat(5)): however busy the machine is,
/// the same work takes about as much.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_once(' ').unwrap().0.parse().unwrap())
}

/// A start that opens so many files in each of so many directories.
fn directories(count: usize, files: usize) -> Recording {
    let mut made = Made::new();
    let process = made.command("/usr/bin/demo");
    for directory in 0..count {
        for file in 0..files {
            made.call(process, ask("openat", &format!("/opt/s/d{directory}/f{file}")).fd(3));
        }
    }
    ended(made, process)
}

#[test]
fn several_metadata_servers_help_where_directories_are_many_and_not_where_there_is_one() {
    let server = profile("0", "100us", "open = 'revalidated'");
    let with = |servers| server.clone().with_metadata_servers(servers);
    let seconds =
        |recording: &Recording, servers, job| projected(recording, &with(servers), job).job.seconds;
    let (one, many) = (directories(1, 1000), directories(500, 2));
    // One rank waits for one reply after the other, whoever gives it.
    close(seconds(&many, 8, job(1, 1)), seconds(&many, 1, job(1, 1)), 1e-6);
    let crowd = job(2_000, 100);
    close(seconds(&one, 8, crowd), seconds(&one, 1, crowd), 0.01);
    let gain = seconds(&many, 1, crowd) / seconds(&many, 8, crowd);
    // By chance one of eight has more than its part.
    assert!((4.0..8.0).contains(&gain), "{gain}");
}

#[test]
fn another_metadata_server_is_hardly_ever_a_loss_though_directories_fall_by_chance() {
    let server = profile("0", "100us", "open = 'revalidated'");
    // As few and as uneven as a start's: one placement alone can be worse with three servers than with two.
    for (directories_of, files) in [(7, 100), (12, 60), (20, 50), (60, 10)] {
        let recording = directories(directories_of, files);
        let seconds = |servers| {
            let server = server.clone().with_metadata_servers(servers);
            projected(&recording, &server, job(2_000, 100)).job.seconds
        };
        let all: Vec<f64> = (1..=8).map(seconds).collect();
        for (fewer, more) in all.iter().zip(&all[1..]) {
            assert!(more / fewer < 1.02, "{directories_of}: {all:?}");
        }
        assert!(all[2] < all[0] * 0.8, "{directories_of}: {all:?}");
    }
}

#[test]
fn what_is_spread_is_read_once_a_job_and_goes_on_as_often_as_the_nodes_double() {
    let mut header = header();
    let image =
        |point: &str, fs: &str| Mount { point: point.into(), fs: fs.into(), source: "x".into() };
    header.mounts =
        vec![image("/", "ext4"), image("/opt/s", "nfs4"), image("/opt/s/env", "squashfs")];
    let mut made = Made::with(&header);
    let process = made.command("/usr/bin/demo");
    made.call(process, ask("openat", "/opt/s/own").fd(3));
    made.call(process, ask("openat", "/opt/s/env/a").fd(4));
    made.call(process, ask("read", "/opt/s/env/a").fd(4).returned(50_000_000));
    let recording = ended(made, process);
    let start = RecordedStart::of(&recording, &["/opt/s".into()], Some(Nanos(0)));
    assert_eq!(start.image_bytes(), 50_000_000);
    let mut slow = profile("1ms", "0", "open = 'revalidated'");
    slow.data.bandwidth = Some("1GB/s".parse().unwrap());
    let model = CostModel { profile: slow, job: job(1000, 100), warm: false };
    let projection = model.project_spread(&start, "10GB/s".parse().unwrap());
    let spread = projection.spread.as_ref().unwrap();
    // Each of 100 nodes reads 50 MB at 1 GB/s together; or one does, and they double seven times.
    close(projection.job.predicted_wait, 100.0 * 0.05 + 2e-3, 0.01);
    close(spread.read_seconds, 0.05, 1e-6);
    close(spread.job.broadcast_seconds, 7.0 * 0.005, 1e-6);
    close(spread.job.wait_seconds, 0.05 + 0.035 + 2e-3, 1e-6);
    assert_eq!(spread.of_ranks(1).unwrap().broadcast_seconds, 0.0);
    assert_eq!(spread.points.len(), projection.points.len());
    // A warm node has it.
    let warm = CostModel { warm: true, ..model };
    assert_eq!(warm.project_spread(&start, "10GB/s".parse().unwrap()).spread, None);
}
