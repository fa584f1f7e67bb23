//! Two starts of a program, compared and understood: all that a pack consists of, but its file.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::arch::{PatchKind, PatchRecord};
use crate::compare::{StoppedStart, compare};
use crate::program::Program;
use crate::regions::Region;
use crate::write::PAGE;
use crate::{ContentIdentity, PackOptions};

/// Above all that is packed.
const HIGH: u64 = 0x6b00_0000_0000;

/// Where the kernel's vdso lies in the two starts: above all that is packed, as in every other start; but
/// below, where the stack is unlimited, for which the kernel keeps five sixths of all addresses
/// (`mmap_base` of arch/x86/mm/mmap.c). They are addresses that nothing else has in it.
pub(crate) fn vdso_places() -> [u64; 2] {
    match getrlimit(Resource::Stack).current {
        Some(_) => [0x6c5a_9b3d_7000, 0x6d93_c5e1_b000],
        None => [0x145a_9b3d_7000, 0x1593_c5e1_b000],
    }
}

/// The files that a start depends on: what is known of each, or that it is not there.
pub(crate) type Identities = BTreeMap<PathBuf, Option<ContentIdentity>>;

/// A file that is looked at when a pack starts, and where the loader has noted its device.
pub(crate) struct PackedFileCheck {
    pub path: PathBuf,
    pub identity: Option<ContentIdentity>,
    pub devices: Vec<u64>,
    /// It tells its mount's device, and is said never to change.
    pub is_immutable: bool,
}

/// What is known now of the files that a start depends on, its loader's among them.
pub(crate) fn identities(program: &Program, start: &StoppedStart) -> Identities {
    let identity = |path: &PathBuf| path.metadata().ok().map(|about| ContentIdentity::of(&about));
    let (directories, absent) = start.calls.absence();
    let paths = start.calls.present.iter().chain([&program.interpreter]).cloned();
    let paths = paths.chain(directories).chain(absent);
    paths.map(|path| (path.clone(), identity(&path))).collect()
}

/// All that a pack consists of, but its file.
pub(crate) struct PackWork<'a> {
    pub program: &'a Program,
    pub one: &'a StoppedStart,
    identities: Identities,
    /// Directories, without symbolic links and as they were named.
    immutable: Vec<(PathBuf, PathBuf)>,
    /// Of the program.
    pub own: Vec<Region>,
    /// Of the loader, of libraries.
    pub objects: Vec<Region>,
    pub patches: Vec<PatchRecord>,
    /// What the loader wrote into the program: runs of pages.
    pub written: Vec<(u64, Vec<u8>)>,
    /// Where the loader has noted a file's device.
    devices: BTreeMap<PathBuf, Vec<u64>>,
    pub bias: u64,
}

impl<'a> PackWork<'a> {
    /// Compares the starts; else, why the program is not packed.
    pub fn of(
        program: &'a Program,
        one: &'a StoppedStart,
        other: &StoppedStart,
        before: Identities,
        options: &PackOptions,
    ) -> Result<PackWork<'a>, String> {
        let regions = one.own_regions();
        if regions != other.own_regions() {
            return Err("two starts of it do not lie at the same addresses".into());
        }
        let now = program.path.metadata().map(|about| ContentIdentity::of(&about));
        let is_as_read = now.is_ok_and(|now| now == ContentIdentity::of(&program.about));
        if !is_as_read || one.calls != other.calls || identities(program, other) != before {
            return Err("two starts of it do not read the same files: one changes now".into());
        }
        if one.start.entry != other.start.entry {
            return Err("two starts of it begin differently".into());
        }
        let bias = one.start.entry.wrapping_sub(program.entry);
        let (start, end) = program.range(bias);
        let (own, objects) =
            regions.into_iter().partition(|region| region.start < end && region.end > start);
        let immutable = options.immutable.iter().map(|directory| {
            let named = std::path::absolute(directory);
            let real = named.and_then(|named| Ok((directory.canonicalize()?, named)));
            real.map_err(|error| format!("--immutable {}: {error}", directory.display()))
        });
        let immutable = immutable.collect::<Result<_, _>>()?;
        let mut work = PackWork {
            program,
            one,
            identities: before,
            immutable,
            own,
            objects,
            patches: Vec::new(),
            written: Vec::new(),
            devices: BTreeMap::new(),
            bias,
        };
        work.check_regions(start, end)?;
        let mut times = 0;
        for region in work.own.iter().chain(&work.objects).filter(|region| region.protection() != 0)
        {
            compare(one, other, region, (&mut work.patches, &mut times))?;
        }
        let keys = work.patches.iter().filter(|patch| patch.kind == PatchKind::RandomKey);
        if keys.count() != usize::from(one.calls.random_key.is_some()) {
            return Err("its loader asks for random bytes, and does not keep them".into());
        }
        work.find_devices()?;
        work.find_written()?;
        Ok(work)
    }

    fn check_regions(&mut self, start: u64, end: u64) -> Result<(), String> {
        let in_program = |region: &&Region| region.start < start || region.end > end;
        if self.own.is_empty() || self.own.iter().any(|region| in_program(&region)) {
            return Err("it does not lie where its headers say".into());
        }
        let between = (end + (1 << 32), HIGH);
        for region in self.own.iter().chain(&self.objects) {
            let name = &region.name;
            if region.shared {
                return Err(format!("its loader shares memory with others: {name}"));
            }
            if region.write && region.execute {
                return Err(format!("it has memory that is written and executed: {name}"));
            }
            if name.starts_with('[') || name.ends_with(" (deleted)") || name.contains("\\012") {
                return Err(format!("it has memory that is not known: {name}"));
            }
            let file = name.rsplit('/').next().unwrap_or_default();
            if file.starts_with("libtsan.so") {
                return Err(format!("it loads {file}, which wants all memory where it has it"));
            }
            if ["libcuda.so", "libnvidia-"].iter().any(|start| file.starts_with(start)) {
                return Err(format!("it loads {file}, which belongs to the machine's driver"));
            }
        }
        // Memory that nothing may touch is a gap in a pack, too.
        self.objects.retain(|region| region.protection() != 0);
        let is_clear = |region: &Region| region.start > between.0 && region.end < between.1;
        match !self.objects.is_empty() && self.objects.iter().all(is_clear) {
            true => Ok(()),
            false => Err("its libraries do not lie apart from it".into()),
        }
    }

    /// Finds where the loader has noted which file each library is (`l_file_id`): device and inode.
    fn find_devices(&mut self) -> Result<(), String> {
        let mut mapped: BTreeSet<_> = self.objects.iter().filter_map(Region::file).collect();
        // The kernel has opened the loader.
        mapped.retain(|path| Some(path) != self.one.loader.as_ref());
        let mut wanted = BTreeMap::new();
        for path in &self.one.calls.opened {
            let (Ok(about), Ok(real)) = (path.metadata(), path.canonicalize()) else {
                return Err(format!("{} is gone", path.display()));
            };
            if mapped.remove(&real) {
                wanted.insert((about.dev(), about.ino()), path.clone());
            }
        }
        if let Some(path) = mapped.first() {
            return Err(format!("it is not known how its loader came to {}", path.display()));
        }
        for region in self.objects.iter().filter(|region| region.write) {
            let content = self.one.content(region.start, region.length())?;
            let (words, _) = content.as_chunks::<8>();
            for (pair, at) in words.windows(2).zip((region.start..).step_by(8)) {
                let pair = (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1]));
                if let Some(path) = wanted.get(&pair) {
                    self.devices.entry(path.clone()).or_default().push(at);
                }
            }
        }
        match wanted.values().find(|path| !self.devices.contains_key(*path)) {
            Some(path) => Err(format!("its loader's note of {} is not found", path.display())),
            None => Ok(()),
        }
    }

    /// Finds the pages of the program that are not its file's any more.
    fn find_written(&mut self) -> Result<(), String> {
        for region in self.own.iter().filter(|region| region.protection() != 0) {
            let content = self.one.content(region.start, region.length())?;
            let mut before = vec![0; content.len()];
            if region.file().is_some() {
                let mut at = 0;
                while let Ok(read @ 1..) =
                    self.program.file.read_at(&mut before[at..], region.offset + at as u64)
                {
                    at += read;
                }
            }
            let pages = content.chunks(PAGE as usize).zip(before.chunks(PAGE as usize));
            for ((page, before), at) in pages.zip((region.start..).step_by(PAGE as usize)) {
                if page == before {
                    continue;
                }
                if region.execute || !self.program.is_writable(at.wrapping_sub(self.bias)) {
                    return Err("its loader writes into its instructions (DT_TEXTREL)".into());
                }
                match self.written.last_mut() {
                    Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.extend(page),
                    _ => self.written.push((at, page.to_vec())),
                }
            }
        }
        let is_written = |at: u64| {
            let within = |(start, bytes): &(u64, Vec<u8>)| {
                (*start..*start + bytes.len() as u64).contains(&at)
            };
            self.written.iter().any(within)
        };
        let in_program = |at: u64| self.own.iter().any(|region| region.contains(at));
        match self.patches.iter().any(|patch| in_program(patch.at) && !is_written(patch.at)) {
            true => Err("a word of it is not understood".into()),
            false => Ok(()),
        }
    }

    /// Whether a region is mapped to be written though the loader has protected it.
    pub fn is_rewritten(&self, region: &Region) -> bool {
        let patched = || self.patches.iter().any(|patch| region.contains(patch.at));
        let noted = || self.devices.values().flatten().any(|at| region.contains(*at));
        !region.write && !region.execute && (patched() || noted())
    }

    /// What is looked at when the pack starts.
    pub fn files(&self) -> Vec<PackedFileCheck> {
        let is_immutable = |path: &Path| {
            // Neither what it is nor the way to it.
            let real = path.ancestors().find_map(|above| above.canonicalize().ok());
            let holds = |top: &Path| real.as_ref().is_some_and(|real| real.starts_with(top));
            self.immutable.iter().any(|(real, named)| {
                holds(real) && (path.starts_with(named) || path.starts_with(real))
            })
        };
        let mut mounts = BTreeMap::<u64, usize>::new();
        let mut files: Vec<PackedFileCheck> = Vec::new();
        for (path, identity) in &self.identities {
            let devices = self.devices.get(path).cloned().unwrap_or_default();
            let is_immutable = is_immutable(path);
            if is_immutable {
                if devices.is_empty() {
                    continue;
                }
                // One file of each mount tells the device of all.
                let mount = path.metadata().map_or(0, |about| about.dev());
                if let Some(index) = mounts.get(&mount) {
                    files[*index].devices.extend(devices);
                    continue;
                }
                mounts.insert(mount, files.len());
            }
            files.push(PackedFileCheck {
                path: path.clone(),
                identity: *identity,
                devices,
                is_immutable,
            });
        }
        files
    }
}
