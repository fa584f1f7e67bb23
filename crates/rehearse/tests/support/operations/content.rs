//! What is in files: holes, maps, copies, locks, files without a name.

use super::*;

pub fn open_and_gone(log: &mut Transcript) {
    fs::write("gone", "still here").unwrap();
    let mut file = OpenOptions::new().read(true).write(true).open("gone").unwrap();
    log.line("unlink open", fs::remove_file("gone"));
    log.line("stat path", fs::metadata("gone").map(|_| ()));
    log.line("fstat", file.metadata().map(|stat| (stat.nlink(), stat.len())));
    let mut text = String::new();
    log.line("read", file.read_to_string(&mut text).map(|_| text.clone()));
    log.line("write", file.write_all(b" and more"));
    log.line("size", file.metadata().map(|stat| stat.len()));
    log.line("fchmod", file.set_permissions(fs::Permissions::from_mode(0o600)));
    log.line("mode", file.metadata().map(|stat| stat.mode()));
    log.line("ftruncate", file.set_len(3));
    log.line("by /proc", fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())));
    fs::write("gone", "another").unwrap();
    log.line("new one", fs::read_to_string("gone"));
    log.line("old one", file.metadata().map(|stat| stat.len()));
    fs::create_dir("gone_directory").unwrap();
    let directory = File::open("gone_directory").unwrap();
    fs::remove_dir("gone_directory").unwrap();
    log.line("fstat", directory.metadata().map(|stat| stat.nlink()));
    fs::write("over", "old").unwrap();
    let old = File::open("over").unwrap();
    fs::write("over2", "newer").unwrap();
    fs::rename("over2", "over").unwrap();
    log.line("replaced", old.metadata().map(|stat| (stat.nlink(), stat.len())));
}

pub fn sparse(log: &mut Transcript) {
    const GB: u64 = 1 << 30;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open("sparse")
        .unwrap();
    log.line("8 GiB", file.set_len(8 * GB));
    log.line("write far", file.write_at(b"far", 5 * GB));
    log.line("sync", file.sync_all());
    log.line("size", file.metadata().map(|stat| (stat.len(), stat.blocks() < 1000)));
    let mut three = [0; 3];
    log.line("read far", file.read_at(&mut three, 5 * GB).map(|_| three));
    log.line("hole", file.read_at(&mut three, 4 * GB).map(|_| three));
    let seek = |offset: u64, whence| {
        checked(unsafe { libc::lseek(file.as_raw_fd(), offset as i64, whence) })
    };
    log.line("data", seek(0, libc::SEEK_DATA));
    log.line("hole", seek(5 * GB, libc::SEEK_HOLE));
    log.line("no more data", seek(6 * GB, libc::SEEK_DATA));
    log.line("end", file.seek(SeekFrom::End(-1)));
    let allocate = |mode, at, length| {
        checked(unsafe { libc::fallocate(file.as_raw_fd(), mode, at, length) }.into())
    };
    log.line("allocate", allocate(0, 0, 65536));
    log.line(
        "punch",
        allocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 5 << 30, 4096),
    );
    log.line("punched", file.read_at(&mut three, 5 * GB).map(|_| three));
    log.line("too big", file.set_len(1 << 62));
    fs::remove_file("sparse").unwrap();
}

pub fn mapped(log: &mut Transcript) {
    fs::write("m", vec![b'a'; 10_000]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open("m").unwrap();
    let map = |access, kind| {
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), 10_000, access, kind, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(address.cast::<u8>())
        }
    };
    let shared = map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED).unwrap();
    let private = map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE).unwrap();
    unsafe {
        *shared.add(5000) = b'S';
        *private.add(6000) = b'P';
        log.line("msync", checked(libc::msync(shared.cast(), 10_000, libc::MS_SYNC).into()));
        log.line("seen privately", Ok(*private.add(5000) as char));
    }
    let byte = |at| {
        let mut byte = [0];
        file.read_at(&mut byte, at).map(|_| byte[0] as char)
    };
    log.line("written by map", byte(5000));
    log.line("private", byte(6000));
    file.write_at(b"W", 7000).unwrap();
    log.line("write seen by map", Ok(unsafe { *shared.add(7000) } as char));
    unsafe {
        *shared.add(9000) = b'Z';
        libc::munmap(shared.cast(), 10_000);
        libc::munmap(private.cast(), 10_000);
    }
    drop(file);
    log.line("after close", fs::read("m").map(|data| (data.len(), data[9000] as char)));
    let executable = fs::read("/proc/self/exe").unwrap();
    fs::write("program", &executable[..4096]).unwrap();
    let file = File::open("program").unwrap();
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    log.line("map to execute", Ok(address != libc::MAP_FAILED));
}

pub fn locks(log: &mut Transcript) {
    let open = || {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open("lock").unwrap()
    };
    let (one, two) = (open(), open());
    let flock = |file: &File, how| checked(unsafe { libc::flock(file.as_raw_fd(), how) }.into());
    log.line("flock", flock(&one, libc::LOCK_EX));
    log.line("flock of another", flock(&two, libc::LOCK_EX | libc::LOCK_NB));
    log.line("unlock", flock(&one, libc::LOCK_UN));
    log.line("flock of another", flock(&two, libc::LOCK_SH | libc::LOCK_NB));
    let fcntl = |file: &File, command, kind: i32| {
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_len) = (kind as i16, 10);
        checked(unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) }.into())
            .map(|_| lock.l_type)
    };
    log.line("fcntl", fcntl(&one, libc::F_SETLK, libc::F_WRLCK));
    log.line("open file description", fcntl(&two, libc::F_OFD_SETLK, libc::F_WRLCK));
    log.line("who", fcntl(&two, libc::F_OFD_GETLK, libc::F_WRLCK));
    drop(one);
    log.line("released by close", fcntl(&two, libc::F_OFD_SETLK, libc::F_WRLCK));
}

pub fn appends(log: &mut Transcript) {
    let append = || OpenOptions::new().append(true).create(true).open("log").unwrap();
    let (mut one, mut two) = (append(), append());
    for _ in 0..3 {
        one.write_all(b"one ").unwrap();
        two.write_all(b"two ").unwrap();
    }
    log.line("appended", fs::read_to_string("log"));
    log.line(
        "flags",
        checked(unsafe { libc::fcntl(one.as_raw_fd(), libc::F_GETFL) }.into())
            .map(|flags| flags as i32 & libc::O_APPEND),
    );
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open("m").map(|_| ());
    log.line("direct", direct);
}

pub fn copies(log: &mut Transcript) {
    fs::write("from", "0123456789".repeat(1000)).unwrap();
    let (from, to) = (File::open("from").unwrap(), File::create("to").unwrap());
    let (mut at, mut into) = (10, 0);
    let copied = unsafe {
        libc::copy_file_range(from.as_raw_fd(), &mut at, to.as_raw_fd(), &mut into, 5000, 0)
    };
    log.line("copy_file_range", checked(copied as i64));
    let mut offset = 0;
    log.line(
        "sendfile",
        checked(
            unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), &mut offset, 100) } as i64
        ),
    );
    log.line("to", fs::metadata("to").map(|stat| stat.len()));
    log.line("copy", fs::copy("from", "copy"));
    log.line("same", Ok(fs::read("from").unwrap() == fs::read("copy").unwrap()));
}

pub fn temporary(log: &mut Transcript) {
    let file = tempfile_in(".");
    log.line("mkstemp", file.and_then(|mut file| file.write_all(b"x")));
}

fn tempfile_in(directory: &str) -> io::Result<File> {
    let mut template = c(format!("{directory}/tmp.XXXXXX")).into_bytes_with_nul();
    let descriptor = checked(unsafe { libc::mkstemp(template.as_mut_ptr().cast()) }.into())?;
    fs::remove_file(Path::new(std::str::from_utf8(&template[..template.len() - 1]).unwrap()))?;
    Ok(unsafe { File::from_raw_fd(descriptor as i32) })
}
