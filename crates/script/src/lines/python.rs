//! Python's lines: a hook that tells them, and what it has told.
//!
//! The hook (`hook.py`) is an audit hook (`sys.addaudithook`, PEP 578), brought to each Python by
//! [`PythonHook`].

use std::collections::HashMap;
use std::ffi::OsStr;

use launch::{HookError, PythonHook};
use watch::{ScriptFrame, Stopped};

const SOURCE: &str = include_str!("hook.py");

/// Writes the hook, for a command whose `PYTHONPATH` is this.
///
/// # Errors
/// [`HookError`].
pub fn hook(python_path: Option<&OsStr>) -> Result<PythonHook, HookError> {
    PythonHook::write("becalm-lines-", SOURCE, python_path)
}

/// What the hook has told and no fork has answered yet, by process and thread.
#[derive(Debug, Default)]
pub(super) struct PythonLines {
    of: HashMap<i32, HashMap<i32, Vec<ScriptFrame>>>,
}

impl PythonLines {
    /// Takes in what a thread tells: a frame a line, each `line function file`.
    pub fn tell(&mut self, process: &Stopped, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let places = text.lines().filter_map(place).collect();
        self.of.entry(process.pid).or_default().insert(process.tid, places);
    }

    /// What the thread has told before this fork of it.
    pub fn take(&mut self, process: &Stopped) -> Option<Vec<ScriptFrame>> {
        self.of.get_mut(&process.pid)?.remove(&process.tid)
    }

    /// A process has become another program, or has ended.
    pub fn forget(&mut self, pid: i32) {
        self.of.remove(&pid);
    }
}

fn place(text: &str) -> Option<ScriptFrame> {
    let mut words = text.splitn(3, ' ');
    let line = words.next()?.parse().ok()?;
    let function = words.next().filter(|name| *name != "<module>").unwrap_or_default();
    // `<string>`, `<stdin>`; and what was started by a relative name, long ago.
    let file = words.next().filter(|file| file.starts_with('/'));
    Some(ScriptFrame {
        file: file.map(|file| file.as_bytes().to_vec()),
        line,
        function: function.to_owned(),
    })
}
