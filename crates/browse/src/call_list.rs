//! The calls behind a row, as they ended or by a column.

use recording::{Event, Outcome, Recording, errno_name};

use crate::counts::CallFacts;
use crate::cursor::RowCursor;
use crate::typed_filter::Matching;

/// What calls are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallColumn {
    /// When they began.
    At,
    /// The kernel's number of the process.
    Process,
    /// How long they took.
    Took,
    /// Predicted wait of one rank.
    Wait,
    /// The cause.
    Cause,
    /// The system call's name.
    Call,
    /// What came back.
    Result,
    /// The path.
    Path,
}

impl CallColumn {
    /// All of them, as they stand on the screen.
    pub const ALL: [CallColumn; 8] = [
        CallColumn::At,
        CallColumn::Process,
        CallColumn::Took,
        CallColumn::Wait,
        CallColumn::Cause,
        CallColumn::Call,
        CallColumn::Result,
        CallColumn::Path,
    ];
}

/// The calls behind a row.
pub struct CallList {
    /// What the row is called.
    pub title: String,
    calls: Vec<u32>,
    /// Where in them.
    pub cursor: RowCursor,
    /// What they are sorted by.
    pub sort: CallColumn,
    /// Whether they are sorted the other way round.
    pub is_reversed: bool,
}

impl CallList {
    /// These calls, as they began.
    pub fn new(
        title: String,
        calls: Vec<u32>,
        recording: &Recording,
        facts: &CallFacts,
    ) -> CallList {
        let (cursor, sort) = (RowCursor::default(), CallColumn::At);
        let mut list = CallList { title, calls, cursor, sort, is_reversed: false };
        list.arrange(recording, facts);
        list
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// The call at the cursor.
    pub fn current(&self) -> Option<usize> {
        self.calls.get(self.cursor.at).map(|call| *call as usize)
    }

    /// The calls that are seen, so many at most.
    pub fn seen(&mut self, height: usize) -> &[u32] {
        let seen = self.cursor.seen(self.calls.len(), height);
        &self.calls[seen]
    }

    /// Sorts them; the cursor stays on its call.
    pub fn arrange(&mut self, recording: &Recording, facts: &CallFacts) {
        let current = self.calls.get(self.cursor.at).copied();
        let event = |call: &u32| &recording.events[*call as usize];
        let path = |call: &u32| event(call).path.map_or(&b""[..], |path| recording.path(path));
        let calls = &mut self.calls;
        match self.sort {
            CallColumn::At => calls.sort_by_key(|call| (event(call).start, *call)),
            CallColumn::Process => {
                calls.sort_by_key(|call| (event(call).process, event(call).start, *call));
            }
            CallColumn::Took => {
                calls.sort_by_key(|call| (std::cmp::Reverse(event(call).took), *call));
            }
            CallColumn::Wait => calls.sort_by(|one, other| {
                let wait = |call: &u32| facts.wait(*call as usize);
                wait(other).total_cmp(&wait(one)).then(one.cmp(other))
            }),
            CallColumn::Cause => {
                calls.sort_by_key(|call| (facts.cause_number(*call as usize), *call))
            }
            CallColumn::Call => calls.sort_by(|one, other| {
                event(one).call.label().cmp(&event(other).call.label()).then(one.cmp(other))
            }),
            CallColumn::Result => calls.sort_by_key(|call| (outcome_order(event(call)), *call)),
            CallColumn::Path => {
                calls.sort_by(|one, other| path(one).cmp(path(other)).then(one.cmp(other)));
            }
        }
        if self.is_reversed {
            self.calls.reverse();
        }
        let again = current.and_then(|call| self.calls.iter().position(|known| *known == call));
        self.cursor.go_to(again.unwrap_or(0), self.calls.len());
    }

    /// Goes to the next call whose path or name has this text (in lower case), or to the one before,
    /// round the end; false where none has.
    pub fn search(&mut self, recording: &Recording, text: &str, is_forward: bool) -> bool {
        let paths = Matching::of(recording, &[text.to_owned()]);
        let (all, at) = (self.calls.len(), self.cursor.at);
        let step = |by: usize| if is_forward { (at + by) % all } else { (at + all - by) % all };
        let has = |row: &usize| {
            let event = &recording.events[self.calls[*row] as usize];
            paths.has(event) || event.call.label().contains(text)
        };
        let found = (1..=all).map(step).find(has);
        found.into_iter().for_each(|row| self.cursor.go_to(row, all));
        found.is_some()
    }
}

/// Errors first, by number; then what was returned.
fn outcome_order(event: &Event) -> (bool, i64) {
    match event.outcome {
        Outcome::Failed(number) => (false, number.into()),
        Outcome::Returned(value) => (true, value),
    }
}

/// Whether what was returned is too large for anything but an address, as mmap's.
pub fn is_address(event: &Event) -> bool {
    matches!(event.outcome, Outcome::Returned(value) if !(-4096..1 << 31).contains(&value))
}

/// What came back, as strace shows it: the error's name, or the value.
pub fn result(event: &Event) -> String {
    match event.outcome {
        Outcome::Failed(number) => errno_name(number).into_owned(),
        Outcome::Returned(value) if is_address(event) => format!("{value:#x}"),
        Outcome::Returned(value) => value.to_string(),
    }
}
