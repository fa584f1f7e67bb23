//! What is loaded before everything the program needs: LD_PRELOAD and /etc/ld.so.preload
//! (`dl_main` in elf/rtld.c). What cannot be loaded is warned of, and left out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::{GlibcLoader, PROGRAM};
use crate::simulation::{ProbeCall, ProbeResult};

/// `SECURE_PATH_LIMIT` and `SECURE_NAME_LIMIT` (elf/rtld.c).
const PATH_LIMIT: usize = 4096;
const NAME_LIMIT: usize = 255;

impl GlibcLoader<'_> {
    /// Loads all of them, in order.
    pub(super) fn preload(&mut self) {
        if let Some(list) = self.setting.preload.clone() {
            for name in list.as_bytes().split(|byte| b" :".contains(byte)) {
                if !name.is_empty() && name.len() < PATH_LIMIT && self.may_preload(name) {
                    self.preload_one(name);
                }
            }
        }
        let Some(path) = self.profile.preload_file.clone() else { return };
        if self.probe_access(&path, PROGRAM, &Arc::default()) {
            self.preload_from(&path);
        }
    }

    /// The names in the file: separated by white space or colons, with comments.
    fn preload_from(&mut self, path: &Path) {
        self.probe(ProbeCall::Open, path, ProbeResult::Found, PROGRAM, &Arc::default());
        let content = self.world.bytes(path).map_or_else(|_| Vec::new(), |bytes| bytes.to_vec());
        for name in names(content) {
            self.preload_one(&name);
        }
    }

    fn preload_one(&mut self, name: &[u8]) {
        // An error is a warning: "cannot be preloaded (…): ignored."
        let _ = self.map_object(OsStr::from_bytes(name), PROGRAM, true);
    }

    /// `dso_name_valid_for_suid`: where rights were gained, only names without a slash.
    fn may_preload(&self, name: &[u8]) -> bool {
        !self.setting.secure || (name.len() < NAME_LIMIT && !name.contains(&b'/'))
    }
}

/// The names that the loader finds in the content of a preload file.
///
/// Comments are blanked as `dl_main` does it: it looks for each from the start of the file, but
/// not as far as the file goes, so that not every one is found.
fn names(mut content: Vec<u8>) -> Vec<Vec<u8>> {
    let mut left = content.len();
    while let Some(mut at) = content[..left].iter().position(|byte| *byte == b'#') {
        left -= at;
        loop {
            content[at] = b' ';
            left -= 1;
            at += 1;
            if left == 0 || content[at] == b'\n' {
                break;
            }
        }
    }
    // A name at the very end is set apart; of the others, a NUL ends the list.
    let separates = |byte: &u8| b": \t\n".contains(byte);
    let last = content.iter().rposition(separates).map_or(0, |at| at + 1);
    let list = content[..last].split(|byte| *byte == 0).next().unwrap_or_default();
    let end = content[last..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = list.split(separates).chain([end]);
    names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}
