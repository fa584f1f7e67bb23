//! What `becalm check` advises for page faults is pasted. (Whether a server is then asked less is told
//! where reader and program do not race: `run read_ahead`.)

use std::fs::File;
use std::io::Write;

use serde_json::Value;
use testkit::run;

use crate::BECALM;
use crate::place::{Place, commands, steps_of};

const MIB: usize = 1 << 20;

/// Touches each part of a mapped file, here and there, and says their sum.
const TOUCH: &str = "\
import mmap, random, sys
file = open('data', 'rb')
data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
data.madvise(mmap.MADV_RANDOM)
pages = list(range(0, len(data), 65536))
random.Random(1).shuffle(pages)
print(sum(data[at] for at in pages))
";

#[test]
fn reading_ahead_what_a_start_touches() {
    let place = Place::new();
    // In small parts: of larger ones the page cache makes pages of up to 2 MiB, which one fault maps.
    let mut data = File::create(place.at("data")).unwrap();
    (0..64 * 16).for_each(|_| data.write_all(&[7; 64 << 10]).unwrap());
    data.sync_all().unwrap();
    place.file("touch.py", TOUCH);
    let words = ["/usr/bin/python3", "touch.py"];
    let checked =
        run(&mut place.command(BECALM, &[&["check", "--json", "--"], &words[..]].concat()));
    let found: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let steps = steps_of(&found, "data");
    let [advised] = commands(&steps)[..] else { panic!("{steps:#?}") };
    let sum = "7168\n";
    assert_eq!(place.said(advised), sum.repeat(2), "{advised}");
    let (record, launched) = advised.split_once(" && ").unwrap();
    assert!(record.starts_with("becalm record -o start.becalm -- "), "{advised}");
    // All that was touched is read, and no more.
    let told = place.bash(&launched.replacen("becalm run", "becalm run --json", 1));
    let told: Value = serde_json::from_str(&told.err()).unwrap();
    let bytes = told["read_ahead"]["bytes"].as_u64().unwrap() as usize;
    assert!((64 * MIB..65 * MIB).contains(&bytes), "{told:#}");
}
