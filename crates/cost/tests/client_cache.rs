//! What a node asks its server for, rule by rule.

#![allow(clippy::unwrap_used)]

use cost::{
    ClientCache, FilesystemProfile, PathRequest, RequestKind, Revalidation, RpcCounts, RpcKind,
    SharedDirectories, TimeSpan,
};
use recording::Nanos;
use testkit::Random;

/// A profile with these lifetimes, which asks at each open and each listing.
fn profile(entries: &str, negatives: &str) -> FilesystemProfile {
    let text = format!(
        "name = 'test'\n[mds]\nround_trip = '1ms'\nservice = '0'\n\
         [cache]\nentries = '{entries}'\nnegatives = '{negatives}'\nopen = 'revalidated'\nlist = 'revalidated'"
    );
    FilesystemProfile::parse(&text, "test").unwrap()
}

fn keeping(open: Revalidation, list: Revalidation) -> FilesystemProfile {
    let mut profile = profile("forever", "forever");
    profile.cache.open = open;
    profile.cache.list = list;
    profile
}

/// A cold node, all of whose files are on the server.
fn node(profile: &FilesystemProfile) -> ClientCache {
    ClientCache::new(profile, SharedDirectories::below(["/".into()]))
}

fn found(kind: RequestKind, path: &str) -> PathRequest<'_> {
    PathRequest { kind, path: path.as_bytes(), enoent: false, other_path: None }
}

fn missing(path: &str) -> PathRequest<'_> {
    PathRequest { enoent: true, ..found(RequestKind::Attributes, path) }
}

fn stat(path: &str) -> PathRequest<'_> {
    found(RequestKind::Attributes, path)
}

/// Each operation, as text: `lookup /a`, `no /a/b`.
fn asked(node: &mut ClientCache, at: u64, question: PathRequest) -> Vec<String> {
    let mut all = Vec::new();
    node.each_rpc(Nanos(at), &question, |operation| {
        let kind = match (operation.kind, operation.enoent) {
            (RpcKind::Lookup, true) => "no".to_owned(),
            (kind, _) => format!("{kind:?}").to_lowercase(),
        };
        all.push(format!("{kind} {}", String::from_utf8_lossy(operation.path)));
    });
    all
}

const NOTHING: [&str; 0] = [];
const SECOND: u64 = 1_000_000_000;

#[test]
fn a_cold_node_looks_each_component_up_and_a_warm_one_none() {
    let mut node = node(&profile("forever", "forever"));
    assert_eq!(asked(&mut node, 0, stat("/a/b/c")), ["lookup /a", "lookup /a/b", "lookup /a/b/c"]);
    assert_eq!(asked(&mut node, 1, stat("/a/b/c")), NOTHING);
    assert_eq!(asked(&mut node, 2, stat("/a/b/d")), ["lookup /a/b/d"]);
}

#[test]
fn below_a_directory_that_is_missing_nothing_is_asked_while_no_is_kept() {
    let mut node = node(&profile("forever", "forever"));
    assert_eq!(asked(&mut node, 0, missing("/a/b")), ["lookup /a", "no /a/b"]);
    assert_eq!(asked(&mut node, 1, missing("/a/b/c")), NOTHING);
    assert_eq!(asked(&mut node, 2, missing("/a/b/d/e")), NOTHING);
}

#[test]
fn where_no_is_not_kept_it_is_asked_each_time() {
    let mut node = node(&profile("forever", "0"));
    assert_eq!(asked(&mut node, 0, missing("/a/b")), ["lookup /a", "no /a/b"]);
    for at in 1..4 {
        assert_eq!(asked(&mut node, at, missing("/a/b")), ["no /a/b"]);
    }
}

#[test]
fn a_name_whose_lifetime_is_over_is_asked_for_again() {
    let mut node = node(&profile("30s", "5s"));
    node.count_rpcs(Nanos(0), &stat("/a"));
    node.count_rpcs(Nanos(0), &missing("/n"));
    assert_eq!(asked(&mut node, 5 * SECOND - 1, missing("/n")), NOTHING);
    assert_eq!(asked(&mut node, 5 * SECOND, missing("/n")), ["no /n"]);
    assert_eq!(asked(&mut node, 30 * SECOND - 1, stat("/a")), NOTHING);
    assert_eq!(asked(&mut node, 30 * SECOND, stat("/a")), ["lookup /a"]);
}

#[test]
fn an_open_asks_each_time_or_is_paid_by_its_lookup() {
    let open = |path| found(RequestKind::Open, path);
    let mut asks = node(&keeping(Revalidation::EachTime, Revalidation::EachTime));
    assert_eq!(asked(&mut asks, 0, open("/a")), ["lookup /a", "open /a"]);
    assert_eq!(asked(&mut asks, 1, open("/a")), ["open /a"]);
    let mut keeps = node(&keeping(Revalidation::Cached, Revalidation::EachTime));
    assert_eq!(asked(&mut keeps, 0, open("/a")), ["lookup /a"]);
    assert_eq!(asked(&mut keeps, 1, open("/a")), NOTHING);
}

#[test]
fn a_directory_is_asked_for_its_parts_and_not_for_its_end() {
    let entries = |end| found(RequestKind::Entries { end }, "/a");
    let listing = |node: &mut ClientCache| {
        let mut all = asked(node, 0, found(RequestKind::Directory, "/a"));
        all.extend([false, false, true].map(|end| asked(node, 0, entries(end))).concat());
        all
    };
    let mut asks = node(&keeping(Revalidation::EachTime, Revalidation::EachTime));
    assert_eq!(listing(&mut asks), ["lookup /a", "list /a", "list /a"]);
    assert_eq!(listing(&mut asks), ["list /a", "list /a"]);
    let mut keeps = node(&keeping(Revalidation::EachTime, Revalidation::Cached));
    assert_eq!(listing(&mut keeps), ["lookup /a", "list /a", "list /a"]);
    assert_eq!(listing(&mut keeps), NOTHING);
}

#[test]
fn an_empty_directory_is_asked_once_a_listing() {
    let mut node = node(&keeping(Revalidation::EachTime, Revalidation::EachTime));
    assert_eq!(asked(&mut node, 0, found(RequestKind::Directory, "/a")), ["lookup /a"]);
    assert_eq!(asked(&mut node, 0, found(RequestKind::Entries { end: true }, "/a")), ["list /a"]);
}

#[test]
fn a_listing_goes_by_a_descriptor_and_looks_no_name_up() {
    let mut node = node(&profile("0", "0"));
    assert_eq!(asked(&mut node, 0, found(RequestKind::Directory, "/a")), ["lookup /a"]);
    let listed = asked(&mut node, 1, found(RequestKind::Entries { end: false }, "/a"));
    assert!(!listed.iter().any(|asked| asked.starts_with("lookup")), "{listed:?}");
}

#[test]
fn the_text_of_a_link_is_kept_as_a_name_is() {
    let mut node = node(&profile("30s", "30s"));
    let link = || found(RequestKind::Link, "/l");
    assert_eq!(asked(&mut node, 0, link()), ["lookup /l", "readlink /l"]);
    assert_eq!(asked(&mut node, 1, link()), NOTHING);
    assert_eq!(asked(&mut node, 30 * SECOND, link()), ["lookup /l", "readlink /l"]);
}

#[test]
fn extended_attributes_and_the_filesystems_own_are_asked_each_time() {
    let mut node = node(&profile("forever", "forever"));
    for at in 0..2 {
        assert_eq!(asked(&mut node, at, found(RequestKind::Statfs, "/")), ["statfs /"]);
    }
    asked(&mut node, 2, stat("/a"));
    for at in 3..5 {
        assert_eq!(asked(&mut node, at, found(RequestKind::Xattr, "/a")), ["xattr /a"]);
    }
}

#[test]
fn what_is_changed_is_forgotten_whether_it_was_there_or_not() {
    let mut node = node(&profile("forever", "forever"));
    assert_eq!(asked(&mut node, 0, missing("/a")), ["no /a"]);
    assert_eq!(asked(&mut node, 1, found(RequestKind::Change, "/a")), ["lookup /a", "change /a"]);
    assert_eq!(asked(&mut node, 2, stat("/a")), ["lookup /a"]);
    let rename = PathRequest { other_path: Some(b"/b"), ..found(RequestKind::Change, "/a") };
    assert_eq!(asked(&mut node, 3, rename), ["no /b", "change /a"]);
    assert_eq!(asked(&mut node, 4, stat("/b")), ["lookup /b"]);
    assert_eq!(asked(&mut node, 5, missing("/a")), ["no /a"]);
}

#[test]
fn dots_are_no_names_and_two_lead_back() {
    let mut node = node(&profile("forever", "forever"));
    let walked = asked(&mut node, 0, stat("/a/./bin//../lib/x"));
    assert_eq!(walked, ["lookup /a", "lookup /a/bin", "lookup /a/lib", "lookup /a/lib/x"]);
    assert_eq!(asked(&mut node, 1, stat("/a/lib/../../a/lib/x")), NOTHING);
    assert_eq!(asked(&mut node, 2, stat("/../..")), NOTHING);
}

#[test]
fn only_what_is_below_a_shared_root_is_asked_for_and_the_root_is_known() {
    let shared =
        SharedDirectories { roots: vec!["/opt/s".into()], except: vec!["/opt/s/tmp".into()] };
    let mut node = ClientCache::new(&profile("forever", "forever"), shared);
    assert_eq!(asked(&mut node, 0, stat("/usr/lib")), NOTHING);
    assert_eq!(asked(&mut node, 0, missing("/opt/b")), NOTHING);
    assert_eq!(asked(&mut node, 0, stat("/opt/s")), NOTHING);
    assert_eq!(asked(&mut node, 0, found(RequestKind::Open, "/opt/sx")), NOTHING);
    assert_eq!(
        asked(&mut node, 0, found(RequestKind::Open, "/opt/s/x")),
        ["lookup /opt/s/x", "open /opt/s/x"]
    );
    assert_eq!(asked(&mut node, 0, found(RequestKind::Open, "/opt/s/tmp/x")), NOTHING);
    // The way leads in and out again.
    assert_eq!(asked(&mut node, 0, stat("/opt/s/y/../../../etc/passwd")), ["lookup /opt/s/y"]);
}

#[test]
fn a_node_of_another_process_in_between_finds_what_was_kept() {
    // One node is one cache, whoever asks: a name made by somebody else is found in spite of an
    // earlier no.
    let mut node = node(&profile("forever", "forever"));
    assert_eq!(asked(&mut node, 0, missing("/a")), ["no /a"]);
    assert_eq!(asked(&mut node, 1, stat("/a/b")), ["lookup /a", "lookup /a/b"]);
}

#[test]
fn the_longer_a_node_trusts_the_less_it_asks() {
    let spans = ["0", "1us", "3us", "10us", "30us", "forever"];
    let mut random = Random::seeded(7);
    for _ in 0..200 {
        let questions: Vec<_> = (0..60).map(|_| question(&mut random)).collect();
        let total = |entries: &str, negatives: &str| {
            let mut node = node(&profile(entries, negatives));
            let ask = |(at, (path, is_missing)): (usize, &(String, bool))| {
                let kind = RequestKind::Attributes;
                let path = path.as_bytes();
                let question = PathRequest { kind, path, enoent: *is_missing, other_path: None };
                node.count_rpcs(Nanos(at as u64 * 1_000), &question).total()
            };
            questions.iter().enumerate().map(ask).sum::<u32>()
        };
        for pair in spans.windows(2) {
            for fixed in spans {
                assert!(total(pair[1], fixed) <= total(pair[0], fixed), "{questions:?}");
                assert!(total(fixed, pair[1]) <= total(fixed, pair[0]), "{questions:?}");
            }
        }
    }
}

#[test]
fn a_node_keeps_its_memory_bounded_whatever_it_is_asked() {
    let mut node = node(&profile("forever", "forever"));
    let mut total = 0;
    for number in 0..1_200_000u64 {
        let path = format!("/{number}");
        total += u64::from(node.count_rpcs(Nanos(number), &missing(&path)).total());
    }
    assert_eq!(total, 1_200_000);
    // It has dropped the first on its way.
    assert_eq!(asked(&mut node, 1_200_000, missing("/0")), ["no /0"]);
}

#[test]
fn the_sums_are_what_was_asked_one_by_one() {
    let mut node = node(&profile("forever", "0"));
    let sums = node.count_rpcs(Nanos(0), &found(RequestKind::Open, "/a/b"));
    assert_eq!((sums.of(RpcKind::Lookup), sums.of(RpcKind::Open), sums.total()), (2, 1, 3));
    let sums = node.count_rpcs(Nanos(0), &missing("/a/c"));
    assert_eq!((sums.of(RpcKind::Lookup), sums.enoent), (1, 1));
    assert_eq!(node.count_rpcs(Nanos(0), &stat("/a/b")), RpcCounts::default());
    assert_eq!(TimeSpan::FOREVER, "forever".parse().unwrap());
}

/// A question about few names, in a tree in which what is called `n…` is missing, and all else is
/// there.
fn question(random: &mut Random) -> (String, bool) {
    let mut path = String::new();
    for _ in 0..=random.below(3) {
        path.push_str(&format!("/d{}", random.below(3)));
    }
    let is_missing = random.below(2) == 0;
    if is_missing {
        path.push_str(&format!("/n{}", random.below(3)));
    }
    (path, is_missing)
}
