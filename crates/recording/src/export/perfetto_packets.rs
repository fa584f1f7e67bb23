//! The packets of a trace of Perfetto.

use std::collections::HashMap;
use std::io::{self, Write};

use super::protobuf::ProtoMessage;
use crate::{Nanos, Process, ProcessId};

/// `Trace`.
const PACKET: u32 = 1;

/// Fields of `TracePacket`.
mod packet {
    pub(super) const PROCESS_TREE: u32 = 2;
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

/// `SequenceFlags`: what was interned before is forgotten; what is interned is needed.
const CLEARED: u64 = 1;
const NEEDED: u64 = 2;

/// `BuiltinClock`: BOOTTIME is what times of packets are in, if nothing is said.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;

/// `TrackEvent.Type`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SliceKind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// A track's number, which no other has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TrackUuid(u64);

impl TrackUuid {
    const THREADS: u64 = 1 << 40;
    const COUNTERS: u64 = 1 << 41;

    pub(super) fn process(process: ProcessId) -> TrackUuid {
        TrackUuid(1 + u64::from(process.0))
    }

    pub(super) fn thread(number: u64) -> TrackUuid {
        TrackUuid(TrackUuid::THREADS + number)
    }
}

/// What is said of a slice.
pub(super) enum Annotation<'a> {
    Text(&'a str),
    Number(i64),
    Flag(bool),
}

/// Texts that are written once, and by number from then on: the field of `InternedData` that has
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Interned {
    Category = 1,
    Name = 2,
    AnnotationName = 3,
    AnnotationText = 29,
}

/// Writes packets.
pub(super) struct PacketWriter<'o> {
    out: &'o mut dyn Write,
    interned: HashMap<Interned, HashMap<Box<str>, u64>>,
    /// How many texts there are.
    texts: u64,
    /// What this packet interns.
    new: ProtoMessage,
}

/// More texts than this are not kept: one that comes after is written each time.
const MOST_TEXTS: u64 = 1 << 20;

impl<'o> PacketWriter<'o> {
    /// Begins a trace that was started so many seconds after 1970.
    pub(super) fn begin(out: &'o mut dyn Write, started_unix: u64) -> io::Result<PacketWriter<'o>> {
        let interned = HashMap::new();
        let mut packets = PacketWriter { out, interned, texts: 0, new: ProtoMessage::default() };
        packets.put(Some(Nanos(0)), CLEARED, |packet| {
            packet.message(packet::CLOCK_SNAPSHOT, |snapshot| {
                for (clock, at) in
                    [(BOOTTIME, 0), (REALTIME, started_unix.saturating_mul(1_000_000_000))]
                {
                    snapshot.message(1, |message| {
                        message.number(1, clock).number(2, at);
                    });
                }
                snapshot.number(2, BOOTTIME);
            });
        })?;
        Ok(packets)
    }

    /// `ProcessTree`: who started whom.
    pub(super) fn process_tree(
        &mut self,
        processes: &[Process],
        argv: impl Fn(&Process) -> Vec<String>,
    ) -> io::Result<()> {
        // A packet each: a pid may be used twice, and the tree is then another.
        for process in processes {
            self.put(Some(process.started), 0, |packet| {
                packet.message(packet::PROCESS_TREE, |tree| {
                    tree.message(1, |message| {
                        message.number(1, process.pid.into());
                        let parent = process.parent.map(|id| &processes[id.0 as usize]);
                        message.number(2, parent.map_or(0, |parent| parent.pid.into()));
                        for word in argv(process) {
                            message.text(3, word);
                        }
                    });
                });
            })?;
        }
        Ok(())
    }

    /// A process's track.
    pub(super) fn process_track(&mut self, process: &Process, name: &str) -> io::Result<()> {
        self.put(Some(process.started), 0, |packet| {
            packet.message(packet::TRACK_DESCRIPTOR, |track| {
                track.number(1, TrackUuid::process(process.id).0);
                track.message(3, |described| {
                    described.number(1, process.pid.into()).text(6, name);
                });
            });
        })
    }

    /// A thread's track.
    pub(super) fn thread_track(
        &mut self,
        uuid: TrackUuid,
        process: &Process,
        thread: u32,
    ) -> io::Result<()> {
        self.put(None, 0, |packet| {
            packet.message(packet::TRACK_DESCRIPTOR, |track| {
                track.number(1, uuid.0).number(5, TrackUuid::process(process.id).0);
                track.message(4, |described| {
                    described.number(1, process.pid.into()).number(2, thread.into());
                });
            });
        })
    }

    /// The tracks of counters: their names and units.
    pub(super) fn counter_tracks(&mut self, counters: &[(&str, &str)]) -> io::Result<()> {
        for (at, (name, unit)) in (0u64..).zip(counters) {
            self.put(None, 0, |packet| {
                packet.message(packet::TRACK_DESCRIPTOR, |track| {
                    track.number(1, TrackUuid::COUNTERS + at).text(2, name);
                    track.message(8, |counter| {
                        counter.text(6, unit);
                    });
                });
            })?;
        }
        Ok(())
    }

    /// A sample of each counter.
    pub(super) fn counters(&mut self, at: Nanos, values: [u64; 2]) -> io::Result<()> {
        for (track, value) in (TrackUuid::COUNTERS..).zip(values) {
            self.put(Some(at), NEEDED, |packet| {
                packet.message(packet::TRACK_EVENT, |event| {
                    event.number(9, SliceKind::Counter as u64).number(11, track).number(30, value);
                });
            })?;
        }
        Ok(())
    }

    /// The beginning of a slice, or an instant.
    pub(super) fn slice(
        &mut self,
        kind: SliceKind,
        track: TrackUuid,
        at: Nanos,
        name: &str,
        category: &str,
        about: &[(&'static str, Annotation)],
    ) -> io::Result<()> {
        let mut event = ProtoMessage::default();
        event.number(9, kind as u64).number(11, track.0);
        match self.intern(Interned::Category, category) {
            Some(number) => event.number(3, number),
            None => event.text(22, category),
        };
        match self.intern(Interned::Name, name) {
            Some(number) => event.number(10, number),
            None => event.text(23, name),
        };
        for (name, value) in about {
            let named = self.intern(Interned::AnnotationName, name);
            let text = match value {
                Annotation::Text(text) => self.intern(Interned::AnnotationText, text),
                Annotation::Number(_) | Annotation::Flag(_) => None,
            };
            event.message(4, |annotation| {
                match named {
                    Some(number) => annotation.number(1, number),
                    None => annotation.text(10, name),
                };
                match (value, text) {
                    (Annotation::Text(_), Some(number)) => annotation.number(17, number),
                    (Annotation::Text(text), None) => annotation.text(6, text),
                    (Annotation::Number(number), _) => annotation.number(4, *number as u64),
                    (Annotation::Flag(flag), _) => annotation.number(2, u64::from(*flag)),
                };
            });
        }
        self.event(at, &event)
    }

    /// The end of the slice that was begun last on a track.
    pub(super) fn end_of_slice(&mut self, track: TrackUuid, at: Nanos) -> io::Result<()> {
        let mut event = ProtoMessage::default();
        event.number(9, SliceKind::End as u64).number(11, track.0);
        self.event(at, &event)
    }

    fn event(&mut self, at: Nanos, event: &ProtoMessage) -> io::Result<()> {
        self.put(Some(at), NEEDED, |packet| {
            packet.text(packet::TRACK_EVENT, event.bytes());
        })
    }

    /// The number of a text; none where there are too many.
    fn intern(&mut self, kind: Interned, text: &str) -> Option<u64> {
        let texts = self.interned.entry(kind).or_default();
        if let Some(number) = texts.get(text) {
            return Some(*number);
        }
        if self.texts >= MOST_TEXTS {
            return None;
        }
        // 0 is none.
        self.texts += 1;
        let number = self.texts;
        texts.insert(text.into(), number);
        self.new.message(kind as u32, |entry| {
            entry.number(1, number).text(2, text);
        });
        Some(number)
    }

    fn put(
        &mut self,
        at: Option<Nanos>,
        flags: u64,
        fill: impl FnOnce(&mut ProtoMessage),
    ) -> io::Result<()> {
        let mut packet = ProtoMessage::default();
        if let Some(at) = at {
            packet.number(packet::TIMESTAMP, at.0);
        }
        packet.number(packet::SEQUENCE, 1);
        if flags != 0 {
            packet.number(packet::SEQUENCE_FLAGS, flags);
        }
        if !self.new.is_empty() {
            let new = std::mem::take(&mut self.new);
            packet.text(packet::INTERNED_DATA, new.bytes());
        }
        fill(&mut packet);
        let mut framed = ProtoMessage::default();
        framed.text(PACKET, packet.bytes());
        self.out.write_all(framed.bytes())
    }
}
