//! A file, or a part of one, as a block device (loop(4)), so that the kernel can mount it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A loop device. It is let go by the kernel once it is neither open nor mounted.
#[derive(Debug)]
pub struct Loopback {
    path: PathBuf,
    _open: File,
}

/// `LOOP_CTL_GET_FREE`, `LOOP_SET_FD`, `LOOP_CLR_FD`, `LOOP_SET_STATUS64`, `LOOP_CONFIGURE` of
/// linux/loop.h.
const GET_FREE: libc::c_ulong = 0x4C82;
const SET_FD: libc::c_ulong = 0x4C00;
const CLEAR_FD: libc::c_ulong = 0x4C01;
const SET_STATUS: libc::c_ulong = 0x4C04;
const CONFIGURE: libc::c_ulong = 0x4C0A;

const READ_ONLY: u32 = 1;
const AUTOCLEAR: u32 = 4;

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Status {
    device: [u64; 3],
    offset: u64,
    size: u64,
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [[u8; 64]; 2],
    key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct Configuration {
    file: u32,
    block_size: u32,
    status: Status,
    reserved: [u64; 8],
}

/// Others look for a free device at the same time.
const TRIES: usize = 64;

impl Loopback {
    /// `size` bytes of a file from `offset` on, as a device. Needs root.
    ///
    /// # Errors
    /// No loop devices here, none free, or not allowed.
    pub fn attach(file: &File, offset: u64, size: u64, read_only: bool) -> io::Result<Loopback> {
        let control = File::options().read(true).write(true).open("/dev/loop-control")?;
        let flags = AUTOCLEAR | if read_only { READ_ONLY } else { 0 };
        let status = Status {
            device: [0; 3],
            offset,
            size,
            number: 0,
            encryption: [0; 2],
            flags,
            names: [[0; 64]; 2],
            key: [0; 32],
            init: [0; 2],
        };
        let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
        for _ in 0..TRIES {
            // SAFETY: takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = File::options().read(true).write(!read_only).open(&path)?;
            match configure(&device, file, status) {
                Ok(()) => return Ok(Loopback { path, _open: device }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Its file, to be mounted while this lives.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn configure(device: &File, file: &File, status: Status) -> io::Result<()> {
    let (device, number) = (device.as_raw_fd(), file.as_raw_fd());
    let both = Configuration { file: number as u32, block_size: 0, status, reserved: [0; 8] };
    // SAFETY: the kernel reads the structure, which outlives the call.
    if unsafe { libc::ioctl(device, CONFIGURE, &raw const both) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    // Before Linux 5.8: in two steps.
    if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTTY)) {
        return Err(error);
    }
    // SAFETY: a descriptor of this process is handed over; the kernel reads the structure.
    unsafe {
        if libc::ioctl(device, SET_FD, number) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::ioctl(device, SET_STATUS, &raw const status) != 0 {
            let error = io::Error::last_os_error();
            libc::ioctl(device, CLEAR_FD, 0);
            return Err(error);
        }
    }
    Ok(())
}
