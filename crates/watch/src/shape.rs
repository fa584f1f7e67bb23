//! Which calls the tracer stops at, and which it records.

use recording::{Abi, Call};
use tap::WatchedCall;

use crate::arguments::{CallShape, Special, arguments_of};
use crate::{RecordedStarts, arch};

/// When a call stops for the tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopRule {
    /// Not at all.
    Never,
    /// Always.
    Always,
    /// If the low half of this argument has this value.
    IfArgument(u8, u32),
    /// If the low half of this argument has none of these bits.
    UnlessArgumentHas(u8, u32),
    /// Unless the descriptor that is this argument is one that the process has opened, no standard
    /// one, and another argument, if one counts, lies between two values.
    UnlessOpened(u8, Option<(u8, u32, u32)>),
    /// If it is mmap(2), unless it maps anonymous memory, or a file that the process has opened for
    /// itself.
    UnlessMapsForItself,
    /// If it maps something of a file, by mmap's arguments: instructions, or at least
    /// [`crate::faults::LARGE`] bytes.
    IfMaps {
        /// Instructions.
        code: bool,
        /// Many bytes.
        much: bool,
    },
}

/// How much of a run is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every system call.
    All,
    /// strace's `%file,%desc,%process`.
    Default,
    /// The same without what is about open descriptors and is no metadata operation.
    Metadata,
    /// What starts processes, and when their loader is done.
    Starts(RecordedStarts),
}

/// The shapes of all calls of the machine's tables.
pub(crate) struct CallShapes {
    tables: Vec<TableShapes>,
}

/// The shapes of one table.
pub(crate) struct TableShapes {
    /// The audit architecture by which the filter knows it.
    pub arch: u32,
    abi: Abi,
    shapes: Vec<CallShape>,
    /// Where the filter stops, by number, ascending.
    pub stops: Vec<(u16, StopRule)>,
}

/// Native calls that need nothing done before they are made, and nothing asked of the kernel while
/// their thread still stands at them: they can be reported afterwards, by a tap, instead of stopping.
pub(crate) fn tappable() -> Vec<WatchedCall> {
    let (shapes, _) = table(arch::NATIVE, Extent::Default);
    let tapped = |call: Call| {
        let (class, shape) = (call.class(), &shapes[usize::from(call.number())]);
        let after = match shape.special {
            Special::None | Special::Open => class.desc || shape.path.is_some(),
            Special::Close | Special::CloseRange | Special::Dup | Special::DupTo => true,
            Special::Fcntl | Special::Map | Special::StackLimit | Special::Wait => true,
            _ => false,
        };
        let starts = class.process && shape.special != Special::Wait;
        let known = class.file <= shape.path.is_some() && !starts;
        let strings = [shape.path, shape.other_path];
        let (number, stops_in_proc) = (call.number(), shape.special == Special::Open);
        (known && after).then_some(WatchedCall { number, strings, stops_in_proc })
    };
    Call::all(arch::NATIVE).filter_map(tapped).collect()
}

impl CallShapes {
    /// The shapes for a recording of so much.
    pub fn new(extent: Extent) -> CallShapes {
        let shapes_of = |(arch, abi)| {
            let (shapes, stops) = table(abi, extent);
            TableShapes { arch, abi, shapes, stops }
        };
        CallShapes { tables: arch::TABLES.into_iter().map(shapes_of).collect() }
    }

    /// Has these native calls run through, but for waits that can last: their threads are known to
    /// sleep, and some are answered here.
    pub fn without(mut self, tapped: &[WatchedCall]) -> CallShapes {
        for table in self.tables.iter_mut().filter(|table| table.abi == arch::NATIVE) {
            for call in tapped {
                table.shapes[usize::from(call.number)].tapped = true;
            }
            let shapes = &table.shapes;
            table.stops.retain_mut(|(number, rule)| {
                let shape = &shapes[usize::from(*number)];
                if shape.tapped && shape.special == Special::Wait {
                    *rule = StopRule::UnlessArgumentHas(2, libc::WNOHANG as u32);
                    return true;
                }
                !shape.tapped
            });
        }
        self
    }

    /// Has native mappings of much of a file stop, whoever reports them: page faults are watched
    /// from then on.
    pub fn with_large_mappings(mut self) -> CallShapes {
        for table in self.tables.iter_mut().filter(|table| table.abi == arch::NATIVE) {
            let mmap = Call::all(table.abi).find(|call| call.known_name() == Some("mmap"));
            let Some(number) = mmap.map(Call::number) else { continue };
            match table.stops.binary_search_by_key(&number, |(number, _)| *number) {
                Err(place) => {
                    // A process may map much by many libraries, and hardly stop otherwise.
                    let rule = StopRule::IfMaps { code: true, much: true };
                    table.stops.insert(place, (number, rule));
                }
                Ok(place) => {
                    if let StopRule::IfMaps { much, .. } = &mut table.stops[place].1 {
                        *much = true;
                    }
                }
            }
        }
        self
    }

    /// The tables, the machine's own first.
    pub fn tables(&self) -> &[TableShapes] {
        &self.tables
    }

    /// The shape of a call; of one that no table knows, that of a call without arguments.
    pub fn of(&self, call: Call) -> CallShape {
        let abi = if call.abi() == Abi::X32 { Abi::X86_64 } else { call.abi() };
        let table = self.tables.iter().find(|table| table.abi == abi);
        let shape = table.and_then(|table| table.shapes.get(usize::from(call.number())));
        shape.copied().unwrap_or(CallShape::NONE)
    }
}

fn table(abi: Abi, extent: Extent) -> (Vec<CallShape>, Vec<(u16, StopRule)>) {
    let (mut shapes, mut stops) = (Vec::new(), Vec::new());
    let is_starts = matches!(extent, Extent::Starts(_));
    for call in Call::all(abi) {
        let name = call.known_name().unwrap_or_default();
        let mut shape = match (abi, name) {
            // The old 32-bit mmap has its arguments in a structure.
            (Abi::I386, "mmap") => CallShape::NONE,
            _ => arguments_of(name),
        };
        shape.kind = call.kind();
        // A call that never returns is never an event.
        let returns = !matches!(name, "exit" | "exit_group");
        shape.recorded = returns
            && match extent {
                Extent::All => true,
                Extent::Default => call.class().recorded(),
                Extent::Metadata => is_of_metadata(call, &shape),
                Extent::Starts(_) => is_of_starts(shape.special),
            };
        match name {
            "readlink" if is_starts => shape.special = Special::Told,
            // 64-bit Arm has no other, and readlink(3) makes it.
            "readlinkat" if is_starts && abi == Abi::Aarch64 => shape.special = Special::Told,
            "open" | "openat" if extent == Extent::Starts(RecordedStarts::AndLocales) => {
                (shape.special, shape.recorded) = (Special::Locale, true);
            }
            _ => {}
        }
        let stop = match name {
            "prlimit64" if extent != Extent::All => StopRule::IfArgument(1, libc::RLIMIT_STACK),
            _ if extent == Extent::Metadata && shape.special == Special::Map => {
                StopRule::IfMaps { code: true, much: false }
            }
            _ if shape.recorded => StopRule::Always,
            "prctl" => StopRule::IfArgument(0, libc::PR_SET_SECCOMP as u32),
            _ if is_starts && is_of_files(shape.special) => StopRule::Never,
            _ if extent == Extent::Metadata && is_of_descriptors(shape.special) => StopRule::Never,
            _ if shape.special != Special::None => StopRule::Always,
            _ => StopRule::Never,
        };
        let number = usize::from(call.number());
        if shapes.len() <= number {
            let recorded = extent == Extent::All;
            shapes.resize(number + 1, CallShape { recorded, ..CallShape::NONE });
        }
        shapes[number] = shape;
        if stop != StopRule::Never {
            stops.push((call.number(), stop));
        }
    }
    (shapes, stops)
}

/// What starts a process, tells who waited for it, or where it is started.
fn is_of_starts(special: Special) -> bool {
    matches!(
        special,
        Special::Exec
            | Special::Fork
            | Special::Vfork
            | Special::Clone
            | Special::Clone3
            | Special::Wait
            | Special::Waitid
            | Special::Chdir
            | Special::Fchdir
            | Special::StackLimit
    )
}

/// What a metadata server serves, and what makes, ends or waits for processes.
fn is_of_metadata(call: Call, shape: &CallShape) -> bool {
    let class = call.class();
    class.process || shape.kind.is_metadata() || (class.file && shape.path.is_some())
}

/// What has to be done at a call only to know what descriptors stand for, which can be asked.
fn is_of_descriptors(special: Special) -> bool {
    use Special::{Close, CloseRange, Dup, DupTo, Fcntl};
    matches!(special, Close | CloseRange | Dup | DupTo | Fcntl)
}

/// What has to be done at a call only for the sake of calls on files that come later.
fn is_of_files(special: Special) -> bool {
    matches!(
        special,
        Special::Open
            | Special::Openat2
            | Special::Close
            | Special::CloseRange
            | Special::Dup
            | Special::DupTo
            | Special::Fcntl
            | Special::Map
            | Special::Rename
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Call {
        Call::all(arch::NATIVE).find(|call| call.known_name() == Some(name)).unwrap()
    }

    fn shape(name: &str) -> CallShape {
        CallShapes::new(Extent::Default).of(named(name))
    }

    #[test]
    fn a_tap_reports_what_need_not_stop_with_its_paths() {
        let tapped = tappable();
        let of = |name: &str| tapped.iter().find(|call| call.number == named(name).number());
        let after = [
            "read",
            "close",
            "mmap",
            "getdents64",
            "fcntl",
            "openat",
            "newfstatat",
            "prlimit64",
            "wait4",
        ];
        assert!(after.into_iter().all(|name| of(name).is_some()));
        let before =
            ["setns", "io_uring_setup", "waitid", "execve", "chdir", "renameat2", "openat2"];
        assert!(before.into_iter().all(|name| of(name).is_none()));
        assert_eq!(of("linkat").map(|call| call.strings), Some([Some(1), Some(3)]));
        assert_eq!(of("symlinkat").map(|call| call.strings), Some([Some(2), None]));
    }

    #[test]
    fn the_default_recording_stops_at_its_classes_and_at_what_the_tracer_must_know() {
        let shapes = CallShapes::new(Extent::Default);
        let stops = |name: &str| {
            let number = named(name).number();
            shapes.tables()[0]
                .stops
                .iter()
                .find(|(known, _)| *known == number)
                .map(|(_, stop)| *stop)
        };
        assert_eq!(stops("openat"), Some(StopRule::Always));
        assert_eq!(stops("close_range"), Some(StopRule::Always));
        assert!(!shape("close_range").recorded);
        assert_eq!(stops("futex"), None);
        assert_eq!(stops("prctl"), Some(StopRule::IfArgument(0, 22)));
    }

    #[test]
    fn without_data_no_call_stops_that_only_moves_data_or_closes() {
        let shapes = CallShapes::new(Extent::Metadata);
        let stops: Vec<u16> = shapes.tables()[0].stops.iter().map(|(number, _)| *number).collect();
        let has = |name: &str| stops.contains(&named(name).number());
        let none =
            ["read", "write", "pread64", "close", "dup3", "fcntl", "lseek", "fstat", "ppoll"];
        assert!(!none.into_iter().any(has));
        let all = ["openat", "getdents64", "newfstatat", "execve", "clone", "wait4", "chdir"];
        assert!(all.into_iter().all(has));
        assert!(has("fchdir") && has("renameat2") && has("unshare") && has("prlimit64"));
        let mmap = shapes.tables()[0].stops.iter().find(|(it, _)| *it == named("mmap").number());
        let code = StopRule::IfMaps { code: true, much: false };
        assert_eq!(mmap.map(|(_, stop)| *stop), Some(code));
    }

    /// What readlink(3) makes: hooks of languages tell by it, and a loop of realpath(1)'s need not stop.
    #[test]
    fn where_starts_are_recorded_what_a_hook_tells_is_heard_on_each_processor() {
        for (abi, call) in [(Abi::X86_64, "readlink"), (Abi::Aarch64, "readlinkat")] {
            let (shapes, stops) = table(abi, Extent::Starts(RecordedStarts::Alone));
            let heard: Vec<_> = Call::all(abi)
                .filter(|call| shapes[usize::from(call.number())].special == Special::Told)
                .map(|call| {
                    let rule = stops.iter().find(|(number, _)| *number == call.number());
                    (call.known_name(), rule.map(|(_, rule)| *rule))
                })
                .collect();
            assert_eq!(heard, [(Some(call), Some(StopRule::Always))]);
        }
    }
}
