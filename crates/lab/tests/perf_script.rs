//! What `perf script` prints is read back, whatever it is.
#![allow(clippy::unwrap_used)]

use lab::profile::text::{FRAMES, LINE, PerfSample, read};
use proptest::prelude::*;

fn samples(text: &[u8]) -> Vec<PerfSample> {
    let mut samples = Vec::new();
    let count = read(text, &mut |sample| samples.push(sample)).unwrap();
    assert_eq!(count, samples.len() as u64);
    samples
}

#[test]
fn symbols_with_spaces_and_brackets_are_told_from_their_objects() {
    let text = b"11691/11692 33164.026331000:   10101010 \n\
        \t            11dc (anonymous namespace)::f(int) const (/opt/a (1)/b)\n\
        \t            11dd gone (/tmp/x (deleted))\n\
        \tffffffff813ccd01 __x64_sys_read ([kernel.kallsyms])\n\
        \t          1c79e5 [unknown] (/usr/bin/x)\n\
        \tffffffffffffffff [unknown] ([unknown])\n\n";
    let all = samples(text);
    let [sample] = &all[..] else { panic!("{all:?}") };
    assert_eq!((sample.pid, sample.at_ns, sample.period), (11691, 33164026331000, 10101010));
    assert!(sample.cut, "perf found no end of the stack");
    let names: Vec<_> = sample
        .frames
        .iter()
        .map(|it| (it.symbol.as_deref(), it.object.as_deref(), it.kernel))
        .collect();
    assert_eq!(
        names,
        [
            (Some("(anonymous namespace)::f(int) const"), Some("/opt/a (1)/b"), false),
            (Some("gone"), Some("/tmp/x"), false),
            (Some("__x64_sys_read"), Some("[kernel.kallsyms]"), true),
            (None, Some("/usr/bin/x"), false),
        ]
    );
}

#[test]
fn a_sample_without_a_stack_counts() {
    let all = samples(b"  1/1  0.5: 7 \n\n  2/2  1.000000001: 8 \n");
    let brief: Vec<_> = all.iter().map(|it| (it.pid, it.at_ns, it.period)).collect();
    assert_eq!(brief, [(1, 500_000_000, 7), (2, 1_000_000_001, 8)]);
}

#[test]
fn lines_and_stacks_without_an_end_are_cut() {
    let mut text = b"1/1 0.0: 7\n\t1 ".to_vec();
    text.resize(text.len() + 3 * LINE, b'x');
    text.extend(b" (/bin/x)\n");
    text.extend(b"\t2 f (/bin/x)\n".repeat(FRAMES + 9));
    text.extend(b"\n2/2 0.0: 8\n");
    let all = samples(&text);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].frames.len(), FRAMES);
    assert!(all[0].cut && all[0].frames[0].symbol.as_ref().unwrap().len() <= LINE);
    assert_eq!(all[1].pid, 2, "reading goes on behind it");
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_their_end(text in prop::collection::vec(any::<u8>(), 0..4000)) {
        samples(&text);
    }

    #[test]
    fn lines_of_almost_the_right_form_are_read_to_their_end(
        lines in prop::collection::vec("(\t|)[0-9a-f/.: ()\\[\\]x-]{0,60}", 0..60),
    ) {
        for sample in samples(lines.join("\n").as_bytes()) {
            prop_assert!(sample.frames.len() <= FRAMES);
        }
    }
}
