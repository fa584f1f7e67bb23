//! A pack's table and its files.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::about::digest;
use crate::arch::{
    AuxRecord, CopyRecord, FileKind, FileRecord, MapRecord, PatchKind, PatchRecord, ProtectRecord,
    StubTable, aux_action, cpuid_records, xcr0,
};
use crate::program::PT_INTERP;
use crate::regions::Region;
use crate::staging::PackStaging;
use crate::work::{PackWork, PackedFileCheck};
use crate::write::{PAGE, PackHead, PackedRun, can_load, write};
use crate::{ContentIdentity, MadePack, PackAbout, PackError, copy};

impl PackWork<'_> {
    /// Writes the pack and the program's copy.
    pub fn write(self, target: &Path) -> Result<MadePack, PackError> {
        let program = self.program;
        let refused = |reason: &str| program.refuse(reason);
        let runs = PackedRun::of(&self.objects, |region| self.is_rewritten(region));
        if !can_load(runs.len()) {
            let reason =
                format!("it would take {} segments, more than the kernel loads", runs.len());
            return Err(refused(&reason));
        }
        let files = self.files();
        unchanging(&files, target).map_err(|reason| refused(&reason))?;
        let lowest = runs.first().map_or(0, |run| run.start);
        let staged: Vec<u8> = self.written.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let mut head = PackHead::before(lowest, staged.len() as u64, runs.len());
        let interpreter = program.segments.iter().find(|segment| segment.kind == PT_INTERP);
        let header = interpreter.map_or(0, |segment| segment.header);
        let copy_path = copy::path_of(target);
        let staging = PackStaging::beside(target)?;
        let (out, copy) = (staging.file(0)?, staging.file(1)?);
        copy::write(&program.file, header, target, &copy)
            .map_err(PackError::at("write", &copy_path))?;
        let about = copy.metadata().map_err(PackError::at("look at", &copy_path))?;
        let copy_identity = ContentIdentity::of(&about);
        let table =
            self.table(&mut head, &files, copy_identity).map_err(|reason| refused(&reason))?;
        let written = write(head, &table, &staged, &runs, self.one, (&out, target))?;
        let about = PackAbout {
            format: PackAbout::FORMAT,
            program: program.path.clone(),
            identity: ContentIdentity::of(&program.about),
            copy: copy_path.clone(),
            copy_identity,
            fixed_layout: program.is_pie,
            stack_limit: getrlimit(Resource::Stack).current,
            not_as_executable: self.not_as_executable()?,
            libraries: self.objects.iter().filter_map(Region::file).collect::<BTreeSet<_>>().len(),
            files_checked: files.len() + 1,
            segments: runs.len(),
            words: self.patches.len(),
            file: target.to_owned(),
            length: written.length,
            head: (written.head.len() as u64, digest(&written.head)),
        };
        let trailer = about.trailer().map_err(|error| refused(&error.to_string()))?;
        let ended = out.write_all_at(&trailer, written.length).and_then(|()| out.sync_all());
        ended.map_err(PackError::at("write", target))?;
        // Closed before they have their names: what is open to be written cannot be executed (ETXTBSY).
        drop((out, copy));
        staging.place([target, &copy_path])?;
        let length = written.length + trailer.len() as u64;
        Ok(MadePack { file: target.to_owned(), length, about })
    }

    /// The table, and all that it points to.
    fn table(
        &self,
        head: &mut PackHead,
        files: &[PackedFileCheck],
        copy: ContentIdentity,
    ) -> Result<StubTable, String> {
        let (program, one) = (self.program, self.one);
        let value = |key| one.vector.iter().find(|(_, pair)| pair.0 == key).map(|(_, pair)| pair.1);
        let told = |key| value(key).ok_or("the kernel does not tell its loader enough");
        let (auxv, auxv_compared) = aux_records(&one.vector)?;
        if one.content(told(libc::AT_PLATFORM)?, 7)? != b"x86_64\0" {
            return Err("the kernel calls this machine something else than x86_64".into());
        }
        let path = head.text(program.path.as_os_str().as_bytes());
        let executable = head.text(b"/proc/self/exe");
        let own = ContentIdentity::of(&program.about);
        let own = file_record(head, path, FileKind::Same, Some(own), &[]);
        let copy = file_record(head, executable, FileKind::Copy, Some(copy), &[]);
        let records: Vec<_> = files
            .iter()
            .map(|file| {
                let path = head.text(file.path.as_os_str().as_bytes());
                let kind = if file.identity.is_some() { FileKind::Same } else { FileKind::Absent };
                file_record(head, path, kind, file.identity, &file.devices)
            })
            .collect();
        // Where set_tid_address(2) was told it is (before glibc 2.43), or elsewhere.
        let tid = |patch: &PatchRecord| patch.kind == PatchKind::ThreadNumber;
        if one.calls.tid_address != 0 && !self.patches.iter().any(tid) {
            return Err("its thread's number is not found".into());
        }
        let cpuid = cpuid_records().ok_or("this machine's processor saves no extended state")?;
        let name = program.real.file_name().unwrap_or_default().as_bytes();
        let [rseq, rseq_length, rseq_signature] = one.calls.rseq.unwrap_or_default();
        let (lowest, highest) =
            self.objects.first().zip(self.objects.last()).ok_or("it loads nothing")?;
        Ok(StubTable {
            magic: StubTable::MAGIC,
            resume: one.start.resume,
            entry: one.start.entry,
            base: told(libc::AT_BASE)?,
            thread: one.start.thread,
            tid_address: one.calls.tid_address,
            robust_list: one.calls.robust_list,
            rseq,
            rseq_length,
            rseq_signature,
            has_random_key: one.calls.random_key.is_some().into(),
            stack_limit: getrlimit(Resource::Stack).current.unwrap_or(u64::MAX),
            fixed_layout: u64::from(program.is_pie),
            kernel: head.put(&kernel()?),
            vdso: head.put(&self.vdso()?),
            vdso_below: u64::from(one.start.vdso < lowest.start),
            xcr0: xcr0(),
            cpuid: head.list(&cpuid),
            auxv: head.list(&auxv),
            auxv_compared,
            program: head.list(&[own])[0],
            copy: head.list(&[copy])[0],
            files: head.list(&records),
            maps: head.list(&self.maps()),
            copies: head.list(&self.copies(head.staged())),
            patches: head.list(&self.patches),
            protects: head.list(&self.protects()),
            program_path: path,
            program_headers: told(libc::AT_PHDR)?,
            program_header_count: told(libc::AT_PHNUM)?,
            name: head.text(&name[..name.len().min(15)]),
            loader_path: head.text(program.interpreter.as_os_str().as_bytes()),
            objects: lowest.start,
            objects_length: highest.end - lowest.start,
        })
    }

    /// The vdso's first page, which has its build id.
    fn vdso(&self) -> Result<Vec<u8>, String> {
        const NT_GNU_BUILD_ID: [u8; 8] = [3, 0, 0, 0, b'G', b'N', b'U', 0];
        let page = self.one.content(self.one.start.vdso, PAGE)?;
        match page.windows(8).any(|bytes| bytes == NT_GNU_BUILD_ID) {
            true => Ok(page),
            false => Err("the kernel's vdso has no build id where it is looked for".into()),
        }
    }

    /// The program's pages, as form 1 maps them.
    fn maps(&self) -> Vec<MapRecord> {
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
        let of = |region: &Region| {
            let is_anonymous = region.file().is_none();
            let flags = if is_anonymous { flags | libc::MAP_ANONYMOUS } else { flags };
            let write = if self.is_protected_last(region) { libc::PROT_WRITE as u64 } else { 0 };
            MapRecord {
                at: region.start,
                length: region.length(),
                protection: region.protection() | write,
                flags: flags as u64,
                offset: if is_anonymous { 0 } else { region.offset },
            }
        };
        self.own.iter().map(of).collect()
    }

    /// Whether the loader has taken away the right to write to a region of the program.
    fn is_protected_last(&self, region: &Region) -> bool {
        let is_writable = self.program.is_writable(region.start.wrapping_sub(self.bias));
        is_writable && !region.write
    }

    fn copies(&self, staged: u64) -> Vec<CopyRecord> {
        let mut from = staged;
        let of = |(to, bytes): &(u64, Vec<u8>)| {
            let length = bytes.len() as u64;
            from += length;
            CopyRecord { to: *to, from: from - length, length }
        };
        self.written.iter().map(of).collect()
    }

    fn protects(&self) -> Vec<ProtectRecord> {
        let own = self.own.iter().filter(|region| self.is_protected_last(region));
        let objects = self.objects.iter().filter(|region| self.is_rewritten(region));
        let of = |region: &Region| ProtectRecord {
            at: region.start,
            length: region.length(),
            protection: region.protection(),
        };
        own.chain(objects).map(of).collect()
    }

    /// Why the pack cannot be the executable: what asks which file the program is would find the pack.
    fn not_as_executable(&self) -> Result<Option<String>, PackError> {
        const EXECUTABLE: [&str; 4] =
            ["/proc/self/exe", "/proc/%d/exe", "/proc/%i/exe", "/proc/%ld/exe"];
        let regions = self.own.iter().chain(&self.objects).filter(|region| !region.execute);
        let skipped = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_libc = name.starts_with("libc.so") || name.starts_with("libc-2.");
            is_libc || self.one.loader.as_deref() == Some(path)
        };
        for region in regions.filter(|region| region.protection() != 0) {
            let Some(path) = region.file().filter(|path| !skipped(path)) else { continue };
            let content = self.one.content(region.start, region.length());
            let content = content.map_err(|reason| self.program.refuse(&reason))?;
            let has =
                |text: &str| content.windows(text.len()).any(|bytes| bytes == text.as_bytes());
            if EXECUTABLE.iter().any(|text| has(text)) {
                return Ok(Some(format!("{} may ask which file is run", path.display())));
            }
            let own = path == self.program.real && !self.one.calls.asked_origin;
            if own && ["$ORIGIN", "${ORIGIN}"].iter().any(|text| has(text)) {
                return Ok(Some("it names its own directory ($ORIGIN)".into()));
            }
        }
        Ok(None)
    }
}

/// Refuses what a start could not see to have changed, and what the pack itself changes.
fn unchanging(files: &[PackedFileCheck], target: &Path) -> Result<(), String> {
    for file in files.iter().filter(|file| !file.is_immutable) {
        // What is not there is looked for where it would be.
        let Some(there) = file.path.ancestors().find(|above| above.exists()) else { continue };
        if !tells_changes(there) {
            return Err(format!(
                "{} lies on a filesystem (an image, FUSE, …) that may not show that it is another file: \
                 --immutable DIR, and a new pack whenever the image is a new one",
                file.path.display()
            ));
        }
        if file.identity.is_some() && file.path.canonicalize().ok().as_deref() == target.parent() {
            return Err(format!(
                "its loader looks for libraries in {}, which a pack in there changes: -o ELSEWHERE",
                file.path.display()
            ));
        }
    }
    Ok(())
}

/// Whether each change of a file has a time of its own that nobody chooses (st_ctime): so it is on these
/// filesystems (linux/magic.h, and those of Lustre, Spectrum Scale, ZFS, BeeGFS and bcachefs). An
/// image has the times that it was made with, and equal inode numbers when it is made again.
fn tells_changes(path: &Path) -> bool {
    #[rustfmt::skip]
    const KNOWN: [u32; 14] = [
        0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x8584_58f6, 0x6969, 0x0bd0_0bd0, 0x4750_4653,
        0x2fc1_2fc1, 0x00c3_6400, 0x1983_0326, 0xf2f5_2010, 0xca45_1a4e, 0x794c_7630,
    ];
    rustix::fs::statfs(path).is_ok_and(|about| KNOWN.contains(&(about.f_type as u32)))
}

fn file_record(
    head: &mut PackHead,
    path: u64,
    kind: FileKind,
    identity: Option<ContentIdentity>,
    devices: &[u64],
) -> FileRecord {
    let words: Vec<u8> = devices.iter().flat_map(|at| at.to_le_bytes()).collect();
    let nothing = ContentIdentity { inode: 0, size: 0, modified: (0, 0), changed: (0, 0) };
    let ContentIdentity { inode, size, modified, changed } = identity.unwrap_or(nothing);
    let devices = [head.put(&words), devices.len() as u64];
    FileRecord { path, kind, inode, size, modified, changed, devices }
}

/// What becomes of each key of the auxiliary vector, and how many are compared.
fn aux_records(vector: &[(u64, (u64, u64))]) -> Result<(Vec<AuxRecord>, u64), String> {
    let of = |(_, (key, value)): &(u64, (u64, u64))| match aux_action(*key) {
        None => Err(format!("the kernel tells its loader what is not known: key {key}")),
        Some(_) if *key == libc::AT_SECURE && *value != 0 => {
            Err("it runs with privileges of its own (AT_SECURE)".into())
        }
        Some(action) => Ok(AuxRecord { key: *key, action, value: *value }),
    };
    let records = vector.iter().map(of).collect::<Result<Vec<_>, String>>()?;
    let compared = records.iter().filter(|record| record.action == 1).count() as u64;
    Ok((records, compared))
}

/// Release, version and machine of uname(2), as the kernel writes them: 65 bytes each.
fn kernel() -> Result<Vec<u8>, String> {
    // SAFETY: plain bytes, for which zero is valid.
    let mut names = unsafe { std::mem::zeroed::<libc::utsname>() };
    // SAFETY: uname fills the structure.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return Err("uname fails".into());
    }
    let fields = [names.release, names.version, names.machine];
    Ok(fields.iter().flatten().map(|byte| byte.cast_unsigned()).collect())
}
