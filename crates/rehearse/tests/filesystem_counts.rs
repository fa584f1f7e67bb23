//! What reaches the server, on a cold node and on a warm one.
#![allow(clippy::unwrap_used)]

#[path = "support/mount.rs"]
#[allow(dead_code)]
mod mount;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use cost::{FilesystemProfile, RpcKind};
use mount::{Mount, NOBODY, fork, profile, wait};
use rehearse::Account;

const NO_DELAY: &str = "round_trip = \"0\"\nservice = \"0\"";

fn cache(entries: &str, negatives: &str, open: &str, list: &str) -> FilesystemProfile {
    let cache = format!(
        "entries = \"{entries}\"\nnegatives = \"{negatives}\"\nopen = \"{open}\"\nlist = \"{list}\""
    );
    profile(NO_DELAY, "", &cache)
}

/// `a/b/0` … `a/b/9` and a link to `a`.
fn tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir_all(directory.path().join("a/b")).unwrap();
    for number in 0..10 {
        fs::write(directory.path().join(format!("a/b/{number}")), "content").unwrap();
    }
    std::os::unix::fs::symlink("a", directory.path().join("link")).unwrap();
    directory
}

fn in_a_process(run: impl FnOnce()) {
    assert_eq!(wait(fork(run)), 0);
}

/// The counts of the kinds that are not zero.
fn counts(account: &Account) -> Vec<(RpcKind, u64)> {
    let all = RpcKind::ALL.map(|kind| (kind, account.of(kind).rpcs));
    let served = |kind| account.served.iter().filter(|served| served.kind == kind).count() as u64;
    all.iter().for_each(|(kind, count)| assert_eq!(served(*kind), *count));
    all.into_iter().filter(|(kind, count)| *count > 0 && kind.is_metadata()).collect()
}

#[test]
fn each_name_on_the_way_is_asked_for_once_and_the_second_process_costs_nothing() {
    let tree = tree();
    for user in [None, Some(NOBODY)] {
        let kept = cache("forever", "forever", "cached", "cached");
        let account = Mount::new(tree.path(), kept).user(user).see(|| {
            for _ in 0..3 {
                in_a_process(|| {
                    for number in 0..10 {
                        assert!(fs::read(format!("a/b/{number}")).is_ok());
                        assert!(fs::metadata(format!("a/none/{number}")).is_err());
                        assert!(fs::metadata(format!("a/{number}")).is_err());
                    }
                    assert_eq!(fs::read_dir("a/b").unwrap().count(), 10);
                });
            }
        });
        // a, b, ten files, `none` and ten names in a; the list once.
        assert_eq!(counts(&account), [(RpcKind::Lookup, 23), (RpcKind::List, 1)]);
        assert_eq!(account.of(RpcKind::Lookup).enoent, 11);
    }
}

#[test]
fn opens_are_asked_each_time_where_the_profile_says_so() {
    let tree = tree();
    for user in [None, Some(NOBODY)] {
        let asked = cache("forever", "forever", "revalidated", "revalidated");
        let account = Mount::new(tree.path(), asked).user(user).see(|| {
            for _ in 0..3 {
                in_a_process(|| {
                    (0..10).for_each(|number| drop(fs::read(format!("a/b/{number}")).unwrap()));
                    assert_eq!(fs::read_dir("a/b").unwrap().count(), 10);
                });
            }
        });
        assert_eq!(
            counts(&account),
            [(RpcKind::Lookup, 12), (RpcKind::Open, 30), (RpcKind::List, 3)]
        );
    }
}

#[test]
fn missing_names_are_asked_each_time_where_they_are_not_kept() {
    let tree = tree();
    let account = Mount::new(tree.path(), cache("forever", "0", "cached", "cached")).see(|| {
        for _ in 0..5 {
            assert!(fs::metadata("a/none").is_err());
            assert!(fs::metadata("none/below").is_err());
        }
    });
    assert_eq!(counts(&account), [(RpcKind::Lookup, 11)]);
    assert_eq!(account.of(RpcKind::Lookup).enoent, 10);
}

#[test]
fn a_lifetime_ends() {
    let tree = tree();
    let account = Mount::new(tree.path(), cache("300ms", "300ms", "cached", "cached")).see(|| {
        for _ in 0..3 {
            for _ in 0..5 {
                assert!(fs::metadata("a/b/0").is_ok());
                assert!(fs::metadata("a/none").is_err());
            }
            std::thread::sleep(std::time::Duration::from_millis(400));
        }
    });
    assert_eq!(counts(&account), [(RpcKind::Lookup, 12)]);
}

#[test]
fn fstat_and_access_cost_nothing() {
    let tree = tree();
    for user in [None, Some(NOBODY)] {
        let account = Mount::new(tree.path(), cache("0", "0", "revalidated", "revalidated"))
            .user(user)
            .see(|| {
                let file = fs::File::open("a/b/0").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1100));
                for _ in 0..1000 {
                    file.metadata().unwrap();
                }
            });
        assert_eq!(counts(&account), [(RpcKind::Lookup, 3), (RpcKind::Open, 1)]);
        let kept = cache("forever", "forever", "revalidated", "revalidated");
        let account = Mount::new(tree.path(), kept).user(user).see(|| {
            fs::metadata("a/b").unwrap();
            for _ in 0..100 {
                // SAFETY: the path is NUL-terminated.
                assert_eq!(unsafe { libc::access(c"a/b".as_ptr(), libc::R_OK) }, 0);
                std::env::set_current_dir("a/b").unwrap();
                std::env::set_current_dir("../..").unwrap();
            }
        });
        assert_eq!(counts(&account), [(RpcKind::Lookup, 2)]);
    }
}

#[test]
fn a_link_is_read_once() {
    let tree = tree();
    let account =
        Mount::new(tree.path(), cache("forever", "0", "revalidated", "revalidated")).see(|| {
            for _ in 0..5 {
                fs::metadata("link/b/0").unwrap();
            }
        });
    assert_eq!(counts(&account), [(RpcKind::Lookup, 4), (RpcKind::Readlink, 1)]);
}

#[test]
fn a_node_that_was_made_cold_asks_for_everything_again() {
    let tree = tree();
    for user in [None, Some(NOBODY)] {
        let kept = cache("forever", "forever", "cached", "cached");
        let account = Mount::new(tree.path(), kept).user(user).see(|| {
            let open = fs::File::open("a/b/0").unwrap();
            for _ in 0..3 {
                for _ in 0..2 {
                    assert!(fs::read("a/b/1").is_ok());
                    assert!(fs::metadata("none").is_err());
                    assert!(fs::metadata("a/b/none").is_err());
                    assert_eq!(fs::read_dir("a").unwrap().count(), 1);
                    assert!(fs::metadata("link/b/0").is_ok());
                }
                cold(tree.path());
            }
            assert_eq!(open.metadata().unwrap().len(), 7);
        });
        let read = account.served.iter().filter(|served| served.kind == RpcKind::Read).count();
        assert_eq!(read, if user.is_some() { 3 } else { 0 });
        // a, b, 0, 1, link and two that are missing, three times; 0 was open before the first.
        assert_eq!(
            counts(&account),
            [(RpcKind::Lookup, 21), (RpcKind::List, 3), (RpcKind::Readlink, 3)]
        );
    }
}

fn cold(root: &std::path::Path) {
    let path = std::ffi::CString::new(root.as_os_str().as_bytes()).unwrap();
    let mut answer = [0u8; 8];
    // SAFETY: the strings are NUL-terminated, and the kernel writes into eight bytes at most.
    let length = unsafe {
        let name = c"user.becalm.cold";
        libc::getxattr(path.as_ptr(), name.as_ptr(), answer.as_mut_ptr().cast(), answer.len())
    };
    assert_eq!(&answer[..length as usize], b"1");
}

#[test]
fn the_ledger_names_the_thread_the_path_and_what_it_waited() {
    let tree = tree();
    let slow = profile(
        "round_trip = \"2ms\"\nservice = \"1ms\"",
        "",
        "entries = \"forever\"\nnegatives = \"0\"\nopen = \"revalidated\"\nlist = \"revalidated\"",
    );
    let account = Mount::new(tree.path(), slow).see(|| {
        let own = rustix::thread::gettid();
        fs::write("/dev/null", own.as_raw_pid().to_string()).unwrap();
        assert!(fs::read("a/b/7").is_ok());
        assert!(fs::metadata("a/none").is_err());
    });
    let of = |served: &rehearse::Served| {
        let path = String::from_utf8(account.paths[served.path as usize].clone()).unwrap();
        let below = path.strip_prefix(tree.path().to_str().unwrap()).unwrap().to_owned();
        (served.kind, below, served.enoent)
    };
    let all: Vec<_> = account.served.iter().map(of).collect();
    assert_eq!(
        all,
        [
            (RpcKind::Lookup, "/a".to_owned(), false),
            (RpcKind::Lookup, "/a/b".to_owned(), false),
            (RpcKind::Lookup, "/a/b/7".to_owned(), false),
            (RpcKind::Open, "/a/b/7".to_owned(), false),
            (RpcKind::Lookup, "/a/none".to_owned(), true),
        ]
    );
    let thread = account.served[0].thread;
    assert!(thread > 0 && account.served.iter().all(|served| served.thread == thread));
    assert!(account.served.iter().all(|served| served.waited.0 >= 3_000_000));
    assert!(account.served.windows(2).all(|two| two[0].at < two[1].at));
}
