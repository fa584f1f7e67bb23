use super::*;
use crate::setting::{Cpu, Features};

fn profile(version: (u32, u32)) -> GlibcProfile {
    let features = Features::BASELINE | Features::V2 | Features::V3;
    GlibcProfile::x86_64(version, Cpu { features, ..Cpu::default() })
}

/// An entry: name, path, flags, hwcap.
type CacheLine = (&'static str, &'static str, u32, u64);

const PLAIN: u32 = 0x303;
/// An extension's hwcap: a name of glibc-hwcaps by number, and the level that it needs.
const fn named(number: u64, level: u64) -> u64 {
    1 << 62 | level << 32 | number
}

/// A cache in the new format, its names below glibc-hwcaps in an extension.
fn new_format(entries: &[CacheLine], hwcaps: &[&str]) -> Vec<u8> {
    let mut texts = Vec::new();
    let start = NEW_HEADER + entries.len() * NEW_ENTRY;
    let mut put = |text: &str| {
        let at = start + texts.len();
        texts.extend_from_slice(text.as_bytes());
        texts.push(0);
        at as u32
    };
    let mut table = Vec::new();
    for (name, path, flags, hwcap) in entries {
        for word in [*flags, put(name), put(path), 0] {
            table.extend(word.to_le_bytes());
        }
        table.extend(hwcap.to_le_bytes());
    }
    let hwcaps: Vec<u32> = hwcaps.iter().map(|name| put(name)).collect();
    while !(start + texts.len()).is_multiple_of(4) {
        texts.push(0);
    }
    let extension = (start + texts.len()) as u32;
    let mut bytes = NEW_MAGIC.to_vec();
    for word in [entries.len() as u32, texts.len() as u32, 2, extension, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(table);
    bytes.extend(texts);
    let list = extension + 8 + 16;
    for word in [EXTENSION_MAGIC, 1, HWCAPS_TAG, 0, list, hwcaps.len() as u32 * 4] {
        bytes.extend(word.to_le_bytes());
    }
    hwcaps.iter().for_each(|offset| bytes.extend(offset.to_le_bytes()));
    bytes
}

fn old_format(entries: &[CacheLine]) -> Vec<u8> {
    let mut bytes = OLD_MAGIC.to_vec();
    bytes.push(0);
    bytes.extend((entries.len() as u32).to_le_bytes());
    let mut texts = Vec::new();
    for (name, path, flags, _) in entries {
        let name_at = texts.len() as u32;
        texts.extend_from_slice(name.as_bytes());
        texts.push(0);
        let path_at = texts.len() as u32;
        texts.extend_from_slice(path.as_bytes());
        texts.push(0);
        [*flags, name_at, path_at].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    }
    bytes.extend(texts);
    bytes
}

fn look(bytes: &[u8], name: &str, profile: &GlibcProfile) -> Option<String> {
    let cache = LdSoCache::parse(bytes.into(), profile)?;
    let path = cache.lookup(OsStr::new(name), profile, false)?;
    Some(path.to_string_lossy().into_owned())
}

const ENTRIES: &[CacheLine] = &[
    ("libz.so.10", "/lib/libz.so.10", PLAIN, 0),
    ("libz.so.9", "/lib/v4/libz.so.9", PLAIN, named(2, 3)),
    ("libz.so.9", "/lib/v2/libz.so.9", PLAIN, named(0, 1)),
    ("libz.so.9", "/lib/v3/libz.so.9", PLAIN, named(1, 2)),
    ("libz.so.9", "/lib/libz.so.9", PLAIN, 0),
    ("libm.so.6", "/lib/haswell/libm.so.6", PLAIN, 1 << 50),
    ("libm.so.6", "/lib/tls/libm.so.6", PLAIN, 1 << 63),
    ("libm.so.6", "/lib/libm.so.6", PLAIN, 0),
    ("liba.so", "/lib32/liba.so", 3, 0),
];
const NAMES: &[&str] = &["x86-64-v2", "x86-64-v3", "x86-64-v4"];

#[test]
fn the_best_level_that_the_cpu_reaches_wins() {
    let bytes = new_format(ENTRIES, NAMES);
    assert_eq!(look(&bytes, "libz.so.9", &profile((2, 36))).unwrap(), "/lib/v3/libz.so.9");
    assert_eq!(look(&bytes, "libz.so.9", &profile((2, 39))).unwrap(), "/lib/v3/libz.so.9");
    let mut baseline = profile((2, 36));
    baseline.cpu.features = Features::BASELINE;
    baseline.renew();
    assert_eq!(look(&bytes, "libz.so.9", &baseline).unwrap(), "/lib/libz.so.9");
}

/// Bit 62 was chosen so that older loaders pass such entries over (sysdeps/generic/dl-cache.h).
#[test]
fn loaders_before_2_33_pass_named_levels_over() {
    let bytes = new_format(ENTRIES, NAMES);
    for version in [(2, 17), (2, 28), (2, 31)] {
        assert_eq!(look(&bytes, "libz.so.9", &profile(version)).unwrap(), "/lib/libz.so.9");
    }
}

#[test]
fn legacy_capabilities_count_up_to_2_36() {
    let bytes = new_format(ENTRIES, NAMES);
    let mut haswell = profile((2, 31));
    assert_eq!(look(&bytes, "libm.so.6", &haswell).unwrap(), "/lib/tls/libm.so.6");
    haswell.cpu.intel = true;
    haswell.renew();
    assert_eq!(look(&bytes, "libm.so.6", &haswell).unwrap(), "/lib/haswell/libm.so.6");
    assert_eq!(look(&bytes, "libm.so.6", &profile((2, 37))).unwrap(), "/lib/libm.so.6");
}

#[test]
fn entries_of_other_libraries_are_passed_over() {
    let bytes = new_format(ENTRIES, NAMES);
    assert_eq!(look(&bytes, "liba.so", &profile((2, 36))), None);
    let narrow = GlibcProfile::i386((2, 36), Cpu::default());
    assert_eq!(look(&bytes, "liba.so", &narrow).unwrap(), "/lib32/liba.so");
    assert_eq!(look(&bytes, "libabsent.so", &narrow), None);
}

#[test]
fn the_old_format_is_read_alone_and_with_the_new_one_behind_it() {
    let entries: Vec<CacheLine> = ENTRIES.iter().filter(|entry| entry.3 == 0).copied().collect();
    let mut bytes = old_format(&entries);
    assert_eq!(look(&bytes, "libz.so.10", &profile((2, 36))).unwrap(), "/lib/libz.so.10");
    // The new part starts where the old table ends; its own texts count from there.
    bytes.truncate(OLD_HEADER + entries.len() * OLD_ENTRY);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(new_format(&[("libq.so", "/lib/libq.so", PLAIN, 0)], &[]));
    assert_eq!(look(&bytes, "libq.so", &profile((2, 36))).unwrap(), "/lib/libq.so");
}

#[test]
fn numbers_in_names_compare_as_numbers() {
    for chars in [Chars::Signed, Chars::Unsigned] {
        assert_eq!(compare(b"libz.so.9", b"libz.so.10", chars), Ordering::Less);
        assert_eq!(compare(b"liba.so.010", b"liba.so.10", chars), Ordering::Equal);
        assert_eq!(compare(b"lib1", b"liba", chars), Ordering::Greater);
        assert_eq!(compare(b"liba", b"liba", chars), Ordering::Equal);
        assert_eq!(compare(b"lib", b"liba", chars), Ordering::Less);
    }
}

/// The cache is sorted backwards by it: who compares otherwise does not find what is there.
#[test]
fn beyond_ascii_names_compare_as_the_machines_characters_do() {
    let (accented, plain, short) = ("lib\u{e9}.so", "liba.so", "lib");
    let compared = |one: &str, two: &str, chars| compare(one.as_bytes(), two.as_bytes(), chars);
    assert_eq!(compared(accented, plain, Chars::Signed), Ordering::Less);
    assert_eq!(compared(accented, plain, Chars::Unsigned), Ordering::Greater);
    assert_eq!(compared(short, accented, Chars::Signed), Ordering::Greater);
    assert_eq!(compared(short, accented, Chars::Unsigned), Ordering::Less);
    let found = |names: [&'static str; 3], flags, profile: &GlibcProfile| {
        let lines = names.map(|name| (name, name, flags, 0));
        names.iter().all(|name| look(&new_format(&lines, &[]), name, profile).is_some())
    };
    let arm = GlibcProfile::aarch64((2, 36), Cpu::default());
    assert!(found([plain, "lib.so", accented], PLAIN, &profile((2, 36))));
    assert!(found([accented, plain, "lib.so"], 0xa03, &arm));
}

/// Deterministic: a failure names the round.
#[test]
fn a_damaged_cache_is_looked_up_without_a_panic() {
    let whole = new_format(ENTRIES, NAMES);
    let mut both = old_format(ENTRIES);
    both.resize(both.len().next_multiple_of(8), 0);
    both.extend(&whole);
    let profiles = [profile((2, 17)), profile((2, 36)), profile((2, 39))];
    let ask = |bytes: &[u8]| {
        for profile in &profiles {
            let _ = look(bytes, "libz.so.9", profile);
            let _ = look(bytes, "libm.so.6", profile);
        }
    };
    for bytes in [&whole, &both] {
        (0..bytes.len()).for_each(|length| ask(&bytes[..length]));
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..20_000 {
        let mut bytes = if round % 2 == 0 { whole.clone() } else { both.clone() };
        for _ in 0..4 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let at = (seed >> 16) as usize % bytes.len();
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff, (seed >> 8) as u8][seed as usize % 6];
        }
        ask(&bytes);
    }
}
