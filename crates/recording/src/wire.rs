//! The records of a recording file, and how blocks are framed. docs/recording-format.md is the
//! same for readers who write their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ByteUnits, Event, Exec, ExitStatus, FileRange, LetGo, MappedElf, MountChange, Name, Nanos,
    Origin, ProcessId, StartCall, Touch, Usage,
};

/// The first bytes of every recording; the digit is the format's version.
pub(crate) const MAGIC: &[u8; 16] = b"becalm-record 1\n";

/// A block's kind, length and checksum: 1 + 4 + 4 + 4 bytes.
pub(crate) const FRAME: usize = 13;

/// No block unpacks to more than this; a reader refuses one that claims to.
pub(crate) const BLOCK_LIMIT: usize = 8 << 20;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// The header, as JSON.
    Header = b'H' as isize,
    /// Records, postcard after postcard.
    Records = b'R' as isize,
    /// The summary, as JSON. Only a recording that was ended has it.
    Summary = b'S' as isize,
}

impl BlockKind {
    pub(crate) fn from_byte(byte: u8) -> Option<BlockKind> {
        match byte {
            b'H' => Some(BlockKind::Header),
            b'R' => Some(BlockKind::Records),
            b'S' => Some(BlockKind::Summary),
            _ => None,
        }
    }
}

/// A path of the recording. The empty path is not one.
#[derive(
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct PathId(pub u32);

/// One thing that happened, in the order the recorder saw it end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The next path's bytes; its number is the count of `Path` records before it.
    Path(Vec<u8>),
    /// A system call. Its `start` is stored as the difference to the `Call` before it.
    Call(Event),
    /// A process began.
    Start {
        /// Its number: one more than the last.
        process: ProcessId,
        /// The kernel's number.
        pid: u32,
        /// Who started it.
        parent: Option<ProcessId>,
        /// By which call.
        how: StartCall,
        /// When.
        at: Nanos,
    },
    /// A thread beside a process's first began.
    Thread {
        /// Of which process.
        process: ProcessId,
        /// The kernel's thread id.
        thread: u32,
        /// When.
        at: Nanos,
    },
    /// A process became a program.
    Exec {
        /// Which process.
        process: ProcessId,
        /// The program.
        exec: Exec,
    },
    /// A process ended.
    End {
        /// Which process.
        process: ProcessId,
        /// When.
        at: Nanos,
        /// How.
        status: ExitStatus,
        /// What it used.
        usage: Usage,
    },
    /// What a mapped ELF file says of its search.
    Image {
        /// The file's path.
        path: crate::PathId,
        /// What it says.
        image: MappedElf,
    },
    /// Something that the recording does not show, and the reader must be told.
    Blind(Blind),
    /// A signal was delivered to a thread.
    Signal {
        /// To which process.
        process: ProcessId,
        /// To which of its threads.
        thread: u32,
        /// Which signal.
        signal: u8,
        /// When.
        at: Nanos,
    },
    /// Where in its parent's script a process was started; follows its start.
    Origin {
        /// Which process.
        process: ProcessId,
        /// Where.
        origin: Origin,
    },
    /// What a process sees mounted from now on.
    Mounts(MountChange),
    /// A part of a mapped file was touched for the first time in the run. Its `offset` and `at` are
    /// stored as the differences to the `Touch` before it.
    Touch(Touch),
    /// Which part of its file the `Call` before it was about: of calls that say so themselves.
    Range(FileRange),
    /// The arguments of a process's last exec, exactly: of one whose decoded arguments do not tell them.
    Words {
        /// Which process.
        process: ProcessId,
        /// Its arguments.
        words: Vec<Name>,
    },
}

/// A blind spot: what happened that the recorder cannot see, or had to change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Blind {
    /// A process set up io_uring: files it opens through the ring pass no system call.
    IoUring {
        /// Which process.
        process: ProcessId,
    },
    /// A set-user-id, set-group-id or capability-bearing program was executed; the kernel
    /// ignores those bits in a traced process without privilege.
    Setuid {
        /// Which process.
        process: ProcessId,
        /// Which program, lossily decoded.
        path: String,
    },
    /// A process asked to trace another (gdb, strace) and was refused, because a process can
    /// have one tracer only and becalm is it.
    TracerRefused {
        /// Which process.
        process: ProcessId,
    },
    /// A process installed a seccomp filter of its own; calls that it denies are not seen.
    OwnFilter {
        /// Which process.
        process: ProcessId,
    },
    /// becalm itself runs under a seccomp filter, so every call was stopped at, not only the
    /// recorded ones. Complete, but slower.
    OuterFilter,
    /// A process's memory could not be read; its paths are missing.
    Unreadable {
        /// Which process.
        process: ProcessId,
    },
    /// A process moved to another root or mount namespace; its paths are given as the recorder
    /// sees them, from outside, as far as it can.
    OtherRoot {
        /// Which process.
        process: ProcessId,
    },
    /// Descriptor calls came faster than they could be written down.
    Lost {
        /// How many are missing, at least.
        calls: u64,
    },
    /// The kernel refused the recorder what it needs to follow a process; what that was for is
    /// missing.
    RequestFailed {
        /// Which process.
        process: ProcessId,
        /// What was asked for, and the answer.
        error: String,
    },
    /// Page faults could not be watched: of what is touched through mappings it is only known what
    /// is still mapped in the end, and not in which order it was touched.
    FaultsUnseen {
        /// Of which process, and of those after it that need the same.
        process: ProcessId,
        /// What was asked for, and the answer.
        error: String,
    },
    /// Page faults came faster than they could be written down.
    FaultsLost {
        /// How many are missing.
        faults: u64,
    },
}

impl Blind {
    /// Whether it hides calls, so that the recording does not show all of the run.
    pub fn hides_calls(&self) -> bool {
        matches!(
            self,
            Blind::IoUring { .. }
                | Blind::OwnFilter { .. }
                | Blind::Lost { .. }
                | Blind::RequestFailed { .. }
        )
    }
}

/// The last block: present only where the recording was ended, not cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingSummary {
    /// When recording ended.
    pub ended: Nanos,
    /// How many calls it holds.
    pub calls: u64,
    /// How many processes.
    pub processes: u32,
    /// There if the program was let go of before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub let_go: Option<LetGo>,
    /// What bounds how much was read, where reads were not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwatched_reads: Option<UnwatchedReads>,
}

/// What a recording without reads knows of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnwatchedReads {
    /// What the command and those of its descendants that were waited for got from read(2) and its
    /// kin, of files and of all else (`rchar` of proc_pid_io(5)).
    pub bytes: ByteUnits,
    /// The files that were opened to be read, but by the loader, and their sizes when the recording
    /// ended.
    pub files: Vec<(PathId, ByteUnits)>,
}
