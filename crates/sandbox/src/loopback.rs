//! A file, or a part of one, as a block device (loop(4)), so that the kernel can mount it.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr;

/// A loop device. It is let go by the kernel once it is neither open nor mounted.
#[derive(Debug)]
pub struct Loopback {
    path: PathBuf,
    _open: File,
}

const READ_ONLY: u32 = 1;
const AUTOCLEAR: u32 = 4;

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
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
struct LoopConfig {
    file: u32,
    block_size: u32,
    info: LoopInfo,
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
        let info = LoopInfo {
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
            let number = LoopRequest::GetFree.send(&control)?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = File::options().read(true).write(!read_only).open(&path)?;
            match configure(&device, file, info) {
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

fn configure(device: &File, file: &File, info: LoopInfo) -> io::Result<()> {
    let both = LoopConfig { file: file.as_raw_fd() as u32, block_size: 0, info, reserved: [0; 8] };
    match LoopRequest::Configure(&both).send(device) {
        // Before Linux 5.8: in two steps.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTTY)) => {}
        done => return done.map(drop),
    }
    LoopRequest::SetFile(file).send(device)?;
    let set = LoopRequest::SetInfo(&info).send(device);
    if set.is_err() {
        let _ = LoopRequest::ClearFile.send(device);
    }
    set.map(drop)
}

/// What is asked of a loop device, or of the control device (linux/loop.h).
enum LoopRequest<'a> {
    /// The number of a free device.
    GetFree,
    SetFile(&'a File),
    ClearFile,
    SetInfo(&'a LoopInfo),
    /// The file and the information at once.
    Configure(&'a LoopConfig),
}

impl LoopRequest<'_> {
    fn send(self, device: &File) -> io::Result<i32> {
        let none = ptr::null();
        let (request, argument): (libc::Ioctl, *const c_void) = match self {
            LoopRequest::GetFree => (0x4C82, none),
            LoopRequest::SetFile(file) => {
                (0x4C00, ptr::without_provenance(file.as_raw_fd() as usize))
            }
            LoopRequest::ClearFile => (0x4C01, none),
            LoopRequest::SetInfo(info) => (0x4C04, ptr::from_ref(info).cast()),
            LoopRequest::Configure(config) => (0x4C0A, ptr::from_ref(config).cast()),
        };
        // SAFETY: the kernel only reads what the argument points to, which is of the request's
        // type and outlives the call; a number is a descriptor of this process.
        match unsafe { libc::ioctl(device.as_raw_fd(), request, argument) } {
            number if number >= 0 => Ok(number),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
