//! The calls of a start on the shared filesystem, in a few bytes each: there may be a million.

use recording::{Event, Exec, Nanos, Recording};

use crate::{PathRequest, RequestKind};

/// A call on the shared filesystem, what is computed before it and read after it.
pub(crate) struct StartStep<'s, 'a> {
    /// The call, in [`Recording::events`].
    pub(crate) event: u32,
    pub(crate) think: Nanos,
    /// Whether it is one of many that are sent at once: one of `becalm run`'s looks.
    pub(crate) is_at_once: bool,
    pub(crate) request: PathRequest<'a>,
    /// What is fetched until the next call, if that is anything.
    pub(crate) fetched: Option<&'s StepData<'a>>,
}

/// What is fetched after a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepData<'a> {
    /// Bytes of files that one node has to fetch.
    pub(crate) bytes: u64,
    /// Of these, those that an image's file is read for.
    pub(crate) image_bytes: u64,
    /// Files of which they are the first.
    pub(crate) read: Vec<&'a [u8]>,
    /// How many of a start's touches there are until the next call.
    pub(crate) touched_to: usize,
}

impl<'a> StepData<'a> {
    /// Adds what is fetched later.
    pub(crate) fn append(&mut self, mut later: StepData<'a>) {
        self.bytes += later.bytes;
        self.image_bytes += later.image_bytes;
        self.read.append(&mut later.read);
        self.touched_to = self.touched_to.max(later.touched_to);
    }
}

/// Who names the path of a step.
#[derive(Clone, Copy)]
pub(crate) enum NamedBy {
    /// The call.
    Call,
    /// The kernel, at an exec: what interprets the script.
    Image,
    /// The kernel, at an exec: the loader.
    Loader,
}

/// A step without what its event tells.
#[derive(Clone, Copy)]
struct PackedStep {
    think: Nanos,
    event: u32,
    /// How much of the call's path is walked.
    walked: u16,
    kind: RequestKind,
    named: NamedBy,
}

/// The steps of a start, in order.
#[derive(Clone, Default)]
pub(crate) struct StartSteps<'a> {
    calls: Vec<PackedStep>,
    /// By the number of the step, ascending.
    fetched: Vec<(u32, StepData<'a>)>,
    /// The touches after the last step that has any.
    touched_to: usize,
}

impl<'a> StartSteps<'a> {
    /// None, with room for so many: what grows is there twice for a moment.
    pub(crate) fn with_room(most: usize) -> StartSteps<'a> {
        StartSteps { calls: Vec::with_capacity(most), ..StartSteps::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// A call, after so much computing. Of a path that the call names, the request's may be a part.
    pub(crate) fn push(
        &mut self,
        event: usize,
        think: Nanos,
        (named, request): (NamedBy, &PathRequest),
    ) {
        let (event, walked) = (event as u32, request.path.len() as u16);
        self.calls.push(PackedStep { think, event, walked, kind: request.kind, named });
    }

    /// Something is fetched after the last call; before the first one it counts for nothing.
    pub(crate) fn fetch(&mut self, data: StepData<'a>) {
        let is_nothing =
            data.bytes == 0 && data.read.is_empty() && data.touched_to <= self.touched_to;
        let Some(last) = self.calls.len().checked_sub(1).filter(|_| !is_nothing) else { return };
        self.touched_to = self.touched_to.max(data.touched_to);
        match self.fetched.last_mut() {
            Some((step, known)) if *step as usize == last => known.append(data),
            _ => self.fetched.push((last as u32, data)),
        }
    }

    /// The steps as they are replayed.
    pub(crate) fn iter<'s>(
        &'s self,
        recording: &'a Recording,
    ) -> impl Iterator<Item = StartStep<'s, 'a>> {
        let mut fetched = self.fetched.iter().peekable();
        self.calls.iter().enumerate().filter_map(move |(number, step)| {
            let data = fetched.next_if(|(of, _)| *of as usize == number).map(|(_, data)| data);
            step.unpacked(recording, data)
        })
    }

    /// The same without these calls: what is computed before them, and fetched after them, stays.
    /// With it, what is computed after the last one that is left.
    pub(crate) fn without(&self, is_gone: impl Fn(usize) -> bool) -> (StartSteps<'a>, Nanos) {
        let mut left = StartSteps::default();
        let mut think = Nanos(0);
        let mut pending = StepData::default();
        let mut fetched = self.fetched.iter().peekable();
        for (number, step) in self.calls.iter().enumerate() {
            think += step.think;
            if !is_gone(step.event as usize) {
                let think = std::mem::take(&mut think);
                left.calls.push(PackedStep { think, ..*step });
            }
            if let Some((_, data)) = fetched.next_if(|(of, _)| *of as usize == number) {
                pending.append(data.clone());
            }
            if !left.is_empty() {
                left.fetch(std::mem::take(&mut pending));
            }
        }
        (left, think)
    }

    pub(crate) fn thinking(&self) -> impl Iterator<Item = Nanos> {
        self.calls.iter().map(|step| step.think)
    }

    pub(crate) fn change_thinking(&mut self, changed: impl Fn(Nanos) -> Nanos) {
        self.calls.iter_mut().for_each(|step| step.think = changed(step.think));
    }

    /// The same where images need not be read.
    pub(crate) fn without_image_bytes(&self) -> StartSteps<'a> {
        let mut steps = self.clone();
        for (_, data) in &mut steps.fetched {
            data.bytes -= std::mem::take(&mut data.image_bytes).min(data.bytes);
        }
        steps
    }

    /// For how many bytes images are read.
    pub(crate) fn image_bytes(&self) -> u64 {
        self.fetched.iter().map(|(_, data)| data.image_bytes).sum()
    }

    /// How many bytes a node fetches.
    pub(crate) fn bytes(&self) -> u64 {
        self.fetched.iter().map(|(_, data)| data.bytes).sum()
    }
}

impl PackedStep {
    /// None where the recording is not that of the step.
    fn unpacked<'s, 'a>(
        &self,
        recording: &'a Recording,
        fetched: Option<&'s StepData<'a>>,
    ) -> Option<StartStep<'s, 'a>> {
        let event = recording.events.get(self.event as usize)?;
        let request = match self.named {
            NamedBy::Call => {
                let path = recording.path(event.path?);
                let other_path = event.other_path.map(|path| recording.path(path));
                let whole = PathRequest::of(event, path, other_path)?;
                let walked = usize::from(self.walked).min(path.len());
                PathRequest { path: &path[..walked], kind: self.kind, ..whole }
            }
            by_kernel => opened_by_kernel(recording, event)
                .find(|(named, _)| *named as u8 == by_kernel as u8)
                .map(|(_, request)| request)?,
        };
        Some(StartStep {
            event: self.event,
            think: self.think,
            is_at_once: is_at_once(recording, event),
            request,
            fetched,
        })
    }
}

/// Whether a call is made by one of the threads in which `becalm run` looks at what may have
/// changed: by none but those of a process's threads that are not its first.
fn is_at_once(recording: &Recording, event: &Event) -> bool {
    recording.process(event.process).pid != event.thread
        && recording.program(event.process, event.start).is_some_and(Exec::is_becalm_run)
}

/// What the kernel itself opens at an exec (execve(2)): a script's interpreter, and the loader.
pub(crate) fn opened_by_kernel<'a>(
    recording: &'a Recording,
    event: &Event,
) -> impl Iterator<Item = (NamedBy, PathRequest<'a>)> + use<'a> {
    let execs = &recording.process(event.process).execs;
    let exec = execs.iter().find(|exec| exec.at >= event.start);
    let image = exec.filter(|exec| exec.image != exec.path).map(|exec| exec.image);
    let loader = exec.and_then(|exec| exec.loader);
    let image = image.into_iter().map(|path| (NamedBy::Image, path));
    let opened = image.chain(loader.map(|path| (NamedBy::Loader, path)));
    opened.map(|(named, path)| {
        let path = recording.path(path);
        let request =
            PathRequest { kind: RequestKind::Open, path, enoent: false, other_path: None };
        (named, request)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_16_bytes() {
        assert_eq!(size_of::<PackedStep>(), 16);
    }
}
