//! Which files the loader takes.

use super::GlibcLoader;
use crate::object::ElfClass;
use crate::setting::{GlibcProfile, profile};
use crate::simulation::{ProbeResult, Rejection};
use crate::{ElfError, ElfObject, Errno, OpenedFile};

/// What came of opening one path.
pub(super) enum Attempt {
    /// A file that can be mapped, as far as its headers say.
    Fit(OpenedFile),
    /// The search goes on: the file cannot be opened, or is for another machine.
    Next(Errno),
    /// The loader gives up on this name.
    Unfit(&'static str),
}

/// `ET_EXEC`, `ET_DYN`.
const KINDS: [u16; 2] = [2, 3];
const ET_DYN: u16 = 3;
/// Operating systems that may be named: none, and GNU (with symbols of type IFUNC or UNIQUE).
const OS_ABIS: [u8; 2] = [0, 3];

impl GlibcLoader<'_> {
    /// `open_verify` in elf/dl-load.c, once the file has been asked for.
    pub(super) fn verify(
        &self,
        opened: Result<OpenedFile, Errno>,
        other_class: &mut bool,
    ) -> (Attempt, ProbeResult) {
        let opened = match opened {
            Ok(opened) => opened,
            Err(errno) => return (Attempt::Next(errno), ProbeResult::Refused(errno)),
        };
        let unfit = |why| (Attempt::Unfit(why), ProbeResult::Rejected(Rejection::Unfit(why)));
        let Some(identity) = opened.identity else {
            return unfit(match opened.object.as_ref().map_err(AsRef::as_ref) {
                Err(ElfError::NotAFile) => "cannot read file data",
                Err(ElfError::Truncated) => "file too short",
                _ => "invalid ELF header",
            });
        };
        let profile = self.profile;
        let foreign = || {
            let answer = ProbeResult::Rejected(Rejection::Foreign);
            (Attempt::Next(Errno(libc::ENOENT)), answer)
        };
        if identity.class != profile.class {
            *other_class = true;
            return foreign();
        }
        let other_order = identity.big_endian != profile.big_endian;
        // The loader reads the field in its own byte order.
        let machine = if other_order { identity.machine.swap_bytes() } else { identity.machine };
        if machine != profile.machine && (profile.machine_first || !other_order) {
            return foreign();
        }
        if other_order {
            return unfit("ELF file data encoding of the other byte order");
        }
        match opened.object.as_deref() {
            Err(_) => unfit("damaged ELF file"),
            Ok(object) => match fault(object, profile.class) {
                Some(why) => unfit(why),
                None if wants_newer_kernel(object, profile) => foreign(),
                None => (Attempt::Fit(opened), ProbeResult::Found),
            },
        }
    }
}

/// What `open_verify` finds wrong with an ELF header.
fn fault(object: &ElfObject, class: ElfClass) -> Option<&'static str> {
    let header = &object.header;
    let entry = if class == ElfClass::Elf64 { 56 } else { 32 };
    let faults = [
        (header.ident_version != 1, "ELF file version ident does not match current one"),
        (!OS_ABIS.contains(&object.os_abi), "ELF file OS ABI invalid"),
        (!abi_version_is_known(object), "ELF file ABI version invalid"),
        (!header.padded, "nonzero padding in e_ident"),
        (header.version != 1, "ELF file version does not match current one"),
        (!KINDS.contains(&object.kind), "only ET_DYN and ET_EXEC can be loaded"),
        (header.entry_size != entry, "ELF file's phentsize not the expected size"),
    ];
    faults.iter().find(|(wrong, _)| *wrong).map(|(_, why)| *why)
}

/// `VALID_ELF_ABIVERSION` (sysdeps/gnu/ldsodefs.h): GNU's may say up to `LIBC_ABI_MAX`, which
/// was 4 when it was last raised.
fn abi_version_is_known(object: &ElfObject) -> bool {
    object.abi_version == 0 || (object.os_abi == 3 && object.abi_version < 4)
}

/// Whether the ABI tag asks for a newer kernel than is to be assumed.
fn wants_newer_kernel(object: &ElfObject, profile: &GlibcProfile) -> bool {
    let (Some([_, major, minor, patch]), Some(assumed)) = (object.abi_tag, profile.assumed_kernel)
    else {
        return false;
    };
    assumed < (major & 0xff) << 16 | (minor & 0xff) << 8 | patch & 0xff
}

/// The size of a page where the loader runs: x86 has one, whatever this machine's is.
fn page_size(profile: &GlibcProfile) -> u64 {
    match profile.machine {
        profile::X86_64 | profile::I386 => 4096,
        _ => rustix::param::page_size() as u64,
    }
}

/// What `_dl_map_object_from_fd` finds wrong with a library.
pub(super) fn unmappable(object: &ElfObject, profile: &GlibcProfile) -> Option<&'static str> {
    let header = &object.header;
    let no_dynamic = !object.is_dynamic || header.empty_dynamic;
    let faults = [
        (
            header.alignments & (page_size(profile) - 1) != 0,
            "ELF load command alignment not page-aligned",
        ),
        (!header.aligned, "ELF load command address/offset not page-aligned"),
        (!header.loadable, "object file has no loadable segments"),
        (object.kind != ET_DYN, "cannot dynamically load executable"),
        (no_dynamic, "object file has no dynamic section"),
        (
            object.flags_1 & ElfObject::PIE != 0 && profile.version >= (2, 30),
            "cannot dynamically load position-independent executable",
        ),
        (
            header.executable_stack && !profile.executable_stacks,
            "cannot enable executable stack as shared object requires",
        ),
    ];
    faults.iter().find(|(wrong, _)| *wrong).map(|(_, why)| *why)
}
