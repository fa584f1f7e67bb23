//! What a file has beside its content: owner, group, permissions, times, extended attributes
//! (among them POSIX ACLs and the SELinux label), inode flags.

use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, IFlags, Mode, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};

use crate::{Error, state, text};

/// Attributes that the kernel would drop, or that vouch for the content: such a file is not
/// becalm's to rewrite.
const REFUSED: [(&str, &str); 3] = [
    ("security.capability", "has file capabilities, which a rewritten file would lose"),
    ("security.ima", "is signed or measured by IMA: changed, the kernel may refuse it"),
    ("security.evm", "is protected by EVM: changed, the kernel may refuse it"),
];

/// Attributes that say where a filesystem keeps a file, not what the file is: they are the new
/// file's own. Lustre (lustre.lov, trusted.lov and others) and Ceph (ceph.layout).
const PLACEMENT: [&str; 7] = [
    "lustre.",
    "ceph.",
    "trusted.lov",
    "trusted.lma",
    "trusted.link",
    "trusted.som",
    "trusted.hsm",
];

/// Inode flags that a user sets and a filesystem then heeds (chattr(1)).
const KEPT_FLAGS: IFlags = IFlags::COMPRESSED
    .union(IFlags::DIRSYNC)
    .union(IFlags::JOURNALING)
    .union(IFlags::NOATIME)
    .union(IFlags::NOCOW)
    .union(IFlags::NODUMP)
    .union(IFlags::NOTAIL)
    .union(IFlags::PROJECT_INHERIT)
    .union(IFlags::SECURE_REMOVAL)
    .union(IFlags::SYNC)
    .union(IFlags::TOPDIR)
    .union(IFlags::UNRM);

/// The attributes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileAttributes {
    #[serde(with = "text::mode")]
    mode: u32,
    uid: u32,
    gid: u32,
    atime: FileTime,
    mtime: FileTime,
    /// What chattr(1) sets, of [`KEPT_FLAGS`]; none in a journal from before they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flags: Option<u32>,
    /// Extended attributes by name, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    xattrs: Vec<ExtendedAttribute>,
}

/// Seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileTime(i64, i64);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct ExtendedAttribute {
    #[serde(with = "text::bytes")]
    name: Vec<u8>,
    #[serde(with = "text::bytes")]
    value: Vec<u8>,
}

impl FileAttributes {
    /// Those of an open file or directory. `found` is what fstat(2) said before it was read.
    pub(crate) fn of(file: &File, found: &std::fs::Metadata) -> Result<FileAttributes, Errno> {
        let flags = Some((all_flags(file) & KEPT_FLAGS).bits());
        Ok(FileAttributes { flags, xattrs: xattrs(file)?, ..FileAttributes::without_xattrs(found) })
    }

    /// Those of something whose extended attributes are none or out of reach: a symbolic link.
    pub(crate) fn without_xattrs(found: &std::fs::Metadata) -> FileAttributes {
        FileAttributes {
            mode: found.mode() & 0o7777,
            uid: found.uid(),
            gid: found.gid(),
            atime: FileTime(found.atime(), found.atime_nsec()),
            mtime: FileTime(found.mtime(), found.mtime_nsec()),
            flags: None,
            xattrs: Vec::new(),
        }
    }

    /// The same for a file that is written now. Of the time whole seconds, which every filesystem
    /// keeps.
    pub(crate) fn of_now(&self) -> FileAttributes {
        let now = FileTime(i64::try_from(state::now()).unwrap_or(i64::MAX), 0);
        FileAttributes { atime: now, mtime: now, ..self.clone() }
    }

    /// Whether there is an access control list beside the permissions (acl(5)).
    pub(crate) fn has_access_list(&self) -> bool {
        self.xattrs.iter().any(|xattr| xattr.name == b"system.posix_acl_access")
    }

    /// Why a file with these attributes is not rewritten.
    pub(crate) fn refusal(&self) -> Option<String> {
        if self.mode & 0o6000 != 0 {
            return Some("is set-user-id or set-group-id: becalm leaves such files alone".into());
        }
        let has = |name: &str| self.xattrs.iter().any(|xattr| xattr.name == name.as_bytes());
        REFUSED.iter().find(|(name, _)| has(name)).map(|(_, reason)| (*reason).to_owned())
    }

    /// Why this user cannot put a new file in the place of one with these attributes.
    pub(crate) fn cannot_be_kept(&self, who: &Who) -> Option<String> {
        self.refusal().or_else(|| self.cannot_be_given(who))
    }

    /// Why this user cannot make a file with this owner and group.
    pub(crate) fn cannot_be_given(&self, who: &Who) -> Option<String> {
        if who.stranger.is_some_and(|id| self.uid == id || self.gid == id) {
            return Some("belongs to nobody whom this user namespace knows".into());
        }
        if who.may_give {
            return None;
        }
        if self.uid != who.uid {
            return Some(format!(
                "belongs to user {}: only root could rewrite it and keep its owner",
                self.uid
            ));
        }
        let foreign = !who.groups.contains(&self.gid);
        foreign.then(|| format!("is of group {}, which you are not in", self.gid))
    }

    /// Whether two files differ in anything but their times.
    pub(crate) fn same_but_times(&self, other: &FileAttributes) -> bool {
        let timeless = |of: &FileAttributes| FileAttributes {
            atime: self.atime,
            mtime: self.mtime,
            ..of.clone()
        };
        let flags = self.flags.and(other.flags);
        FileAttributes { flags, ..timeless(self) }
            == FileAttributes { flags: other.flags.and(self.flags), ..timeless(other) }
    }

    /// Gives them to a new file that is open for writing, and reads back whether it has them: what
    /// fstat(2) then says.
    pub(crate) fn give(&self, file: &File, path: &Path) -> Result<Metadata, Error> {
        let failed = |operation| move |error: Errno| Error::at(operation, path, error);
        let found = file.metadata().map_err(|error| Error::at("fstat", path, error))?;
        if (found.uid(), found.gid()) != (self.uid, self.gid) {
            rustix::fs::fchown(file, Some(uid(self.uid)), Some(gid(self.gid)))
                .map_err(failed("keep the owner: fchown"))?;
        }
        // Before the permissions, which may forbid it even to the owner.
        let has_lists =
            self.give_xattrs(file).map_err(failed("keep the extended attributes: fsetxattr"))?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode))
            .map_err(failed("keep the permissions: fchmod"))?;
        let flags =
            self.give_flags(file).map_err(failed("keep the inode flags: FS_IOC_SETFLAGS"))?;
        rustix::fs::futimens(file, &self.times()).map_err(failed("keep the times: futimens"))?;
        let found = file.metadata().map_err(|error| Error::at("fstat", path, error))?;
        let mut given = FileAttributes::without_xattrs(&found);
        given.flags = Some(flags.bits());
        // chmod(2) changes a list that is there; it makes none.
        if has_lists {
            given.xattrs = xattrs(file).map_err(failed("fgetxattr"))?;
        }
        match self.difference(&given) {
            Some(what) => {
                Err(Error::refused(path, format!("the filesystem does not keep its {what}")))
            }
            None => Ok(found),
        }
    }

    /// Gives a new symbolic link, open as one (O_PATH), its owner and times.
    pub(crate) fn give_to_link(&self, link: &File, path: &Path) -> Result<(), Error> {
        let itself = AtFlags::EMPTY_PATH;
        rustix::fs::chownat(link, "", Some(uid(self.uid)), Some(gid(self.gid)), itself)
            .map_err(|error| Error::at("keep the owner: fchownat", path, error))?;
        let given = match rustix::fs::utimensat(link, "", &self.times(), itself) {
            // Before Linux 5.8. proc(5): this names what is open, and a link that is open is not followed.
            Err(Errno::INVAL) => {
                let open = format!("/proc/self/fd/{}", link.as_raw_fd());
                rustix::fs::utimensat(CWD, open, &self.times(), AtFlags::empty())
            }
            given => given,
        };
        given.map_err(|error| Error::at("keep the times: utimensat", path, error))
    }

    fn times(&self) -> Timestamps {
        let time = |moment: FileTime| Timespec { tv_sec: moment.0, tv_nsec: moment.1 };
        Timestamps { last_access: time(self.atime), last_modification: time(self.mtime) }
    }

    /// Those of [`KEPT_FLAGS`] that the file has then.
    fn give_flags(&self, file: &File) -> Result<IFlags, Errno> {
        let there = all_flags(file);
        match self.flags.map(IFlags::from_bits_retain) {
            // The directory gives some to new files in it.
            Some(wanted) if there & KEPT_FLAGS != wanted => {
                rustix::fs::ioctl_setflags(file, there.difference(KEPT_FLAGS) | wanted)?;
                Ok(all_flags(file) & KEPT_FLAGS)
            }
            _ => Ok(there & KEPT_FLAGS),
        }
    }

    /// Whether the file had any, or has been given some.
    fn give_xattrs(&self, file: &File) -> Result<bool, Errno> {
        let there = xattrs(file)?;
        for xattr in &there {
            // What the directory gives to new files in it, as a default ACL does.
            if !self.xattrs.iter().any(|wanted| wanted.name == xattr.name) {
                rustix::fs::fremovexattr(file, xattr.name.as_slice())?;
            }
        }
        for wanted in self.xattrs.iter().filter(|wanted| !there.contains(wanted)) {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::fsetxattr(file, wanted.name.as_slice(), &wanted.value, flags)?;
        }
        Ok(!there.is_empty() || !self.xattrs.is_empty())
    }

    fn difference(&self, given: &FileAttributes) -> Option<&'static str> {
        let differences = [
            (self.mode != given.mode, "permissions"),
            (self.uid != given.uid || self.gid != given.gid, "owner and group"),
            (self.xattrs != given.xattrs, "extended attributes"),
            (self.flags.is_some() && self.flags != given.flags, "inode flags (chattr)"),
            (self.mtime != given.mtime || self.atime != given.atime, "times"),
        ];
        differences.into_iter().find_map(|(differs, what)| differs.then_some(what))
    }
}

/// Who this process is, to the filesystem.
pub(crate) struct Who {
    uid: u32,
    groups: Vec<u32>,
    /// Whether it may make files of others. Root of a container may not always.
    may_give: bool,
    /// By which number it is told of users and groups that its user namespace does not know.
    stranger: Option<u32>,
}

impl Who {
    pub(crate) fn am_i() -> Who {
        let mut groups = vec![rustix::process::getegid().as_raw()];
        let more = rustix::process::getgroups().unwrap_or_default();
        groups.extend(more.into_iter().map(Gid::as_raw));
        let needed = CapabilitySet::CHOWN | CapabilitySet::FOWNER;
        Who {
            uid: rustix::process::geteuid().as_raw(),
            groups,
            may_give: capabilities(None).is_ok_and(|has| has.effective.contains(needed)),
            stranger: stranger(),
        }
    }
}

/// user_namespaces(7): the number for what is not mapped. None where everything is.
fn stranger() -> Option<u32> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let map = read("/proc/self/uid_map")?;
    let is_whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    if is_whole { None } else { read("/proc/sys/kernel/overflowuid")?.trim().parse().ok() }
}

fn uid(raw: u32) -> Uid {
    Uid::from_raw(raw)
}

fn gid(raw: u32) -> Gid {
    Gid::from_raw(raw)
}

/// The inode flags of an open file; none where the filesystem has none.
fn all_flags(file: &File) -> IFlags {
    rustix::fs::ioctl_getflags(file).unwrap_or(IFlags::empty())
}

/// The extended attributes of an open file, sorted by name, without those of its placement.
fn xattrs(file: &File) -> Result<Vec<ExtendedAttribute>, Errno> {
    let names = match whole(|buffer| rustix::fs::flistxattr(file, buffer)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        names => names?,
    };
    let mut xattrs = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if PLACEMENT.iter().any(|prefix| name.starts_with(prefix.as_bytes())) {
            continue;
        }
        match whole(|buffer| rustix::fs::fgetxattr(file, name, buffer)) {
            Ok(value) => xattrs.push(ExtendedAttribute { name: name.to_vec(), value }),
            // Gone again in the meantime.
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error),
        }
    }
    xattrs.sort();
    Ok(xattrs)
}

/// All that a call gives that takes a buffer and fails if it is too small.
fn whole(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    // XATTR_LIST_MAX and XATTR_SIZE_MAX, linux/limits.h.
    const MOST: usize = 65536;
    let mut buffer = vec![0; 1024];
    let got = match call(&mut buffer) {
        Err(Errno::RANGE) => {
            buffer.resize(MOST, 0);
            call(&mut buffer)?
        }
        got => got?,
    };
    buffer.truncate(got);
    Ok(buffer)
}
