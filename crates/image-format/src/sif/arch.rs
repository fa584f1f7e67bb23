//! For which processors a container's root is: what its shell was built for.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};

use super::format::Arch;

/// A root has one of these; apptainer's `machine.ArchFromContainer` asks for the like.
const SHELLS: [&str; 5] = ["bin/sh", "bin/bash", "usr/bin/sh", "bin/busybox", "sbin/init"];

impl Arch {
    /// The one that this program was built for.
    pub fn native() -> Arch {
        let name = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "x86" => "386",
            "aarch64" => "arm64",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "powerpc64" => "ppc64",
            "loongarch64" => "loong64",
            other => other,
        };
        Arch::named(name).unwrap_or(Arch::UNKNOWN)
    }

    /// The one that the programs of a root directory are for. None if none of its shells is found
    /// or can be read.
    pub fn of_root(root: &Path) -> Option<Arch> {
        let directory =
            open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let directory = directory.ok()?;
        SHELLS.iter().find_map(|shell| {
            // An absolute link in the root leads to another place in the root.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = openat2(&directory, *shell, flags, Mode::empty(), ResolveFlags::IN_ROOT);
            let mut header = [0; 20];
            File::from(file.ok()?).read_exact(&mut header).ok()?;
            Arch::of_elf(&header)
        })
    }

    /// The one that an ELF file is for, by its first 20 bytes (elf.h).
    fn of_elf(header: &[u8; 20]) -> Option<Arch> {
        if header[..4] != *b"\x7fELF" {
            return None;
        }
        let (is_64, is_little) = (header[4] == 2, header[5] == 1);
        let machine = [header[18], header[19]];
        let machine =
            if is_little { u16::from_le_bytes(machine) } else { u16::from_be_bytes(machine) };
        Arch::named(match (machine, is_64, is_little) {
            (3, false, _) => "386",
            (62, true, _) => "amd64",
            (40, ..) => "arm",
            (183, ..) => "arm64",
            (21, _, false) => "ppc64",
            (21, _, true) => "ppc64le",
            (8, false, false) => "mips",
            (8, false, true) => "mipsle",
            (8, true, false) => "mips64",
            (8, true, true) => "mips64le",
            (22, true, _) => "s390x",
            (243, true, _) => "riscv64",
            (258, true, _) => "loong64",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_root_is_for_the_processors_that_its_shell_is_for() {
        assert_eq!(Arch::of_root(Path::new("/")), Some(Arch::native()));

        let root = tempfile::tempdir().unwrap();
        assert_eq!(Arch::of_root(root.path()), None);
        let mut s390x = b"\x7fELF\x02\x02\x01".to_vec();
        s390x.resize(18, 0);
        s390x.extend([0, 22]);
        std::fs::create_dir(root.path().join("bin")).unwrap();
        std::fs::write(root.path().join("bin/dash"), s390x).unwrap();
        symlink("/bin/dash", root.path().join("bin/sh")).unwrap();
        assert_eq!(
            Arch::of_root(root.path()),
            Arch::named("s390x"),
            "not this machine's /bin/dash"
        );
    }
}
