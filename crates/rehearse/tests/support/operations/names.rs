//! Names: making, finding, changing and removing them.

use super::*;

pub fn files(log: &mut Transcript) {
    log.line("write", fs::write("a", "hello"));
    log.stat("a");
    log.line("read", fs::read_to_string("a"));
    log.line("exclusive", OpenOptions::new().write(true).create_new(true).open("a").map(|_| ()));
    log.line("truncating", File::create("a").map(|_| ()));
    log.stat("a");
    let mut file = OpenOptions::new().read(true).write(true).open("a").unwrap();
    log.line("write", file.write_all(b"0123456789"));
    log.line("seek", file.seek(SeekFrom::Start(3)));
    let mut four = [0; 4];
    log.line("read", file.read_exact(&mut four).map(|()| four));
    log.line("pwrite", file.write_at(b"xy", 20));
    log.line("length", file.metadata().map(|stat| stat.len()));
    log.line("set_len", file.set_len(5));
    log.line("read", fs::read("a"));
    log.line("beyond", file.read_at(&mut four, 100));
    log.line("sync", file.sync_all());
    log.line("sync data", file.sync_data());
    log.line(
        "read what is for writing",
        OpenOptions::new().write(true).open("a").and_then(|mut file| file.read(&mut [0])),
    );
    log.line("a file as directory", fs::metadata("a/b").map(|_| ()));
    log.line("write to a directory", File::create(".").map(|_| ()));
    log.line(
        "ioctl",
        checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCGWINSZ, 0) }.into()),
    );
}

pub fn directories(log: &mut Transcript) {
    log.line("mkdir", fs::create_dir("d"));
    log.line("mkdir again", fs::create_dir("d"));
    log.line("mkdir deep", fs::create_dir_all("d/e/f"));
    log.stat("d");
    log.line("rmdir full", fs::remove_dir("d"));
    log.line("unlink directory", fs::remove_file("d/e"));
    log.line("rmdir file", fs::remove_dir("a"));
    log.line("rmdir", fs::remove_dir("d/e/f"));
    log.line("chdir", std::env::set_current_dir("d"));
    log.line("..", fs::metadata("../a").map(|stat| stat.len()));
    log.line("back", std::env::set_current_dir(".."));
    log.line("mode", fs::DirBuilder::new().mode(0o1777).create("sticky"));
    log.stat("sticky");
    fs::create_dir("setgid").unwrap();
    log.line("setgid", fs::set_permissions("setgid", fs::Permissions::from_mode(0o2775)));
    log.line("inherit", fs::create_dir("setgid/below"));
    log.stat("setgid/below");
}

pub fn links(log: &mut Transcript) {
    fs::write("target", "content").unwrap();
    log.line("symlink", symlink("target", "link"));
    log.line("symlink again", symlink("target", "link"));
    log.stat("link");
    log.line("readlink", fs::read_link("link"));
    log.line("through", fs::read_to_string("link"));
    log.line("readlink file", fs::read_link("target"));
    symlink("nowhere", "dangling").unwrap();
    log.line("dangling", fs::metadata("dangling").map(|_| ()));
    log.line("create through", fs::write("dangling", "made"));
    log.stat("nowhere");
    symlink("loop", "loop").unwrap();
    log.line("loop", fs::metadata("loop").map(|_| ()));
    log.line("long", symlink("x".repeat(4000), "long"));
    log.line("readlink long", fs::read_link("long").map(|path| path.as_os_str().len()));
    log.line(
        "O_NOFOLLOW",
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open("link").map(|_| ()),
    );
    log.line("hard", fs::hard_link("target", "hard"));
    log.line("hard again", fs::hard_link("target", "hard"));
    log.stat("target");
    let inode = |path| fs::symlink_metadata(path).unwrap().ino();
    log.line("same file", Ok(inode("target") == inode("hard")));
    log.line("hard link of a link", fs::hard_link("link", "hard_of_link"));
    log.line("is a link", fs::read_link("hard_of_link"));
    log.line("hard link of a directory", fs::hard_link("d", "hard_of_d"));
    fs::write("hard", "changed").unwrap();
    log.line("both", fs::read_to_string("target"));
    log.line("unlink one", fs::remove_file("target"));
    log.stat("hard");
    log.line(
        "lchown",
        checked(unsafe { libc::lchown(c("link").as_ptr(), u32::MAX, u32::MAX) }.into()),
    );
}

pub fn renames(log: &mut Transcript) {
    let rename2 = |from: &str, to: &str, flags: u32| {
        let (from, to) = (c(from), c(to));
        checked(unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                flags,
            )
        })
    };
    fs::write("r1", "one").unwrap();
    fs::write("r2", "two").unwrap();
    log.line("rename over", fs::rename("r1", "r2"));
    log.line("read", fs::read_to_string("r2"));
    log.line("gone", fs::metadata("r1").map(|_| ()));
    fs::write("r1", "again").unwrap();
    log.line("noreplace", rename2("r1", "r2", libc::RENAME_NOREPLACE));
    log.line("exchange", rename2("r1", "r2", libc::RENAME_EXCHANGE));
    log.line("read", Ok((fs::read_to_string("r1").unwrap(), fs::read_to_string("r2").unwrap())));
    fs::create_dir_all("old/in").unwrap();
    fs::write("old/in/file", "deep").unwrap();
    let file = File::open("old/in/file").unwrap();
    log.line("rename directory", fs::rename("old", "new"));
    log.line("read below", fs::read_to_string("new/in/file"));
    log.line("old", fs::metadata("old/in/file").map(|_| ()));
    log.line("open still", file.metadata().map(|stat| stat.len()));
    log.line("into itself", fs::rename("new", "new/in/new"));
    log.line(
        "over a full directory",
        fs::create_dir("empty").and_then(|()| fs::rename("empty", "new")),
    );
    log.line("over an empty directory", fs::rename("new", "empty"));
    log.line("file over directory", fs::rename("r1", "empty"));
    log.line("directory over file", fs::rename("empty", "r1"));
    log.line("missing", fs::rename("no such", "x"));
    log.line("make below", fs::write("empty/in/more", "more"));
}

pub fn missing(log: &mut Transcript) {
    log.line("none", fs::metadata("none").map(|_| ()));
    log.line("open none", File::open("none").map(|_| ()));
    log.line("unlink none", fs::remove_file("none"));
    log.line("rmdir none", fs::remove_dir("none"));
    log.line("in none", fs::write("none/x", ""));
    log.line("then made", fs::write("none", "now"));
    log.line("is there", fs::read_to_string("none"));
    log.line("unlink", fs::remove_file("none"));
    log.line("is gone", fs::metadata("none").map(|_| ()));
    log.line("empty path", fs::metadata("").map(|_| ()));
}

pub fn many(log: &mut Transcript) {
    fs::create_dir("many").unwrap();
    for number in 0..1000 {
        fs::write(format!("many/file number {number}"), "").unwrap();
    }
    let list = || {
        let mut names: Vec<_> =
            fs::read_dir("many").unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let names = list();
    log.line("listed", Ok((names.len(), names.first().cloned(), names.last().cloned())));
    for number in (0..1000).step_by(2) {
        fs::remove_file(format!("many/file number {number}")).unwrap();
    }
    log.line("half", Ok(list().len()));
    let kinds = fs::read_dir(".").unwrap().map(|entry| {
        let entry = entry.unwrap();
        let inode = fs::symlink_metadata(entry.path()).unwrap().ino();
        use std::os::unix::fs::DirEntryExt;
        (entry.file_name(), entry.file_type().unwrap().is_dir(), entry.ino() == inode)
    });
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort();
    log.line("kinds", Ok(kinds));
}

pub fn umasks(log: &mut Transcript) {
    for mask in [0o000, 0o022, 0o077, 0o777] {
        let old = unsafe { libc::umask(mask) };
        let made = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o666)
            .open(format!("masked{mask:o}"));
        log.line("create", made.map(|_| ()));
        log.line("mkdir", fs::DirBuilder::new().mode(0o777).create(format!("maskedd{mask:o}")));
        unsafe { libc::umask(old) };
        log.stat(&format!("masked{mask:o}"));
        log.stat(&format!("maskedd{mask:o}"));
    }
}

pub fn names(log: &mut Transcript) {
    use std::ffi::OsStr;
    for name in [&b"with space"[..], b"new\nline", b"\xff\xfe bytes", "ä".as_bytes(), &[b'n'; 255]]
    {
        let name = OsStr::from_bytes(name);
        log.line("create", fs::write(name, "x"));
        log.line("read", fs::read_to_string(name));
        log.line("remove", fs::remove_file(name));
    }
    log.line("too long", fs::write(OsStr::from_bytes(&[b'n'; 256]), "x"));
    log.line("path too long", fs::metadata("d/".repeat(3000)).map(|_| ()));
}
