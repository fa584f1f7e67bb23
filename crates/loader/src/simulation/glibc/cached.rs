//! ld.so.cache, as the loader uses it (`_dl_load_cache_lookup` in elf/dl-cache.c).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::directories::with_slash;
use super::search::Quest;
use super::{GlibcLoader, NO_FILE};
use crate::ElfObject;
use crate::cache::LdSoCache;
use crate::simulation::{ProbeCall, ProbeResult};

impl GlibcLoader<'_> {
    /// Where the cache says the name is. The cache is opened when first needed.
    pub(super) fn cached(&mut self, quest: &Quest) -> Option<OsString> {
        if quest.only_set_user_id {
            return None;
        }
        if self.cache.is_none() {
            self.cache = Some(self.open_cache(quest));
        }
        self.cache.as_ref()?.as_ref()?;
        let no_hwcap = self.probe_nohwcap(quest.map, &quest.name);
        let cache = self.cache.as_ref()?.as_ref()?;
        let path = cache.lookup(&quest.name, self.profile, no_hwcap)?.to_owned();
        let object = &self.maps[quest.map].object;
        if object.flags_1 & ElfObject::NODEFLIB != 0 {
            let mut system = self.profile.system_directories.iter();
            let in_system = system.any(|directory| {
                let directory = with_slash(directory.as_os_str().as_bytes().to_vec());
                path.as_bytes().starts_with(&directory)
            });
            return (!in_system).then_some(path);
        }
        Some(path)
    }

    fn open_cache(&mut self, quest: &Quest) -> Option<LdSoCache> {
        let path = self.profile.cache.clone()?;
        let bytes = self.world.bytes(&path);
        let answer = match &bytes {
            Err(errno) if !NO_FILE.contains(&errno.0) => ProbeResult::Refused(*errno),
            _ => ProbeResult::Found,
        };
        self.probe(ProbeCall::Open, &path, answer, quest.map, &quest.name);
        LdSoCache::parse(bytes.ok()?, self.profile)
    }
}
