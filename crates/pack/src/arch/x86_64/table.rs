//! What the code of a pack reads: all addresses are absolute, all numbers of the machine's order.

/// A list: where it lies, and how many it has.
pub(crate) type TableList = [u64; 2];

/// The head of the table.
#[repr(C)]
#[derive(Default)]
pub(crate) struct StubTable {
    /// `MAGIC`.
    pub magic: u64,
    /// Where the loader goes on.
    pub resume: u64,
    /// The program's first instruction.
    pub entry: u64,
    /// Where the loader lies (AT_BASE).
    pub base: u64,
    /// The thread's pointer.
    pub thread: u64,
    /// Argument of set_tid_address(2); 0 before glibc 2.34, which changes nothing.
    pub tid_address: u64,
    /// Argument of set_robust_list(2); the same.
    pub robust_list: u64,
    /// Arguments of rseq(2); 0 where it was not called.
    pub rseq: u64,
    pub rseq_length: u64,
    pub rseq_signature: u64,
    /// Whether malloc has a random key.
    pub has_random_key: u64,
    /// The soft limit of the stack.
    pub stack_limit: u64,
    /// Whether the program is position-independent, and its layout must not be randomised in form 2.
    pub fixed_layout: u64,
    /// Release, version and machine of a struct utsname.
    pub kernel: u64,
    /// The first page of the vdso.
    pub vdso: u64,
    /// Whether the vdso lies below what the loader had mapped: it keeps that sorted by address.
    pub vdso_below: u64,
    /// What xgetbv says: the state that the kernel saves.
    pub xcr0: u64,
    pub cpuid: TableList,
    pub auxv: TableList,
    /// How many of them must be there, and the same.
    pub auxv_compared: u64,
    /// The program's file: a [`FileRecord`].
    pub program: u64,
    /// Its copy: a [`FileRecord`].
    pub copy: u64,
    pub files: TableList,
    pub maps: TableList,
    pub copies: TableList,
    pub patches: TableList,
    pub protects: TableList,
    /// The program's path.
    pub program_path: u64,
    pub program_headers: u64,
    pub program_header_count: u64,
    /// The name of a process of it (comm of proc(5)).
    pub name: u64,
    /// The path of its loader.
    pub loader_path: u64,
    /// The range of what the loader had mapped.
    pub objects: u64,
    pub objects_length: u64,
}

/// A record that is bytes as it lies.
pub(crate) trait TableRecord {
    fn words(&self) -> Vec<u64>;
}

/// A key of the auxiliary vector: 0 is ignored, 1 compared, 16 + n kept as value n.
pub(crate) struct AuxRecord {
    pub key: u64,
    pub action: u64,
    pub value: u64,
}

/// How a file is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// All that is known of it.
    Same = 0,
    /// All but the time when its inode changed.
    Copy = 1,
    /// It must not be there.
    Absent = 2,
}

/// A file that must be as it was, and where the loader has noted its device.
pub(crate) struct FileRecord {
    pub path: u64,
    pub kind: FileKind,
    pub inode: u64,
    pub size: u64,
    pub modified: (i64, i64),
    pub changed: (i64, i64),
    pub devices: TableList,
}

/// A range of the program to be mapped in form 1: mmap(2).
pub(crate) struct MapRecord {
    pub at: u64,
    pub length: u64,
    pub protection: u64,
    pub flags: u64,
    pub offset: u64,
}

/// Bytes that the loader wrote into the program.
pub(crate) struct CopyRecord {
    pub to: u64,
    pub from: u64,
    pub length: u64,
}

/// What a word is made of in each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PatchKind {
    /// The stack, as the kernel made it: where argc lies.
    Stack = 1,
    Arguments = 2,
    Environment = 3,
    AuxiliaryVector = 4,
    Random = 5,
    Platform = 6,
    ProgramName = 7,
    Vdso = 8,
    /// The second half of what AT_RANDOM points to.
    PointerGuard = 9,
    /// The first half, its first byte 0.
    StackGuard = 10,
    /// An int.
    ArgumentCount = 11,
    /// An int.
    ThreadNumber = 14,
    /// By which malloc knows what it has freed: random.
    RandomKey = 15,
}

/// A word that differs from start to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatchRecord {
    pub at: u64,
    pub kind: PatchKind,
    pub add: u64,
}

/// A protection given last: mprotect(2).
pub(crate) struct ProtectRecord {
    pub at: u64,
    pub length: u64,
    pub protection: u64,
}

impl StubTable {
    /// `becalmpk`.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"becalmpk");
    /// In bytes.
    pub const LENGTH: usize = size_of::<StubTable>();

    /// As it lies.
    pub fn bytes(&self) -> Vec<u8> {
        let words = (&raw const *self).cast::<u64>();
        // SAFETY: the structure is plain words, without padding.
        let words = unsafe { std::slice::from_raw_parts(words, Self::LENGTH / 8) };
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl TableRecord for AuxRecord {
    fn words(&self) -> Vec<u64> {
        vec![self.key, self.action, self.value]
    }
}

impl TableRecord for FileRecord {
    fn words(&self) -> Vec<u64> {
        let times = [self.modified.0, self.modified.1, self.changed.0, self.changed.1];
        let mut words = vec![self.path, self.kind as u64, self.inode, self.size];
        words.extend(times.map(|time| time as u64));
        words.extend(self.devices);
        words
    }
}

impl TableRecord for MapRecord {
    fn words(&self) -> Vec<u64> {
        vec![self.at, self.length, self.protection, self.flags, self.offset]
    }
}

impl TableRecord for CopyRecord {
    fn words(&self) -> Vec<u64> {
        vec![self.to, self.from, self.length]
    }
}

impl TableRecord for PatchRecord {
    fn words(&self) -> Vec<u64> {
        vec![self.at, self.kind as u64, self.add]
    }
}

impl TableRecord for ProtectRecord {
    fn words(&self) -> Vec<u64> {
        vec![self.at, self.length, self.protection]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_long_as_the_code_takes_them() {
        let record = FileRecord {
            path: 1,
            kind: FileKind::Absent,
            inode: 2,
            size: 3,
            modified: (4, 5),
            changed: (6, 7),
            devices: [8, 9],
        };
        assert_eq!(record.words(), [1, 2, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(StubTable::default().bytes().len(), StubTable::LENGTH);
        assert_eq!(StubTable::LENGTH % 8, 0);
    }
}
