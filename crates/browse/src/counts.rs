//! What some calls come to, and what each call of a recording counts for.

use cost::Prediction;
use recording::{Attributor, Cause, Recording};

/// What some calls come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallCounts {
    /// Calls that returned.
    pub calls: u64,
    /// Of those, metadata operations.
    pub ops: u64,
    /// Of those, failed lookups.
    pub failed: u64,
    /// Nanoseconds between entry and return, the recorder's stops included.
    pub time: u64,
    /// Seconds that one rank is predicted to wait for them; 0 until that is known.
    pub wait: f64,
    /// Metadata operations by cause, in the order of [`Cause::ALL`].
    pub causes: [u32; Cause::ALL.len()],
}

impl CallCounts {
    /// The cause of most operations; none where there are none.
    pub fn main_cause(&self) -> Option<Cause> {
        let most = (0..Cause::ALL.len()).rev().max_by_key(|cause| self.causes[*cause])?;
        (self.causes[most] > 0).then(|| Cause::ALL[most])
    }
}

impl std::ops::AddAssign<&CallCounts> for CallCounts {
    fn add_assign(&mut self, other: &CallCounts) {
        self.calls += other.calls;
        self.ops += other.ops;
        self.failed += other.failed;
        self.time += other.time;
        self.wait += other.wait;
        self.causes.iter_mut().zip(other.causes).for_each(|(all, one)| *all += one);
    }
}

/// What each call counts for, in a few bytes each.
pub struct CallFacts {
    /// The place of each call's cause in [`Cause::ALL`].
    causes: Vec<u8>,
    /// Seconds that one rank waits for each call; empty until that is known.
    waits: Vec<f32>,
}

impl CallFacts {
    /// Works out the causes of a recording's calls.
    pub fn of(recording: &Recording) -> CallFacts {
        let mut attributor = Attributor::new(recording);
        let place = |cause| Cause::ALL.iter().position(|known| *known == cause).unwrap_or(0);
        let events = recording.events.iter();
        let causes = events.map(|event| place(attributor.attribute(event).cause) as u8).collect();
        CallFacts { causes, waits: Vec::new() }
    }

    /// Takes in what each call has of the predicted wait.
    pub fn take_waits(&mut self, prediction: &Prediction) {
        let wait = |event| prediction.of_events([event]).one_rank as f32;
        self.waits = (0..self.causes.len()).map(wait).collect();
    }

    /// Whether it is known what is waited for.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// The place of a call's cause in [`Cause::ALL`].
    pub fn cause_number(&self, call: usize) -> usize {
        self.causes.get(call).copied().unwrap_or_default().into()
    }

    /// Why a call was made.
    pub fn cause(&self, call: usize) -> Cause {
        Cause::ALL[self.cause_number(call)]
    }

    /// Seconds that one rank waits for a call.
    pub fn wait(&self, call: usize) -> f64 {
        self.waits.get(call).copied().unwrap_or_default().into()
    }

    /// What a call counts for.
    pub fn count(&self, recording: &Recording, call: usize) -> CallCounts {
        let event = &recording.events[call];
        let is_metadata = event.is_metadata();
        let mut causes = [0; Cause::ALL.len()];
        causes[self.cause_number(call)] = u32::from(is_metadata);
        CallCounts {
            calls: 1,
            ops: is_metadata.into(),
            failed: (is_metadata && event.is_missing()).into(),
            time: event.took.0,
            wait: self.wait(call),
            causes,
        }
    }
}
