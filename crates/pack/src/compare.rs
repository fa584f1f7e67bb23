//! Two starts of a program compared, with other arguments, another environment and another place of the
//! vdso: each word that points into the stack or the vdso, and each that differs, is one that is known
//! to be made anew; else the program is not packed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use launch::LoadedStart;

use crate::arch::{PatchKind, PatchRecord};
use crate::calls::LoaderCalls;
use crate::regions::Region;

/// A start, stopped, and what is known of it.
pub(crate) struct StoppedStart {
    pub start: LoadedStart,
    pub regions: Vec<Region>,
    pub vector: Vec<(u64, (u64, u64))>,
    pub calls: LoaderCalls,
    stack: Region,
    vdso: Region,
    /// What the processor's clock said during it.
    time: Range<u64>,
    /// The loader's file.
    pub loader: Option<PathBuf>,
    /// What words may be made of.
    values: BTreeMap<PatchKind, u64>,
}

impl StoppedStart {
    /// Looks at a start, which took that time; else, why it is not packed.
    pub fn of(start: LoadedStart, time: Range<u64>) -> Result<StoppedStart, String> {
        let told = |error: io::Error| format!("it cannot be looked into: {error}");
        let maps = start.proc("maps").map_err(told)?;
        let regions = Region::all(&maps).ok_or("its mappings are not understood")?;
        let named = |name: &str| regions.iter().find(|region| region.name == name).cloned();
        let (stack, vdso) = (named("[stack]"), named("[vdso]"));
        let (stack, vdso) = stack.zip(vdso).ok_or("it has no stack, or no vdso")?;
        if stack.execute {
            return Err("its stack is executable".into());
        }
        let calls = LoaderCalls::of(&start.calls)?;
        let vector = start.vector().map_err(told)?;
        let value = |key| vector.iter().find(|(_, pair)| pair.0 == key).map(|(_, pair)| pair.1);
        let environment = start.environment().map_err(told)?;
        let mut values = BTreeMap::from([
            (PatchKind::Stack, start.stack),
            (PatchKind::Arguments, start.stack + 8),
            (PatchKind::Environment, environment),
            (PatchKind::AuxiliaryVector, vector.first().map_or(0, |(at, _)| *at)),
            (PatchKind::ArgumentCount, start.word(start.stack).map_err(told)?),
        ]);
        let keys = [
            (PatchKind::Random, libc::AT_RANDOM),
            (PatchKind::Platform, libc::AT_PLATFORM),
            (PatchKind::ProgramName, libc::AT_EXECFN),
        ];
        for (kind, key) in keys {
            values.insert(kind, value(key).ok_or("the kernel does not tell its loader enough")?);
        }
        let random = values[&PatchKind::Random];
        let guards = [start.word(random), start.word(random + 8)];
        let [stack_guard, pointer_guard] = guards.map(|guard| guard.map_err(told));
        values.insert(PatchKind::StackGuard, stack_guard? & !0xff);
        values.insert(PatchKind::PointerGuard, pointer_guard?);
        values.insert(PatchKind::Vdso, start.vdso);
        values.insert(PatchKind::ThreadNumber, start.pid() as u64);
        let resume = regions.iter().find(|region| region.contains(start.resume));
        let loader = resume.and_then(Region::file);
        Ok(StoppedStart { start, regions, vector, calls, stack, vdso, time, loader, values })
    }

    /// What it has mapped besides what each process has of the kernel.
    pub fn own_regions(&self) -> Vec<Region> {
        self.regions.iter().filter(|region| !region.is_kernels()).cloned().collect()
    }

    /// The content of a range.
    pub fn content(&self, start: u64, length: u64) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; length as usize];
        let read = self.start.read(start, &mut bytes);
        read.map(|()| bytes).map_err(|error| format!("its memory cannot be read: {error}"))
    }

    /// Whether a region is of the loader's file, or what lies behind it: variables that begin as 0.
    fn is_loaders(&self, region: &Region) -> bool {
        let is_file = |region: &Region| region.file().is_some() && region.file() == self.loader;
        let before = || self.regions.iter().find(|before| before.end == region.start);
        is_file(region) || region.name.is_empty() && before().is_some_and(is_file)
    }

    fn is_stack(&self, word: u64) -> bool {
        self.stack.contains(word)
    }

    /// The end, too: the loader keeps where the vdso ends.
    fn is_vdso(&self, word: u64) -> bool {
        (self.vdso.start..=self.vdso.end).contains(&word)
    }
}

/// Compares a region of two starts, and adds the words that are made anew.
pub(crate) fn compare(
    one: &StoppedStart,
    other: &StoppedStart,
    region: &Region,
    (patches, times): (&mut Vec<PatchRecord>, &mut usize),
) -> Result<(), String> {
    const AT_ONCE: u64 = 4 << 20;
    let mut at = region.start;
    while at < region.end {
        let length = AT_ONCE.min(region.end - at);
        let (first, second) = (one.content(at, length)?, other.content(at, length)?);
        // What is executed is compared; that its instructions look like an address means nothing.
        if !region.execute || first != second {
            let (first, _) = first.as_chunks::<8>();
            let (second, _) = second.as_chunks::<8>();
            for ((first, second), at) in first.iter().zip(second).zip((at..).step_by(8)) {
                let words = [*first, *second].map(u64::from_le_bytes);
                let is_plain =
                    words[0] == words[1] && !one.is_stack(words[0]) && !one.is_vdso(words[0]);
                if is_plain || is_of_file(region, at, words) {
                    continue;
                }
                match explain([one, other], at, words) {
                    Some(patch) => patches.extend(patch),
                    None if is_time([one, other], region, words) && *times < TIMES => *times += 1,
                    None => return Err(unknown(region, at, words)),
                }
            }
        }
        at += length;
    }
    Ok(())
}

/// Whether a word is what the file has there: no address, though it looks like one.
fn is_of_file(region: &Region, at: u64, words: [u64; 2]) -> bool {
    let mut bytes = [0; 8];
    let mut read =
        |path| File::open(path)?.read_exact_at(&mut bytes, region.offset + at - region.start);
    words[0] == words[1]
        && region.file().is_some_and(|path| read(path).is_ok())
        && u64::from_le_bytes(bytes) == words[0]
}

/// How many words of time the loader keeps: when it began, how long it loaded and relocated.
const TIMES: usize = 4;

/// Whether a word of the loader's own is when it began something, or how long that took, by the
/// processor's clock. It tells so where it is asked for statistics, and has done that by now
/// (`rtld_timer_start` and `print_statistics` of elf/rtld.c).
fn is_time(starts: [&StoppedStart; 2], region: &Region, words: [u64; 2]) -> bool {
    // No number of variables, arguments or bytes of them, and no process's.
    const LEAST: u64 = 1 << 13;
    let is_within = |(start, word): (&StoppedStart, u64)| {
        let length = start.time.end - start.time.start;
        let is_span = (LEAST..=length).contains(&word) && word != start.start.pid() as u64;
        is_span || start.time.contains(&word)
    };
    starts[0].is_loaders(region) && starts.into_iter().zip(words).all(is_within)
}

fn unknown(region: &Region, at: u64, words: [u64; 2]) -> String {
    let name = if region.name.is_empty() { "memory of the loader's own" } else { &region.name };
    let (at, [one, other]) = (at - region.start, words);
    format!(
        "a word of its state is not understood: byte {at:#x} of {name}, {one:#x} and {other:#x}"
    )
}

/// What a word is made of, if that is known; nothing, where it is written by other means.
fn explain(starts: [&StoppedStart; 2], at: u64, words: [u64; 2]) -> Option<Option<PatchRecord>> {
    let [one, other] = starts;
    let patch = |kind, add| Some(Some(PatchRecord { at, kind, add }));
    let is = |kind: &PatchKind| words == [one.values[kind], other.values[kind]];
    // rseq(2)'s area, which the kernel writes.
    if let Some([area, length, _]) = one.calls.rseq
        && (area..area.saturating_add(length)).contains(&at)
    {
        return Some(None);
    }
    if one.calls.random_key == Some(at) {
        return patch(PatchKind::RandomKey, 0);
    }
    if one.is_vdso(words[0]) {
        let adds = [words[0].wrapping_sub(one.start.vdso), words[1].wrapping_sub(other.start.vdso)];
        return if adds[0] == adds[1] { patch(PatchKind::Vdso, adds[0]) } else { None };
    }
    const POINTERS: [PatchKind; 7] = [
        PatchKind::Stack,
        PatchKind::Arguments,
        PatchKind::Environment,
        PatchKind::AuxiliaryVector,
        PatchKind::Random,
        PatchKind::Platform,
        PatchKind::ProgramName,
    ];
    if one.is_stack(words[0]) {
        return POINTERS.iter().find(|kind| is(kind)).and_then(|kind| patch(*kind, 0));
    }
    if let Some(guard) =
        [PatchKind::PointerGuard, PatchKind::StackGuard].iter().find(|kind| is(kind))
    {
        return patch(*guard, 0);
    }
    // An int: of the word, the other half is the same.
    let halves = words.map(|word| [word & 0xffff_ffff, word >> 32]);
    let is_half = |kind: &PatchKind, half: usize| {
        [halves[0][half], halves[1][half]] == [one.values[kind], other.values[kind]]
            && halves[0][1 - half] == halves[1][1 - half]
    };
    let ints = [PatchKind::ArgumentCount, PatchKind::ThreadNumber];
    let found = ints.into_iter().flat_map(|kind| [(kind, 0), (kind, 1)]);
    let (kind, half) = found.into_iter().find(|(kind, half)| is_half(kind, *half))?;
    Some(Some(PatchRecord { at: at + 4 * half as u64, kind, add: 0 }))
}
