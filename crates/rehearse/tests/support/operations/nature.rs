//! What files are: times, modes, extended attributes, devices, programs.

use super::*;

pub fn times_and_modes(log: &mut Transcript) {
    fs::write("t", "").unwrap();
    let set = |path: &str, times: [(i64, i64); 2], flags| {
        let times = times.map(|(tv_sec, tv_nsec)| libc::timespec { tv_sec, tv_nsec });
        checked(
            unsafe { libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), times.as_ptr(), flags) }
                .into(),
        )
    };
    let get = |path: &str| {
        fs::symlink_metadata(path).map(|s| (s.atime(), s.atime_nsec(), s.mtime(), s.mtime_nsec()))
    };
    for times in [
        [(1, 2), (3, 4)],
        [(1_500_000_000, 123_456_789), (1_600_000_000, 999_999_999)],
        [(-1, 800_000_000), (-1000, 1)],
        [(0, 0), (4_000_000_000, 5)],
    ] {
        log.line("utimens", set("t", times, 0));
        log.line("times", get("t"));
    }
    log.line("only mtime", set("t", [(0, libc::UTIME_OMIT), (7, 8)], 0));
    log.line("times", get("t"));
    log.line("now", set("t", [(0, libc::UTIME_NOW), (0, libc::UTIME_OMIT)], 0));
    log.line("is new", get("t").map(|t| (t.0 > 1_600_000_000, t.2)));
    symlink("t", "t_link").unwrap();
    log.line("of the link", set("t_link", [(11, 12), (13, 14)], libc::AT_SYMLINK_NOFOLLOW));
    log.line("link", get("t_link"));
    log.line("target", get("t").map(|t| t.2));
    let before = fs::metadata("t").unwrap().ctime_nsec();
    // Up to Linux 6.12 files have the time of the last tick, of which there may be 100 a second.
    std::thread::sleep(std::time::Duration::from_millis(20));
    for mode in [0o600, 0o644, 0o4755, 0o2755, 0o1777, 0o000, 0o777] {
        log.line("chmod", fs::set_permissions("t", fs::Permissions::from_mode(mode)));
        log.stat("t");
    }
    log.line("ctime", Ok(fs::metadata("t").unwrap().ctime_nsec() != before));
    let own = unsafe { libc::geteuid() };
    log.line(
        "chown to itself",
        checked(unsafe { libc::chown(c("t").as_ptr(), own, u32::MAX) }.into()),
    );
    // A user namespace knows no other user, and says so (EINVAL, not EPERM).
    let other = if own == 0 { 12345 } else { own };
    log.line(
        "chown to another",
        checked(unsafe { libc::chown(c("t").as_ptr(), other, other) }.into()),
    );
    log.stat("t");
    fs::write("suid", "x").unwrap();
    fs::set_permissions("suid", fs::Permissions::from_mode(0o4755)).unwrap();
    log.line(
        "write to suid",
        OpenOptions::new().append(true).open("suid").and_then(|mut f| f.write_all(b"y")),
    );
    log.stat("suid");
    fs::write("secret", "x").unwrap();
    fs::set_permissions("secret", fs::Permissions::from_mode(0o000)).unwrap();
    log.line("unreadable", fs::read("secret"));
    fs::create_dir("closed").unwrap();
    fs::write("closed/in", "x").unwrap();
    fs::set_permissions("closed", fs::Permissions::from_mode(0o000)).unwrap();
    log.line("closed, unknown", fs::metadata("closed/other").map(|_| ()));
    log.line("closed, list", fs::read_dir("closed").map(|_| ()));
    log.line("closed, create", fs::write("closed/new", ""));
    fs::set_permissions("closed", fs::Permissions::from_mode(0o700)).unwrap();
    let access = |path: &str, mask| checked(unsafe { libc::access(c(path).as_ptr(), mask) }.into());
    for mode in [0o000, 0o400, 0o200, 0o100, 0o700] {
        fs::set_permissions("t_access", fs::Permissions::from_mode(mode)).ok();
        fs::write("t_access", "").ok();
        for mask in [libc::F_OK, libc::R_OK, libc::W_OK, libc::X_OK] {
            log.line("access", access("t_access", mask));
        }
    }
    log.line("access to none", access("none", libc::F_OK));
}

pub fn attributes(log: &mut Transcript) {
    fs::write("x", "").unwrap();
    let path = c("x");
    let set = |name: &str, value: &[u8], flags| {
        let name = CString::new(name).unwrap();
        checked(
            unsafe {
                libc::setxattr(
                    path.as_ptr(),
                    name.as_ptr(),
                    value.as_ptr().cast(),
                    value.len(),
                    flags,
                )
            }
            .into(),
        )
    };
    let get = |name: &str, size: usize| {
        let (name, mut value) = (CString::new(name).unwrap(), vec![0u8; size]);
        let length = unsafe {
            libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), size)
        };
        checked(length as i64).map(|length| {
            value.truncate(length as usize);
            (length, String::from_utf8_lossy(&value).into_owned())
        })
    };
    log.line("set", set("user.one", b"value", 0));
    log.line("get", get("user.one", 100));
    log.line("length", get("user.one", 0));
    log.line("too small", get("user.one", 2));
    log.line("create", set("user.one", b"v", libc::XATTR_CREATE));
    log.line("replace none", set("user.two", b"v", libc::XATTR_REPLACE));
    log.line("missing", get("user.none", 100));
    log.line("long", set("user.long", &[b'l'; 2000], 0));
    log.line("get long", get("user.long", 4000).map(|value| value.0));
    log.line(
        "list",
        checked(unsafe { libc::listxattr(path.as_ptr(), std::ptr::null_mut(), 0) } as i64),
    );
    log.line(
        "remove",
        checked(unsafe { libc::removexattr(path.as_ptr(), c"user.one".as_ptr()) }.into()),
    );
    log.line("removed", get("user.one", 100));
    log.line("of no namespace", set("nonsense", b"v", 0));
    log.line("trusted", set("trusted.t", b"v", 0));
    symlink("x", "x_link").unwrap();
    let link = c("x_link");
    log.line(
        "of a link",
        checked(
            unsafe {
                libc::lsetxattr(link.as_ptr(), c"user.l".as_ptr(), b"v".as_ptr().cast(), 1, 0)
            }
            .into(),
        ),
    );
    log.line(
        "of a link",
        checked(unsafe {
            libc::lgetxattr(link.as_ptr(), c"user.l".as_ptr(), std::ptr::null_mut(), 0)
        } as i64),
    );
    log.line(
        "through a link",
        checked(unsafe {
            libc::getxattr(link.as_ptr(), c"user.long".as_ptr(), std::ptr::null_mut(), 0)
        } as i64),
    );
}

pub fn special(log: &mut Transcript) {
    let make = |name: &str, mode, device| {
        checked(unsafe { libc::mknod(c(name).as_ptr(), mode, device) }.into())
    };
    log.line("fifo", make("fifo", libc::S_IFIFO | 0o644, 0));
    log.stat("fifo");
    log.line("device", make("null", libc::S_IFCHR | 0o666, libc::makedev(1, 3)));
    log.stat("null");
    log.line("node file", make("node", libc::S_IFREG | 0o600, 0));
    log.stat("node");
    let socket = std::os::unix::net::UnixListener::bind("socket");
    log.stat("socket");
    let socket = socket.unwrap();
    let talk = std::os::unix::net::UnixStream::connect("socket");
    log.line("connect", talk.map(|_| ()));
    drop(socket);
    log.line("nobody listens", std::os::unix::net::UnixStream::connect("socket").map(|_| ()));
    let write = std::thread::spawn(|| fs::write("fifo", "through the pipe"));
    log.line("read fifo", fs::read_to_string("fifo"));
    write.join().unwrap().unwrap();
}

pub fn execution(log: &mut Transcript) {
    let run = |path: &str, words: &[&str]| {
        Command::new(path)
            .args(words)
            .output()
            .map(|out| (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned()))
    };
    fs::copy("/bin/echo", "echo").unwrap();
    log.line("program", run("./echo", &["hello"]));
    fs::write("script", "#!/bin/sh\necho \"$0 $1\"\n").unwrap();
    log.line("not executable", run("./script", &["x"]));
    fs::set_permissions("script", fs::Permissions::from_mode(0o755)).unwrap();
    log.line("script", run("./script", &["x"]));
    fs::write("interpreted", "#!./echo from\n").unwrap();
    fs::set_permissions("interpreted", fs::Permissions::from_mode(0o755)).unwrap();
    log.line("own interpreter", run("./interpreted", &[]));
    fs::write("nonsense", "\0\0\0\0").unwrap();
    fs::set_permissions("nonsense", fs::Permissions::from_mode(0o755)).unwrap();
    log.line("nonsense", run("./nonsense", &[]));
    let sleep =
        fs::copy("/bin/sleep", "sleep").and_then(|_| Command::new("./sleep").arg("10").spawn());
    let mut sleep = sleep.unwrap();
    log.line("text busy", OpenOptions::new().write(true).open("sleep").map(|_| ()));
    log.line("unlink running", fs::remove_file("sleep"));
    sleep.kill().unwrap();
    log.line("killed", sleep.wait().map(|status| status.code()));
    fs::create_dir("lib").unwrap();
    let library =
        Command::new("sh").args(["-c", "ls /lib/*-linux-gnu/libc.so.6"]).output().unwrap();
    let library = String::from_utf8(library.stdout).unwrap();
    fs::copy(library.trim(), "lib/libc.so.6").unwrap();
    let out =
        Command::new("./echo").arg("by its own library").env("LD_LIBRARY_PATH", "lib").output();
    log.line("shared library", out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()));
}
