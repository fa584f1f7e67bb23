//! How far the samples can be trusted: what has no name, and which stacks have no end.

use std::collections::HashMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::elf::{self, SymbolFacts};
use super::text::PerfSample;

/// What is missing or unsure, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProfileWarning {
    /// Which it is; see docs/schema/becalm.lab.profile.md.
    pub kind: &'static str,
    /// The file that it is about.
    pub object: Option<String>,
    /// How many samples it spoils.
    pub samples: u64,
    /// What is lost, and what to do: one sentence each.
    pub text: String,
}

/// One sample in this many must suffer from a file for a warning about it.
const WORTH: u64 = 50;

/// More objects than any program maps are not counted.
const OBJECTS: usize = 1 << 16;

/// The functions that a thread begins in: a stack that ends there is whole.
const ROOTS: &[&str] = &[
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "__libc_start_main_impl",
    "_dl_start_user",
    "_dl_start",
    "__clone",
    "clone",
    "clone3",
    "__clone3",
    "start_thread",
    "__vfork",
    "vfork",
    "_Fork",
    "__libc_fork",
];

/// What samples suffered from.
#[derive(Debug, Default)]
pub struct Quality {
    objects: HashMap<String, FrameCount>,
    /// In memory that no file is mapped to: code made at run time.
    made: u64,
    /// Kernel functions without a name.
    kernel: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct FrameCount {
    /// Samples in which a frame of it has no name.
    nameless: u64,
    /// Stacks that end in it, and should not.
    endless: u64,
}

impl Quality {
    /// Takes a sample in.
    pub fn take(&mut self, sample: &PerfSample) {
        if sample.frames.iter().any(|frame| frame.kernel && frame.symbol.is_none()) {
            self.kernel += 1;
        }
        let user = || sample.frames.iter().filter(|frame| !frame.kernel);
        let nameless = || user().filter(|frame| frame.symbol.is_none());
        if nameless().any(|frame| is_made(frame.object.as_deref())) {
            self.made += 1;
        }
        let mut seen: Vec<&str> = nameless().filter_map(|frame| frame.object.as_deref()).collect();
        seen.sort_unstable();
        seen.dedup();
        for object in seen {
            if let Some(count) = self.count(object) {
                count.nameless += 1;
            }
        }
        if let Some(last) = user().next_back()
            && (sample.cut || last.symbol.as_deref().is_some_and(|name| !is_root(name)))
            && let Some(count) = last.object.as_deref().and_then(|object| self.count(object))
        {
            count.endless += 1;
        }
    }

    fn count(&mut self, object: &str) -> Option<&mut FrameCount> {
        if !object.starts_with('/') || is_made(Some(object)) {
            return None;
        }
        if !self.objects.contains_key(object) && self.objects.len() >= OBJECTS {
            return None;
        }
        Some(self.objects.entry(object.to_owned()).or_default())
    }

    /// What is worth saying, with what spoils most first. Where the kernel is not sampled, its
    /// names are not missed.
    pub fn warnings(&self, samples: u64, kernel: bool) -> Vec<ProfileWarning> {
        let worth = |count: u64| count > 0 && count.saturating_mul(WORTH) >= samples;
        let mut warnings = Vec::new();
        for (object, count) in &self.objects {
            if !worth(count.nameless) && !worth(count.endless) {
                continue;
            }
            let facts = elf::facts(Path::new(object));
            let lost_names = facts.is_some_and(|facts| !facts.symbols);
            if worth(count.nameless) && lost_names {
                warnings.push(no_symbols(object, count.nameless));
            }
            if worth(count.endless) {
                warnings.push(endless(object, count.endless, facts));
            }
        }
        // A process that is just becoming a program has such frames, too.
        if self.made.saturating_mul(10) >= samples && self.made > 0 {
            warnings.push(made(self.made));
        }
        if kernel && worth(self.kernel) {
            warnings.push(nameless_kernel(self.kernel));
        }
        warnings.sort_by(|a, b| (b.samples, &a.object).cmp(&(a.samples, &b.object)));
        warnings
    }
}

fn is_root(symbol: &str) -> bool {
    // perf puts a symbol's version behind it: `clone3@@GLIBC_2.34`.
    ROOTS.contains(&symbol.split('@').next().unwrap_or(symbol))
}

/// Code that no file holds: a JIT's.
fn is_made(object: Option<&str>) -> bool {
    object.is_none_or(|object| object.starts_with("//anon") || object.starts_with("/memfd:"))
}

/// Whether a distribution's package is likely to own the file.
fn is_packaged(object: &str) -> bool {
    ["/usr/", "/lib", "/bin/", "/sbin/"].iter().any(|top| object.starts_with(top))
        && !object.starts_with("/usr/local/")
}

fn no_symbols(object: &str, samples: u64) -> ProfileWarning {
    let cure = if is_packaged(object) {
        "install its debug package (Debian: the package's name with -dbgsym, libc6-dbg for \
         glibc; Fedora, RHEL: dnf debuginfo-install)"
    } else {
        "compile it with -g1 and do not strip it"
    };
    ProfileWarning {
        kind: "no_symbols",
        object: Some(object.to_owned()),
        samples,
        text: format!("it has no names for its functions; {cure}"),
    }
}

fn endless(object: &str, samples: u64, facts: Option<SymbolFacts>) -> ProfileWarning {
    let (kind, text) = match facts {
        Some(SymbolFacts { unwind: false, .. }) => (
            "no_unwind",
            "stacks end in it, because it has no unwind data; compile it with -g1 or \
             -fasynchronous-unwind-tables",
        ),
        _ => (
            "cut_stacks",
            "stacks end in it before their start, perf could not unwind them further; where they \
             are deep, take more of them with --stack-bytes 65528, else compile it with -g1",
        ),
    };
    let (object, text) = (Some(object.to_owned()), text.to_owned());
    ProfileWarning { kind, object, samples, text }
}

fn made(samples: u64) -> ProfileWarning {
    ProfileWarning {
        kind: "made_code",
        object: None,
        samples,
        text: "code that was made at run time has no names; have the runtime write a \
               /tmp/perf-PID.map (python3 -X perf, node --perf-basic-prof)"
            .to_owned(),
    }
}

fn nameless_kernel(samples: u64) -> ProfileWarning {
    ProfileWarning {
        kind: "kernel_symbols",
        object: None,
        samples,
        text: "the kernel does not tell the names of its functions \
               (kernel.kptr_restrict, kernel.perf_event_paranoid); run as root, or have both lowered"
            .to_owned(),
    }
}
