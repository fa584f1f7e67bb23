//! What a program touches of the files that it maps.

use std::fs::File;
use std::io::Write;

use recording::query::data::{self, DataOrder, FileData};
use recording::{Blind, FileRange, Recording};
use testkit::{Ran, Scene, run, trap};

use super::BACKEND;

const MIB: u64 = 1 << 20;

/// A file of so many MiB, each page of which is touched in this order while becalm watches.
fn touched(mib: u64, order: &str) -> (Recording, FileData) {
    let scene = Scene::new().on(BACKEND);
    let file = scene.file("data", "", 0o644);
    // Written in small parts: of larger ones the page cache makes pages of up to 2 MiB, which one
    // fault maps whole.
    let mut writer = File::options().write(true).open(&file).unwrap();
    (0..mib * 16).for_each(|_| writer.write_all(&[7; 64 << 10]).unwrap());
    let Ran { status, .. } =
        run(&mut scene.record(&[trap("touch_mapping"), file.clone(), order.into()]));
    assert!(status.success(), "{status}");
    let recording = scene.recording();
    let is_it = |used: &&FileData| recording.path(used.path) == file.as_bytes();
    let used = data::files(&recording).iter().find(is_it).cloned();
    let Some(used) = used else { panic!("{:?}", recording.blinds) };
    (recording, used)
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
fn a_program_that_maps_little_is_not_watched() {
    let scene = Scene::new().on(BACKEND);
    run(&mut scene.record(&["true"]));
    let recording = scene.recording();
    assert_eq!(recording.touches, []);
    assert!(!refuses_page_faults(&recording));
}
