//! The flame graph is XML that any reader takes, whatever names are in it.
#![allow(clippy::unwrap_used)]

use lab::profile::flame::{BarKind, Captions, GraphBar, GraphStack, folded, svg};
use proptest::prelude::*;

fn stack(names: &[&str], width: u64) -> GraphStack {
    let bar = |name: &&str| GraphBar { name: (*name).to_owned(), kind: BarKind::Function };
    GraphStack { bars: names.iter().map(bar).collect(), width }
}

fn drawn(stacks: &[GraphStack], title: &str) -> String {
    let captions = Captions { title: title.into(), subtitle: title.into(), unit: "µs" };
    let mut out = Vec::new();
    svg(stacks, &captions, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Python's XML parser, expat, refuses what is not well-formed.
fn is_well_formed(xml: &str) -> bool {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let script = "import sys, xml.parsers.expat as e; \
                  e.ParserCreate().Parse(sys.stdin.buffer.read(), True)";
    let mut python = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(xml.as_bytes()).unwrap();
    python.wait().unwrap().success()
}

#[test]
fn names_are_escaped() {
    let nasty = "<script>&\"'\u{1b}[31m\n\u{0}\u{202e}]]>";
    let xml = drawn(&[stack(&[nasty, "f"], 3)], nasty);
    assert!(is_well_formed(&xml), "{xml}");
    assert!(!xml.contains("<script>&") && !xml.contains('\u{1b}') && !xml.contains('\u{202e}'));
    assert!(xml.contains("&lt;script&gt;&amp;"));
}

#[test]
fn a_name_that_ends_in_a_number_is_no_width() {
    let stacks = [stack(&["sleep 10"], 5), stack(&["sleep 10", "a;b 3.5"], 2)];
    let mut lines = Vec::new();
    folded(&stacks, &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!(lines, "sleep\u{a0}10 5\nsleep\u{a0}10;a,b\u{a0}3.5 2\n");
    let xml = drawn(&stacks, "t");
    assert!(xml.contains("(7 µs, 100"), "the widths add up to 7: {xml}");
}

#[test]
fn nothing_at_all_is_drawn_as_that() {
    assert!(is_well_formed(&drawn(&[], "t")));
    assert!(drawn(&[stack(&["f"], 0)], "t").contains("nothing to show"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_names_give_xml(
        names in prop::collection::vec(prop::collection::vec("\\PC{0,8}|.{0,8}", 1..4), 1..6),
        title in ".{0,20}",
    ) {
        let names: Vec<Vec<&str>> =
            names.iter().map(|names| names.iter().map(String::as_str).collect()).collect();
        let stacks: Vec<_> = names.iter().map(|names| stack(names, 3)).collect();
        let xml = drawn(&stacks, &title);
        prop_assert!(is_well_formed(&xml), "{}", xml);
    }
}
