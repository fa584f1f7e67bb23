//! Calls by the line of the script that started their process.

use std::collections::HashMap;

use super::CallFilter;
use super::sum::{Groups, Keys, RowOfCall};
use crate::{Frame, Recording};

/// What processes are that no line is known of.
const UNKNOWN: &[u8] = b"(line not known)";

pub(super) fn group(recording: &Recording, filter: &CallFilter) -> Groups {
    let mut keys = Keys::default();
    let mut known: HashMap<Option<(Option<crate::PathId>, u32)>, u32> = HashMap::new();
    let of_process: Vec<u32> = recording
        .processes
        .iter()
        .map(|process| {
            let frame = recording.line_of(process.id);
            let same = frame.map(|frame| (frame.file, frame.line));
            *known.entry(same).or_insert_with(|| keys.row(&key(recording, frame)))
        })
        .collect();
    let places = recording.events.iter().map(|event| {
        let row = of_process.get(event.process.0 as usize);
        row.map_or(RowOfCall::NONE, |row| RowOfCall::observed(*row))
    });
    let places = places.collect();
    let wanted = |only: &&crate::Process| filter.process.is_none_or(|process| only.id == process);
    for process in recording.processes.iter().filter(wanted) {
        let row = of_process[process.id.0 as usize] as usize;
        let programs = keys.rows[row].programs.get_or_insert_default();
        programs.processes += 1;
        if let Some(end) = process.end {
            programs.user.0 = programs.user.0.saturating_add(end.usage.user.0);
            programs.system.0 = programs.system.0.saturating_add(end.usage.system.0);
            programs.max_rss = programs.max_rss.max(end.usage.max_rss);
        }
    }
    Groups { rows: keys.rows, places }
}

fn key(recording: &Recording, frame: Option<&Frame>) -> Vec<u8> {
    let Some(frame) = frame else { return UNKNOWN.to_vec() };
    let mut key = frame.file.map_or(b"line ".to_vec(), |file| {
        let mut path = recording.path(file).to_vec();
        path.push(b':');
        path
    });
    key.extend(frame.line.to_string().bytes());
    key
}
