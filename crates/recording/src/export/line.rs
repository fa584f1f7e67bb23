//! What a line of the JSON lines holds: the schema of what [`jsonl`](super::jsonl) writes field by
//! field.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use crate::{
    Blind, ByteUnits, Cause, ExitStatus, FileRange, Header, Kind, MappedElf, Micros, Name, Nanos,
    Phase, ProcessId, RecordingSummary, StartCall,
};

/// One line.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ExportLine {
    /// The first line.
    Header {
        /// `becalm.export/1`.
        schema: String,
        /// Where and when.
        header: Box<Header>,
        /// When it ended; null where the recording was cut.
        summary: Option<RecordingSummary>,
        /// Why there is no summary.
        cut: Option<String>,
    },
    /// A process began.
    Start {
        /// When, from the recording's start.
        at_ns: Nanos,
        /// Which process.
        #[serde(flatten)]
        who: LineProcess,
        /// The process that started it.
        parent: Option<ProcessId>,
        /// By which call.
        how: StartCall,
        /// Threads that it had in its life beside the first.
        threads: u32,
    },
    /// A process became a program.
    Exec {
        /// When, from the recording's start.
        at_ns: Nanos,
        /// Which process.
        #[serde(flatten)]
        who: LineProcess,
        /// What was executed: a script, for a script.
        #[serde(flatten)]
        path: LinePath,
        /// The file that runs: the interpreter, for a script.
        image: String,
        /// Its bytes in hexadecimal, where they are no UTF-8.
        #[serde(skip_serializing_if = "Option::is_none")]
        image_hex: Option<String>,
        /// The arguments as the new program found them, decoded with loss.
        argv: Vec<String>,
        /// The same exactly, where they do not tell it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        exact_argv: Vec<Name>,
        /// The working directory.
        cwd: String,
        /// Its bytes in hexadecimal, where they are no UTF-8.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd_hex: Option<String>,
        /// The dynamic loader.
        loader: Option<String>,
        /// Its bytes in hexadecimal, where they are no UTF-8.
        #[serde(skip_serializing_if = "Option::is_none")]
        loader_hex: Option<String>,
        /// Variables that steer searches.
        env: BTreeMap<String, String>,
    },
    /// A system call.
    Call(Box<LineCall>),
    /// A signal was delivered.
    Signal {
        /// When, from the recording's start.
        at_ns: Nanos,
        /// Which process.
        #[serde(flatten)]
        who: LineProcess,
        /// To which thread.
        thread: u32,
        /// Its number.
        signal: u8,
    },
    /// A part of a mapped file was touched for the first time in the run.
    Touch {
        /// When, from the recording's start.
        at_ns: Nanos,
        /// Which process.
        #[serde(flatten)]
        who: LineProcess,
        /// By which thread.
        thread: u32,
        /// Of which file.
        #[serde(flatten)]
        path: LinePath,
        /// Where, in bytes: of the 64 KiB that the kernel maps with the page other touches are not
        /// seen.
        offset: u64,
    },
    /// A process ended.
    End {
        /// When, from the recording's start.
        at_ns: Nanos,
        /// Which process.
        #[serde(flatten)]
        who: LineProcess,
        /// How.
        status: ExitStatus,
        /// CPU that it used itself in the program.
        user_us: Micros,
        /// CPU that it used itself in the kernel.
        system_us: Micros,
        /// Its largest resident set.
        max_rss_bytes: ByteUnits,
    },
    /// Something that the recording does not show.
    Blind {
        /// What.
        blind: Blind,
    },
    /// Where in its parent's script a process was started.
    Origin {
        /// Which process.
        #[serde(flatten)]
        who: LineProcess,
        /// The parent's resident set at that moment.
        rss_bytes: ByteUnits,
        /// The call stack, the innermost first; empty where the parent tells none.
        frames: Vec<LineFrame>,
    },
    /// What a mapped ELF file says of its search.
    Image {
        /// Of which file.
        #[serde(flatten)]
        path: LinePath,
        /// What it says.
        image: MappedElf,
    },
}

/// A process.
#[derive(JsonSchema)]
pub struct LineProcess {
    /// Its number in the recording, unlike a pid never used twice.
    pub process: ProcessId,
    /// The kernel's number.
    pub pid: u32,
}

/// A path.
#[derive(JsonSchema)]
pub struct LinePath {
    /// The path; where it is no UTF-8, with `\xNN` for what is not.
    pub path: String,
    /// Its bytes in hexadecimal, where they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
}

/// A frame of a script's call stack.
#[derive(JsonSchema)]
pub struct LineFrame {
    /// The file, as text to show; null for text that came from no file.
    pub file: Option<String>,
    /// The line in it, from 1; 0 where it is not known.
    pub line: u32,
    /// The function; empty outside of any.
    pub function: String,
}

/// A system call.
#[derive(JsonSchema)]
pub struct LineCall {
    /// Its start, from the recording's start.
    pub at_ns: Nanos,
    /// From entry to return, the recorder's own stop included.
    pub took_ns: Nanos,
    /// Which process.
    #[serde(flatten)]
    pub who: LineProcess,
    /// The kernel's thread id.
    pub thread: u32,
    /// Its name, as strace prints it.
    pub call: String,
    /// Its number in the table of `abi`.
    pub number: u32,
    /// The table: `x86_64`, `i386`, `x32` or `aarch64`, whichever machine reads it.
    pub abi: String,
    /// What it asks of a filesystem.
    pub kind: Kind,
    /// Whether a metadata server would serve it.
    pub metadata_op: bool,
    /// What it returned; null if it failed.
    pub result: Option<i64>,
    /// The error's name, e.g. `ENOENT`.
    pub error: Option<String>,
    /// The error's number.
    pub errno: Option<u16>,
    /// The full path that was asked for, or of the descriptor's file.
    pub path: Option<String>,
    /// Its bytes in hexadecimal, where they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// The second path of rename and link.
    pub other_path: Option<String>,
    /// Its bytes in hexadecimal, where they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_path_hex: Option<String>,
    /// The descriptor argument; the directory's, for calls that take one beside a path.
    pub fd: Option<i32>,
    /// open's flags, access's mode, mmap's protection, `AT_…` flags, clone's flags; else 0.
    pub flags: u64,
    /// The file that the calling instruction lies in.
    pub site: Option<String>,
    /// Its bytes in hexadecimal, where they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site_hex: Option<String>,
    /// Whether that is the dynamic loader.
    pub in_loader: bool,
    /// Whether the program had begun.
    pub phase: Phase,
    /// A call that can take a path was given only a descriptor: no lookup.
    pub by_descriptor: bool,
    /// Why it was made.
    pub cause: Cause,
    /// Whether only the path says so.
    pub inferred: bool,
    /// Which part of its file the call was about, where it says so itself.
    pub range: Option<FileRange>,
}
