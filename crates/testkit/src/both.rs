//! The same command, once as it is and once under becalm.

use std::process::Command;

use recording::Recording;

use super::scene::{Backend, running};
use super::{Ran, Scene, run};

/// Runs a command without and with becalm, each time from the bash line `setup`, in which
/// `"$@"` stands for it: the line is where a test says what the command inherits.
#[track_caller]
pub fn both(scene: &Scene, setup: &str, words: &[&str]) -> [Ran; 2] {
    let untraced = run(from(setup).args(words));
    let traced = run(&mut running(from(setup), &scene.record(words)));
    [untraced, traced]
}

/// A bash that runs a line, in which `"$@"` stands for the words that follow.
pub fn from(setup: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["-c", setup, "bash"]);
    bash
}

impl Backend {
    /// Asserts that a command behaves the same without and with becalm, and that the recording is
    /// whole; answers what it did under becalm, and the recording.
    #[track_caller]
    pub fn assert_same(self, setup: &str, words: &[&str]) -> (Ran, Recording) {
        let scene = self.scene();
        let [untraced, traced] = both(&scene, setup, words);
        assert_eq!(traced.err(), untraced.err(), "standard error of {words:?} after {setup}");
        assert_eq!(traced.out(), untraced.out(), "output of {words:?} after {setup}");
        assert_eq!(traced, untraced, "{words:?} after {setup}");
        let recording = scene.recording();
        assert!(recording.is_whole(), "{words:?}: {:?}", recording.cut);
        (traced, recording)
    }
}
