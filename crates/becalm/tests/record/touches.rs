//! What a program touches of the files that it maps.

use std::fs::File;
use std::io::Write;
use std::process::Command;

use recording::query::data::{self, DataOrder, FileData};
use recording::{Blind, FileRange, Recording};
use testkit::scene::running;
use testkit::{Ran, Scene, run, trap};

use super::BACKEND;

const MIB: u64 = 1 << 20;

/// A file of so many MiB, each page of which is touched in this order while becalm watches.
fn touched(mib: u64, order: &str) -> (Recording, FileData) {
    // Written in small parts: of larger ones the page cache makes folios that one fault maps whole.
    touched_of(mib, 64 << 10, order)
}

/// The same of a file that is written in parts of so many bytes.
fn touched_of(mib: u64, part: usize, order: &str) -> (Recording, FileData) {
    touched_by(mib, part, order, |record| record)
}

/// The same, recorded by what is made of the command that records.
fn touched_by(
    mib: u64,
    part: usize,
    order: &str,
    by: impl FnOnce(Command) -> Command,
) -> (Recording, FileData) {
    let scene = Scene::new().on(BACKEND);
    let file = scene.file("data", "", 0o644);
    let mut writer = File::options().write(true).open(&file).unwrap();
    (0..(mib * MIB) as usize / part).for_each(|_| writer.write_all(&vec![7; part]).unwrap());
    let record = scene.record(&[trap("touch_mapping"), file.clone(), order.into()]);
    let Ran { status, .. } = run(&mut by(record));
    assert!(status.success(), "{status}");
    let recording = scene.recording();
    let is_it = |used: &&FileData| recording.path(used.path) == file.as_bytes();
    let used = data::files(&recording).iter().find(is_it).cloned();
    let Some(used) = used else { panic!("{:?}", recording.blinds) };
    (recording, used)
}

/// How many requests the touches of a file take on a node that has nothing of it.
fn requests(recording: &Recording, file: &FileData) -> u64 {
    let touches = data::touches(recording);
    let faulted = cost::faulted_by_file(&touches, 128 << 10);
    faulted.iter().find(|(path, _)| *path == file.path).map_or(0, |(_, data)| data.requests)
}

fn refuses_page_faults(recording: &Recording) -> bool {
    recording.blinds.iter().any(|blind| matches!(blind, Blind::FaultsUnseen { .. }))
}

#[test]
fn every_part_of_a_mapped_file_that_is_touched_is_recorded_in_order() {
    let (recording, used) = touched(32, "sequential");
    assert!(recording.header.page_faults && !refuses_page_faults(&recording));
    assert_eq!((used.mapped, used.touched), (32 * MIB, 32 * MIB), "{:?}", recording.blinds);
    assert_eq!(used.order, DataOrder::Sequential);
    let runs = data::runs(&recording);
    let of_it: Vec<_> = runs.iter().filter(|run| run.path == used.path).collect();
    assert_eq!(of_it.len(), 1, "{of_it:?}");
    assert_eq!(of_it[0].range, FileRange { offset: 0, bytes: 32 * MIB });
}

#[test]
fn what_is_touched_here_and_there_is_seen_to_be() {
    let (recording, used) = touched(32, "scattered");
    assert_eq!(used.touched, 32 * MIB, "{:?}", recording.blinds);
    assert_eq!(used.order, DataOrder::Scattered);
    let of_it = recording.touches.iter().filter(|touch| touch.path == used.path);
    assert!((512..=513).contains(&of_it.count()), "each part once");
}

#[test]
fn what_a_large_folio_brings_along_is_touched_and_takes_the_same_requests() {
    let (small, one) = touched(32, "sequential");
    let (large, other) = touched_of(32, 8 << 20, "sequential");
    assert_eq!((one.touched, other.touched), (32 * MIB, 32 * MIB), "{:?}", large.blinds);
    assert_eq!(other.order, DataOrder::Sequential);
    let (of_small, of_large) = (requests(&small, &one), requests(&large, &other));
    assert!(of_small.abs_diff(of_large) <= of_small / 20, "{of_small} and {of_large}");
}

#[test]
fn a_mapping_that_was_moved_is_touched_where_it_is() {
    let (recording, used) = touched(8, "moved");
    assert_eq!(used.touched, 8 * MIB, "{:?}", recording.blinds);
}

#[test]
fn many_small_mappings_are_watched_once_they_are_much_together() {
    let (recording, used) = touched(32, "many");
    assert_eq!(used.touched, 32 * MIB, "{:?}", recording.blinds);
}

#[test]
fn where_page_faults_are_refused_what_is_mapped_in_the_end_is_counted_and_said() {
    let (recording, used) = touched_by(8, 64 << 10, "scattered", |record| {
        let mut refused = Command::new(trap("refused_call"));
        refused.arg("perf_event_open");
        running(refused, &record)
    });
    assert!(refuses_page_faults(&recording), "{:?}", recording.blinds);
    assert_eq!(used.touched, 8 * MIB);
}

#[test]
fn a_program_that_maps_little_is_not_watched() {
    let scene = Scene::new().on(BACKEND);
    run(&mut scene.record(&["true"]));
    let recording = scene.recording();
    assert_eq!(recording.touches, []);
    assert!(!refuses_page_faults(&recording));
}
