//! A recording that is walked about in: what is seen of it, and how that changes.

use std::sync::Arc;
use std::thread::JoinHandle;

use explain::{ExplainOptions, ExplainedCalls};
use ratatui_core::buffer::Buffer;
use recording::Recording;

use crate::call_list::{CallColumn, CallList};
use crate::counts::{CallCounts, CallFacts};
use crate::outline::{Outline, TreeColumn};
use crate::page::Page;
use crate::screen;
use crate::typed_filter::{SelectedCalls, TypedFilter};
use crate::view::View;

/// Bytes of a thread's stack: as much as a program's first thread usually has.
const STACK: usize = 8 << 20;

/// A recording, and what is seen of it.
pub struct Browser {
    pub(crate) recording: Arc<Recording>,
    /// What the recording is called, as text to show.
    pub(crate) file: String,
    pub(crate) facts: CallFacts,
    pub(crate) filter: TypedFilter,
    selected: SelectedCalls,
    /// Grows with each filter, and when the waits are known: what was counted before is stale.
    counting: u64,
    /// All calls, and those that are counted.
    pub(crate) all: CallCounts,
    pub(crate) counted: CallCounts,
    pub(crate) view: View,
    outlines: Vec<Outline>,
    pub(crate) list: Option<CallList>,
    pub(crate) page: Option<Page>,
    pub(crate) prompt: Option<Prompt>,
    /// What went wrong with the last key, in a line.
    pub(crate) message: Option<String>,
    /// What was searched for last, in lower case.
    sought: String,
    pub(crate) found: Option<ExplainedCalls>,
    explaining: Option<JoinHandle<ExplainedCalls>>,
    /// Where the rows begin on the screen, and how many there are.
    pub(crate) rows_at: (u16, u16),
    /// Whether there may be colours.
    pub(crate) has_colour: bool,
}

/// A line that is being typed.
pub(crate) struct Prompt {
    pub asks_for: Asked,
    pub text: String,
}

/// What a line is typed for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Search,
    Filter,
}

impl Browser {
    /// A recording that was loaded from `file`, at its processes. What storms there are, and what is
    /// waited for, is worked out meanwhile, with `options`.
    pub fn new(recording: Recording, file: &str, options: ExplainOptions) -> Browser {
        let recording = Arc::new(recording);
        let explained = Arc::clone(&recording);
        let explain = move || explain::explain_calls(&explained, &options);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(explain);
        let mut browser = Browser {
            file: file.to_owned(),
            facts: CallFacts::of(&recording),
            recording,
            filter: TypedFilter::default(),
            selected: SelectedCalls::default(),
            counting: 1,
            all: CallCounts::default(),
            counted: CallCounts::default(),
            view: View::Processes,
            outlines: Vec::new(),
            list: None,
            page: None,
            prompt: None,
            message: None,
            sought: String::new(),
            found: None,
            explaining: thread.ok(),
            rows_at: (0, 0),
            has_colour: true,
        };
        browser.count();
        browser
    }

    /// The same without colours.
    pub fn without_colour(mut self) -> Browser {
        self.has_colour = false;
        self
    }

    /// The same with a line that must be read first.
    pub fn with_message(mut self, message: Option<String>) -> Browser {
        self.message = message;
        self
    }

    /// Draws all of it.
    pub fn draw(&mut self, screen: &mut Buffer) {
        screen::draw(self, screen);
    }

    /// Whether something is still being worked out.
    pub fn is_waiting(&self) -> bool {
        self.explaining.is_some()
    }

    /// Takes in what was worked out; whether there was anything.
    pub fn take_found(&mut self) -> bool {
        let Some(done) = self.explaining.take_if(|thread| thread.is_finished()) else {
            return false;
        };
        // Where it panicked, that was said, and the rest is as good as before.
        let Ok(found) = done.join() else { return true };
        if found.findings.predicted_wait.is_some() {
            self.facts.take_waits(&found.prediction);
        }
        self.found = Some(found);
        self.outlines.retain(|outline| outline.view != View::Storms);
        self.count();
        true
    }

    /// CallCounts anew what is counted.
    fn count(&mut self) {
        self.counting += 1;
        (self.all, self.counted) = (CallCounts::default(), CallCounts::default());
        for call in 0..self.recording.events.len() {
            let counts = self.facts.count(&self.recording, call);
            self.all += &counts;
            if self.selected.has(call) {
                self.counted += &counts;
            }
        }
        if let Some(found) = self.found.as_ref().filter(|_| self.facts.has_waits()) {
            let faults = found.prediction.of_faults().one_rank;
            self.all.wait += faults;
            self.counted.wait += if self.selected.is_all() { faults } else { 0.0 };
        }
    }

    /// The tree that is seen, counted.
    pub(crate) fn outline(&mut self) -> &mut Outline {
        let place = match self.outlines.iter().position(|outline| outline.view == self.view) {
            Some(place) => place,
            None => {
                let tree = self.view.tree(&self.recording, self.found.as_ref());
                self.outlines.push(Outline::new(self.view, tree));
                self.outlines.len() - 1
            }
        };
        let outline = &mut self.outlines[place];
        if outline.counted_with != self.counting {
            let is_new = outline.counted_with == 0;
            outline.counted_with = self.counting;
            outline.count(&self.recording, &self.facts, &self.selected);
            if is_new {
                outline.open_at_first();
            }
        }
        outline
    }

    /// Goes to another view.
    pub(crate) fn go_to_view(&mut self, view: View) {
        (self.view, self.list, self.page) = (view, None, None);
    }

    /// Goes so many views on.
    pub(crate) fn next_view(&mut self, by: isize) {
        self.go_to_view(next_of(&View::ALL, self.view, by));
    }

    /// Shows what is behind the row.
    pub(crate) fn enter(&mut self) {
        if let Some(list) = &self.list {
            let call = list.current();
            self.page = call.map(|call| Page::of_call(call, &self.recording, &self.facts));
            return;
        }
        let selected = std::mem::take(&mut self.selected);
        let outline = self.outline();
        let behind = outline
            .current()
            .map(|node| (outline.tree.name(node).to_owned(), outline.tree.calls(node, &selected)));
        self.selected = selected;
        match behind {
            Some((_, calls)) if calls.is_empty() => {
                self.message = Some("no call is behind this row".to_owned());
            }
            Some((title, calls)) => {
                self.list = Some(CallList::new(title, calls, &self.recording, &self.facts));
            }
            None => {}
        }
    }

    /// Leaves what is seen last; false where it is the first.
    pub(crate) fn leave(&mut self) -> bool {
        self.page.take().is_some() || self.list.take().is_some()
    }

    /// Sorts by the column so many on.
    pub(crate) fn sort(&mut self, by: isize) {
        if let Some(list) = &mut self.list {
            list.sort = next_of(&CallColumn::ALL, list.sort, by);
            list.is_reversed = false;
            return list.arrange(&self.recording, &self.facts);
        }
        let outline = self.outline();
        outline.sort = next_of(&TreeColumn::ALL, outline.sort, by);
        outline.is_reversed = false;
        outline.arrange();
    }

    /// Sorts the other way round.
    pub(crate) fn reverse(&mut self) {
        if let Some(list) = &mut self.list {
            list.is_reversed = !list.is_reversed;
            return list.arrange(&self.recording, &self.facts);
        }
        let outline = self.outline();
        outline.is_reversed = !outline.is_reversed;
        outline.arrange();
    }

    /// Does what a line was typed for.
    pub(crate) fn answer(&mut self, prompt: Prompt) {
        match prompt.asks_for {
            Asked::Search => {
                // Nothing: what was searched for before.
                if !prompt.text.trim().is_empty() {
                    self.sought = prompt.text.trim().to_lowercase();
                }
                self.search(true);
            }
            Asked::Filter => match TypedFilter::parse(&prompt.text) {
                Ok(filter) => self.filter(filter),
                Err(wrong) => self.message = Some(wrong),
            },
        }
    }

    /// CallCounts only some calls.
    pub(crate) fn filter(&mut self, filter: TypedFilter) {
        self.selected = filter.select(&self.recording, &self.facts);
        self.filter = filter;
        self.list = None;
        self.count();
        if self.counted.calls == 0 {
            self.message = Some("no call is so; F counts all again".to_owned());
        }
    }

    /// Goes to the next row that has what is searched for, or to the one before.
    pub(crate) fn search(&mut self, is_forward: bool) {
        if self.sought.is_empty() {
            self.message = Some("search with /".to_owned());
            return;
        }
        let sought = std::mem::take(&mut self.sought);
        let recording = Arc::clone(&self.recording);
        let is_found = match &mut self.list {
            Some(list) => list.search(&recording, &sought, is_forward),
            None => self.outline().search(&sought, is_forward),
        };
        if !is_found {
            self.message = Some(format!("nothing here has {sought:?}"));
        }
        self.sought = sought;
    }
}

/// The one that is so many on, round the end.
fn next_of<T: Copy + PartialEq>(all: &[T], one: T, by: isize) -> T {
    let at = all.iter().position(|other| *other == one).unwrap_or(0);
    all[(at as isize + by).rem_euclid(all.len() as isize) as usize]
}
