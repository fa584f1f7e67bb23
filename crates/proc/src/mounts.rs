//! /proc/PID/mountinfo (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount: a line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Where it is mounted, seen from the process's root.
    pub point: PathBuf,
    /// The filesystem's type, such as `ext4`, `nfs4` or `fuse.sshfs`.
    pub kind: OsString,
    /// The device or server; whatever the filesystem says, even nothing.
    pub source: OsString,
}

impl MountEntry {
    /// That of a line; none where it is not one.
    ///
    /// Any number of optional fields precedes a single `-`, and a source may be empty, so that
    /// fields are told apart by each single space.
    fn of_line(line: &[u8]) -> Option<MountEntry> {
        let mut fields = line.split(|byte| *byte == b' ');
        let point = fields.nth(4)?;
        fields.find(|field| *field == b"-")?;
        let (kind, source) = (fields.next()?, fields.next()?);
        Some(MountEntry {
            point: OsString::from_vec(unescaped(point)).into(),
            kind: OsString::from_vec(unescaped(kind)),
            source: OsString::from_vec(unescaped(source)),
        })
    }
}

/// The mounts that a mountinfo lists, in its order: of two at one point, the later covers the
/// earlier.
pub fn mount_entries(mountinfo: &[u8]) -> impl Iterator<Item = MountEntry> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(MountEntry::of_line)
}

/// A field as it is: the kernel writes spaces, tabs, newlines and backslashes as `\040`
/// (fs/proc_namespace.c, `mangle`).
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| *first == b'\\');
        match digits.and_then(octal) {
            Some(byte) => {
                text.push(byte);
                rest = &after[3..];
            }
            None => {
                text.push(*first);
                rest = after;
            }
        }
    }
    text
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    digits.iter().try_fold(0u8, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(digit - b'0'),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn entry(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        let entry = MountEntry::of_line(line)?;
        let bytes = |text: OsString| text.into_vec();
        Some((bytes(entry.point.into()), bytes(entry.kind), bytes(entry.source)))
    }

    fn is(line: &[u8], point: &[u8], kind: &[u8], source: &[u8]) {
        assert_eq!(entry(line), Some((point.to_vec(), kind.to_vec(), source.to_vec())));
    }

    #[test]
    fn a_mount_has_any_number_of_optional_fields() {
        is(b"22 1 0:20 / /sys rw - sysfs sysfs rw", b"/sys", b"sysfs", b"sysfs");
        let line = b"91 22 0:51 / /home rw shared:1 master:2 propagate_from:3 - nfs4 srv:/h rw";
        is(line, b"/home", b"nfs4", b"srv:/h");
    }

    #[test]
    fn what_is_written_as_octal_digits_is_read_as_it_is() {
        let line = br"90 22 0:50 / /with\040space\011\012\134b\043 ro - fuse.becalm a\040b rw";
        is(line, b"/with space\t\n\\b#", b"fuse.becalm", b"a b");
    }

    #[test]
    fn a_backslash_without_three_octal_digits_is_one() {
        is(br"1 2 0:1 / /a\09\400\8 rw - ext4 x\ rw", br"/a\09\400\8", b"ext4", br"x\");
        is(br"1 2 0:1 / /\+12\-1 rw - ext4 \04 rw", br"/\+12\-1", b"ext4", br"\04");
    }

    #[test]
    fn names_need_not_be_utf8_and_may_look_like_the_separator() {
        is(b"1 2 0:1 / /\xff\xc3/- rw - tmpfs \xfe rw", b"/\xff\xc3/-", b"tmpfs", b"\xfe");
        is(b"1 2 0:1 /- - rw shared:1 - tmpfs - rw", b"-", b"tmpfs", b"-");
    }

    #[test]
    fn a_source_may_be_empty() {
        is(b"1 2 0:1 / /t rw shared:9 - tmpfs  rw,mode=755", b"/t", b"tmpfs", b"");
    }

    #[test]
    fn a_line_that_is_none_does_not_hide_the_others() {
        let list = b"bad line\n\n1 2 0:1 / /cut rw -\n1 2 0:1 / /cut rw - ext4\n\
            1 2 0:1 / /a rw - ext4 /dev/a rw\n\xff\n1 2 0:1 / /b rw - ext4 /dev/b rw\n1 2 0:";
        let points: Vec<PathBuf> = mount_entries(list).map(|entry| entry.point).collect();
        assert_eq!(points, [PathBuf::from("/a"), PathBuf::from("/b")]);
    }

    #[test]
    fn the_root_of_this_process_is_among_its_mounts() {
        let list = std::fs::read("/proc/self/mountinfo").unwrap();
        let lines = list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        assert_eq!(mount_entries(&list).count(), lines.count());
        let root = OsStr::from_bytes(b"/");
        assert!(mount_entries(&list).any(|entry| entry.point == root && !entry.kind.is_empty()));
    }
}
