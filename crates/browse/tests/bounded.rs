//! A million calls: memory is bounded, and a key writes out what is on the screen and no more.

#![allow(clippy::unwrap_used)] // A test program: what fails, fails the test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use browse::Browser;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use explain::ExplainOptions;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use recording::Recording;
use testkit::made::{Shared, header, storm};

const CALLS: u64 = 1_000_000;

/// Counts what is allocated.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is the system's allocator's, which holds what GlobalAlloc asks.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn storm_of(calls: u64) -> Recording {
    let bytes = Shared::default();
    let mut writer = recording::Writer::new(bytes.sink(), &header()).unwrap();
    let ended = storm::record(&mut writer, calls);
    writer.finish(ended).unwrap();
    Recording::read(&bytes.take()[..]).unwrap()
}

/// What a key and the drawing after it allocate.
fn allocated(browser: &mut Browser, code: KeyCode) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    browser.react(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    let mut screen = Buffer::empty(Rect::new(0, 0, 80, 24));
    browser.draw(&mut screen);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn a_key_allocates_for_the_rows_that_are_seen_whatever_there_is() {
    testkit::memory::forget_peak();
    let recording = storm_of(CALLS);
    let loaded = testkit::memory::peak();
    let mut browser = Browser::new(recording, "storm.becalm", ExplainOptions::default());
    while browser.is_waiting() {
        browser.take_found();
        std::thread::yield_now();
    }
    let letter = KeyCode::Char;
    for view in '1'..='8' {
        allocated(&mut browser, letter(view));
        allocated(&mut browser, letter('*'));
        for key in [KeyCode::Down, letter('G'), KeyCode::PageUp, letter('g')] {
            let count = allocated(&mut browser, key);
            assert!(count < 1_000, "{count} allocations in view {view} for {key:?}");
        }
    }
    allocated(&mut browser, letter('1'));
    // The first process started all others: it has all calls.
    let count = allocated(&mut browser, KeyCode::Enter);
    assert!(count < 1_000, "{count} allocations for {CALLS} calls");
    for key in [KeyCode::Down, letter('G'), KeyCode::PageUp, letter('s'), letter('r')] {
        let count = allocated(&mut browser, key);
        assert!(count < 1_000, "{count} allocations for {key:?}");
    }
    let more = testkit::memory::peak().saturating_sub(loaded) >> 20;
    println!("{} MiB loaded, {more} MiB more", loaded >> 20);
    assert!(more < 250, "{more} MiB more than the recording");
}
