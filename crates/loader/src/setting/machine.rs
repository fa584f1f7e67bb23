//! What the entries of ld.so.cache are marked with, per machine.

use super::Profile;
use super::profile::X86_64;

pub(crate) use super::profile::I386;

/// `_DL_CACHE_DEFAULT_ID`: a library of libc6, for x86-64 also that
/// (sysdeps/unix/sysv/linux/x86_64/dl-cache.h).
pub(crate) fn cache_flags(profile: &Profile) -> u32 {
    if profile.machine == X86_64 { 0x303 } else { 3 }
}

/// `_dl_cache_check_flags`: where nothing else is said, a library of any libc will do.
pub(crate) fn takes_cache_flags(profile: &Profile, flags: u32) -> bool {
    flags == cache_flags(profile) || (profile.machine != X86_64 && flags == 1)
}
