use ::object::elf::ProgramType;
use recording::MappedElf;

use super::super::texts::TEXTS_LIMIT;
use super::*;

fn facts_of(bytes: &[u8]) -> Result<MappedElf, ElfError> {
    object(&bytes).map(|object| object.image())
}

/// A crafted library: an ELF header, three program headers, a dynamic section, texts.
struct Craft {
    wide: bool,
    big: bool,
    bytes: Vec<u8>,
}

const TEXTS: &[u8] = b"\0libz.so.1\0libm.so.6\0libself.so.2\0/a/lib::$ORIGIN/../lib\0/b\0/ld.so\0";
const NEEDED: [u64; 2] = [1, 11];
const SONAME: u64 = 21;
const RPATH: u64 = 34;
const RUNPATH: u64 = 57;
const INTERP: u64 = 60;
/// What the crafted file is loaded at: texts are found through the segment, not as offsets.
const BASE: u64 = 0x40_0000;

impl Craft {
    fn new(wide: bool, big: bool) -> Craft {
        let mut craft = Craft { wide, big, bytes: Vec::new() };
        let (header, entry) = if wide { (64u64, 56u64) } else { (52, 32) };
        let dynamic = header + 3 * entry;
        let tags = [
            (DT_NEEDED, NEEDED[0]),
            (DT_SONAME, SONAME),
            (DT_NEEDED, NEEDED[1]),
            (DT_RPATH, RPATH),
            (DT_RUNPATH, RUNPATH),
            (DT_STRTAB, 0), // given twice: the last counts
            (DT_STRSZ, TEXTS.len() as u64),
            (DT_STRTAB, 0),
            (DT_NULL, 0),
            (DT_NEEDED, SONAME), // after the end
        ];
        let size = tags.len() as u64 * if wide { 16 } else { 8 };
        let texts = dynamic + size;
        craft.bytes.extend(b"\x7fELF");
        craft.bytes.extend([if wide { 2 } else { 1 }, if big { 2 } else { 1 }, 1, 0]);
        craft.bytes.extend([0; 8]);
        craft.half(3).half(62).word(1).address(0).address(header).address(0).word(0);
        craft.half(header).half(entry).half(3).half(0).half(0).half(0);
        craft.segment(PT_INTERP, texts + INTERP, 0, TEXTS.len() as u64 - INTERP);
        craft.segment(PT_LOAD, 0, BASE, texts + TEXTS.len() as u64);
        craft.segment(PT_DYNAMIC, dynamic, BASE + dynamic, size);
        for (number, (tag, value)) in tags.into_iter().enumerate() {
            let value = if number == 7 { BASE + texts } else { value };
            craft.address(tag.0 as u64).address(value);
        }
        craft.bytes.extend(TEXTS);
        craft
    }

    fn number(&mut self, value: u64, size: usize) -> &mut Craft {
        let little = value.to_le_bytes();
        let bytes = little[..size].iter().copied();
        if self.big {
            self.bytes.extend(bytes.rev())
        } else {
            self.bytes.extend(bytes)
        }
        self
    }

    fn half(&mut self, value: u64) -> &mut Craft {
        self.number(value, 2)
    }

    fn word(&mut self, value: u64) -> &mut Craft {
        self.number(value, 4)
    }

    fn address(&mut self, value: u64) -> &mut Craft {
        self.number(value, if self.wide { 8 } else { 4 })
    }

    fn segment(&mut self, kind: ProgramType, at: u64, address: u64, size: u64) {
        self.word(kind.0.into());
        if self.wide {
            self.word(4);
        }
        self.address(at).address(address).address(address).address(size).address(size);
        if !self.wide {
            self.word(4);
        }
        self.address(0x1000);
    }
}

fn all_crafts() -> [Craft; 4] {
    [(false, false), (false, true), (true, false), (true, true)]
        .map(|(wide, big)| Craft::new(wide, big))
}

#[test]
fn both_sizes_and_both_byte_orders_say_the_same() {
    let expected = MappedElf {
        soname: Some("libself.so.2".into()),
        needed: vec!["libz.so.1".into(), "libm.so.6".into()],
        rpath: vec!["/a/lib".into(), String::new(), "$ORIGIN/../lib".into()],
        runpath: vec!["/b".into()],
        interpreter: Some("/ld.so".into()),
    };
    for craft in all_crafts() {
        assert_eq!(facts_of(&craft.bytes).unwrap(), expected, "{} {}", craft.wide, craft.big);
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_and_never_a_panic() {
    for craft in all_crafts() {
        for length in 0..craft.bytes.len() {
            let cut = craft.bytes[..length].to_vec();
            let error = facts_of(&cut).unwrap_err();
            let expected = if length < 4 { "not an ELF file" } else { "ELF file" };
            assert!(error.to_string().contains(expected), "{length}: {error}");
        }
    }
}

/// Deterministic: a failure names the seed that made it.
#[test]
fn a_hundred_thousand_mutations_never_panic_and_stay_within_bounds() {
    const INTERESTING: [u8; 8] = [0, 1, 0x7f, 0x80, 0xfe, 0xff, 0x40, 0x10];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let mut outcomes = [0; 2];
    for round in 0..100_000 {
        let mut bytes = Craft::new(round & 1 == 0, round & 2 == 0).bytes;
        for _ in 0..=random(6) {
            let at = random(bytes.len());
            bytes[at] = match random(3) {
                0 => INTERESTING[random(INTERESTING.len())],
                1 => bytes[at] ^ 1 << random(8),
                _ => random(256) as u8,
            };
        }
        if random(8) == 0 {
            bytes.truncate(random(bytes.len()));
        }
        match facts_of(&bytes) {
            Ok(image) => {
                let texts = image.needed.iter().chain(&image.rpath).chain(&image.runpath);
                assert!(texts.map(String::len).sum::<usize>() < 3 * TEXTS_LIMIT);
                outcomes[0] += 1;
            }
            Err(_) => outcomes[1] += 1,
        }
    }
    assert!(outcomes.iter().all(|count| *count > 10_000), "one-sided: {outcomes:?}");
}

#[test]
fn a_million_entries_that_name_one_long_text_are_refused_before_memory_is_gone() {
    let mut craft = Craft { wide: true, big: false, bytes: Vec::new() };
    let (entries, text) = (60_000u64, 200_000u64);
    let (dynamic, size) = (64 + 2 * 56, (entries + 2) * 16);
    craft.bytes.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    craft.half(3).half(62).word(1).address(0).address(64).address(0).word(0);
    craft.half(64).half(56).half(2).half(0).half(0).half(0);
    craft.segment(PT_LOAD, 0, 0, dynamic + size + text);
    craft.segment(PT_DYNAMIC, dynamic, 0, size);
    craft.address(DT_STRTAB.0 as u64).address(dynamic + size);
    for _ in 0..entries {
        craft.address(DT_NEEDED.0 as u64).address(0);
    }
    craft.address(0).address(0);
    craft.bytes.resize(craft.bytes.len() + text as usize, b'x');
    craft.bytes.push(0);
    assert!(matches!(facts_of(&craft.bytes), Err(ElfError::Excessive)));
}
