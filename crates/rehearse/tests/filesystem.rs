//! Through the mount everything is as it is without: the same operations are made on a plain
//! directory and through the mount, and their transcripts compared.
#![allow(clippy::unwrap_used)]

#[path = "support/mount.rs"]
#[allow(dead_code)]
mod mount;
#[path = "support/operations/mod.rs"]
mod operations;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use mount::{Mount, NOBODY, fork, local, profile, wait};

/// A directory that belongs to the user.
fn directory(user: Option<u32>) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(directory.path(), user, user).unwrap();
    directory
}

/// The transcript of the operations in a plain directory, by this user.
fn plain(user: Option<u32>) -> String {
    let (here, out) = (directory(user), tempfile::NamedTempFile::new().unwrap());
    let child = fork(|| {
        mount::become_user(user);
        std::env::set_current_dir(here.path()).unwrap();
        let text = operations::transcript();
        std::io::Write::write_all(&mut out.as_file(), text.as_bytes()).unwrap();
    });
    assert_eq!(wait(child), 0);
    fs::read_to_string(out.path()).unwrap()
}

/// The same through a mount.
fn mounted(user: Option<u32>, profile: cost::FilesystemProfile) -> String {
    let (here, out) = (directory(user), tempfile::NamedTempFile::new().unwrap());
    Mount::new(here.path(), profile).writable().user(user).see(|| {
        let text = operations::transcript();
        std::io::Write::write_all(&mut out.as_file(), text.as_bytes()).unwrap();
    });
    fs::read_to_string(out.path()).unwrap()
}

fn same(expected: &str, found: &str) {
    let mut context = Vec::new();
    for (number, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
        if expected != found {
            context.push(format!("line {}:\n  plain   {expected}\n  mounted {found}", number + 1));
        }
    }
    assert!(context.is_empty(), "{}", context.join("\n"));
    assert_eq!(expected.lines().count(), found.lines().count());
}

const NO_CACHE: &str =
    "entries = \"0\"\nnegatives = \"0\"\nopen = \"revalidated\"\nlist = \"revalidated\"";
const NO_DELAY: &str = "round_trip = \"0\"\nservice = \"0\"";

#[test]
fn root_sees_what_it_would_see_without_the_mount() {
    same(&plain(None), &mounted(None, local()));
}

#[test]
fn an_ordinary_user_sees_what_they_would_see_without_the_mount() {
    same(&plain(Some(NOBODY)), &mounted(Some(NOBODY), local()));
}

#[test]
fn the_same_without_any_cache_and_with_a_bandwidth() {
    let slow = profile(NO_DELAY, "bandwidth = \"10GB/s\"", NO_CACHE);
    same(&plain(None), &mounted(None, slow.clone()));
    same(&plain(Some(NOBODY)), &mounted(Some(NOBODY), slow));
}

#[test]
fn what_root_serves_is_as_usual_for_others_too() {
    let (here, out) = (directory(Some(NOBODY)), tempfile::NamedTempFile::new().unwrap());
    Mount::new(here.path(), local()).writable().see(|| {
        mount::become_user(Some(NOBODY));
        let text = operations::transcript();
        std::io::Write::write_all(&mut out.as_file(), text.as_bytes()).unwrap();
    });
    same(&plain(Some(NOBODY)), &fs::read_to_string(out.path()).unwrap());
}

#[test]
fn a_file_belongs_to_who_made_it_and_to_the_group_of_a_setgid_directory() {
    let here = directory(None);
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let shared = here.path().join("shared");
    fs::create_dir(&shared).unwrap();
    chown(&shared, Some(0), Some(4321)).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2770)).unwrap();
    Mount::new(here.path(), local()).writable().see(|| {
        // A member of the group that owns the directory.
        // SAFETY: sets the ids of this process.
        unsafe {
            assert_eq!(libc::setgroups(1, [4321].as_ptr()), 0);
            assert_eq!(libc::setgid(1234), 0);
            assert_eq!(libc::setuid(1234), 0);
        }
        fs::write("own", "").unwrap();
        fs::write("shared/file", "").unwrap();
        fs::create_dir("shared/directory").unwrap();
        let owner = |path: &str| {
            let stat = fs::metadata(path).unwrap();
            (stat.uid(), stat.gid(), stat.mode() & 0o7000)
        };
        assert_eq!(owner("own"), (1234, 1234, 0));
        assert_eq!(owner("shared/file"), (1234, 4321, 0));
        assert_eq!(owner("shared/directory"), (1234, 4321, 0o2000));
    });
    assert_eq!(fs::metadata(here.path().join("own")).unwrap().uid(), 1234);
}

#[test]
fn a_tree_is_read_only_unless_asked_for() {
    let here = directory(None);
    fs::write(here.path().join("file"), "content").unwrap();
    for user in [None, Some(NOBODY)] {
        Mount::new(here.path(), local()).user(user).see(|| {
            let errno = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
            assert_eq!(fs::read_to_string("file").unwrap(), "content");
            for refused in [
                fs::write("file", "x"),
                fs::write("new", "x"),
                fs::create_dir("directory"),
                fs::remove_file("file"),
                fs::rename("file", "other"),
                fs::hard_link("file", "other"),
                fs::set_permissions("file", fs::Permissions::from_mode(0o777)),
            ] {
                assert_eq!(errno(refused), Some(libc::EROFS));
            }
        });
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1);
}

#[test]
fn files_are_found_again_when_few_may_be_open() {
    let here = directory(None);
    for number in 0..3000 {
        let directory = here.path().join((number % 30).to_string());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(number.to_string()), number.to_string()).unwrap();
    }
    let read_all = || {
        for number in 0..3000 {
            let path = format!("{}/{number}", number % 30);
            assert_eq!(fs::read_to_string(path).unwrap(), number.to_string());
        }
    };
    Mount { most_open: Some(200), ..Mount::new(here.path(), local()) }.see(|| {
        read_all();
        read_all();
        let open: Vec<_> = (0..100).map(|n| fs::File::open(format!("{}/{n}", n % 30))).collect();
        assert!(open.iter().all(Result::is_ok));
        read_all();
    });
}

#[test]
fn a_large_directory_is_listed_whole_and_sixty_four_processes_at_once_get_it_right() {
    let here = directory(None);
    for number in 0..20_000 {
        fs::write(here.path().join(format!("file number {number}")), "").unwrap();
    }
    for user in [None, Some(NOBODY)] {
        Mount::new(here.path(), local()).user(user).see(|| {
            let children: Vec<i32> = (0..64)
                .map(|number| {
                    fork(|| {
                        if number % 8 == 0 {
                            assert_eq!(fs::read_dir(".").unwrap().count(), 20_000);
                        }
                        for file in (number..20_000).step_by(64) {
                            fs::metadata(format!("file number {file}")).unwrap();
                            assert!(fs::metadata(format!("no file {file}")).is_err());
                        }
                    })
                })
                .collect();
            children.into_iter().for_each(|child| assert_eq!(wait(child), 0));
        });
    }
}

#[test]
fn who_waits_for_a_stalled_server_can_be_killed() {
    let here = directory(None);
    let stalled = profile("round_trip = \"60s\"\nservice = \"0\"", "", NO_CACHE);
    for user in [None, Some(NOBODY)] {
        for signal in [libc::SIGKILL, libc::SIGINT, libc::SIGTERM] {
            Mount::new(here.path(), stalled.clone()).user(user).see(|| {
                let child = fork(|| drop(fs::metadata("anything")));
                std::thread::sleep(std::time::Duration::from_millis(100));
                let start = std::time::Instant::now();
                // SAFETY: signals a child of ours.
                unsafe { libc::kill(child, signal) };
                assert_eq!(libc::WTERMSIG(wait(child)), signal);
                assert!(start.elapsed().as_secs() < 50);
            });
        }
    }
}

#[test]
fn access_control_lists_hold_and_are_inherited() {
    let here = directory(None);
    let set = |words: &[&str]| {
        let done = Command::new("setfacl").args(words).current_dir(here.path()).status();
        assert!(done.unwrap().success());
    };
    fs::write(here.path().join("file"), "for one").unwrap();
    fs::set_permissions(here.path().join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(here.path().join("directory")).unwrap();
    set(&["-m", "u:1234:r", "file"]);
    set(&["-m", "u:1234:rwx,d:u:4321:rw", "directory"]);
    Mount::new(here.path(), local()).writable().see(|| {
        let as_user = |user: u32, check: &dyn Fn() -> bool| {
            let child = fork(|| {
                mount::become_user(Some(user));
                assert!(check());
            });
            assert_eq!(wait(child), 0);
        };
        as_user(1234, &|| fs::read("file").is_ok() && fs::write("directory/new", "x").is_ok());
        as_user(4321, &|| fs::read("file").is_err() && fs::write("directory/other", "x").is_err());
    });
    let acl = Command::new("getfacl").arg("-n").arg(here.path().join("directory/new")).output();
    let acl = String::from_utf8(acl.unwrap().stdout).unwrap();
    assert!(acl.contains("user:4321:rw-"), "{acl}");
}

#[test]
fn a_program_that_only_its_owner_may_execute_is_not_executed_by_others() {
    let here = directory(None);
    fs::copy("/bin/true", here.path().join("true")).unwrap();
    for (mode, may) in [(0o755, true), (0o744, false), (0o644, false)] {
        fs::set_permissions(here.path().join("true"), fs::Permissions::from_mode(mode)).unwrap();
        let run = || {
            let ran = Command::new("./true").status();
            assert_eq!(ran.as_ref().is_ok_and(std::process::ExitStatus::success), may, "{ran:?}");
        };
        Mount::new(here.path(), local()).user(Some(NOBODY)).see(run);
        Mount::new(here.path(), local()).see(|| {
            mount::become_user(Some(NOBODY));
            run();
        });
    }
}
