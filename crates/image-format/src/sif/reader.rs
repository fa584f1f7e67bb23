//! Reads a SIF: its header and its table. No number is believed before it fits the file.

use std::collections::BTreeSet;
use std::io;

use super::format::{
    Arch, DESCRIPTOR, Descriptor, EXTRA, GROUP, HEADER, MAGIC, Partition, Role, SifHeader,
    SifObjectKind, VERSION,
};
use crate::source::{ReadAt, ReadWindow};

/// More descriptors than any image has: siftool makes 48.
const MOST_DESCRIPTORS: i64 = 4096;

/// Why a file cannot be read as a SIF.
#[derive(Debug, thiserror::Error)]
pub enum SifReadError {
    /// It does not begin as one.
    #[error("is no SIF: its header has no SIF_MAGIC")]
    NotSif,
    /// It is one, of a version that is not known here.
    #[error("is a SIF of version '{0}'; only 01 is known")]
    Version(String),
    /// It says something of itself that cannot be.
    #[error("is a broken SIF: {0}")]
    Broken(String),
    /// Reading failed.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// What an object is linked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The object with this number.
    Object(u32),
    /// All objects of the group with this number.
    Group(u32),
}

/// A data object: one used row of the table.
#[derive(Clone, Debug)]
pub struct SifObject {
    /// Its number, from 1, unique in the file.
    pub id: u32,
    /// What it is.
    pub kind: SifObjectKind,
    /// The group it belongs to. Overlays belong to the root of the same group.
    pub group: Option<u32>,
    /// What it says something of: what a signature signs, for example.
    pub link: Option<Link>,
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// How many bytes it has. They all lie in the file.
    pub size: u64,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// When it was last changed, in seconds since 1970.
    pub modified: i64,
    /// Its name; may be empty. It is the file's: not safe on a terminal.
    pub name: String,
    /// What its row says besides, if it is a partition.
    pub partition: Option<Partition>,
    /// The fingerprint of the key, if it is a signature: 40 hexadecimal digits.
    pub fingerprint: Option<String>,
    /// All that its row says besides, as it is there.
    pub(super) extra: Box<[u8; EXTRA]>,
}

impl SifObject {
    /// Its bytes in the file it was read from. None where that file has become shorter since.
    ///
    /// # Errors
    /// Those of asking for the file's size.
    pub fn window<'a, S: ReadAt + ?Sized>(
        &self,
        source: &'a S,
    ) -> io::Result<Option<ReadWindow<'a, S>>> {
        ReadWindow::of(source, self.offset, self.size)
    }

    /// The first `most` of its bytes.
    ///
    /// # Errors
    /// Those of reading.
    pub fn start<S: ReadAt + ?Sized>(&self, source: &S, most: usize) -> io::Result<Vec<u8>> {
        let size = usize::try_from(self.size).unwrap_or(usize::MAX).min(most);
        let mut bytes = vec![0; size];
        source.read_exact_at(&mut bytes, self.offset)?;
        Ok(bytes)
    }
}

/// What a SIF holds, without its data.
#[derive(Clone, Debug)]
pub struct Sif {
    /// The line that the kernel starts the file by.
    pub launch: String,
    /// The architecture of the primary system; unknown without one.
    pub arch: Arch,
    /// The image's own number.
    pub uuid: [u8; 16],
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// When it was last changed, in seconds since 1970.
    pub modified: i64,
    /// How many objects fit the table.
    pub capacity: usize,
    /// The objects, in the order of the table.
    pub objects: Vec<SifObject>,
}

impl Sif {
    /// Whether a file begins as a SIF does. A shorter one does not.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_in<S: ReadAt + ?Sized>(source: &S) -> io::Result<bool> {
        Ok(header(source)?.is_some_and(|header| header.magic == *MAGIC))
    }

    /// Reads header and table. The data is not touched.
    ///
    /// # Errors
    /// Where it is no SIF, says of itself what cannot be, or cannot be read.
    pub fn read<S: ReadAt + ?Sized>(source: &S) -> Result<Sif, SifReadError> {
        let header = header(source)?.filter(|header| header.magic == *MAGIC);
        let header = header.ok_or(SifReadError::NotSif)?;
        if header.version != *VERSION {
            return Err(SifReadError::Version(text(&header.version)));
        }
        let table = DescriptorTable::of(&header, source.size()?)?;
        let mut objects = Vec::new();
        let mut row = [0; DESCRIPTOR];
        for number in 0..table.rows {
            source.read_exact_at(&mut row, table.offset + number * DESCRIPTOR as u64)?;
            let descriptor = Descriptor::parse(&row);
            if descriptor.used != 0 {
                objects.push(table.object(&descriptor)?);
            }
        }
        check_as_a_whole(&objects)?;
        Ok(Sif {
            launch: text(&header.launch),
            arch: Arch::of(header.arch),
            uuid: header.uuid,
            created: header.created,
            modified: header.modified,
            capacity: table.rows as usize,
            objects,
        })
    }

    /// The partition that a container's root is in.
    pub fn primary(&self) -> Option<&SifObject> {
        self.objects.iter().find(|object| has_role(object, Role::PrimarySystem))
    }

    /// The partitions that are laid over the root, lowest first: those of its group, as apptainer
    /// chooses them (pkg/image/sif.go).
    pub fn overlays(&self) -> impl Iterator<Item = &SifObject> {
        let group = self.primary().and_then(|primary| primary.group);
        self.objects
            .iter()
            .filter(|object| has_role(object, Role::Overlay))
            .filter(move |object| group.is_none() || object.group == group)
    }

    /// Whether there is a signature in it. It is not verified.
    pub fn is_signed(&self) -> bool {
        self.objects.iter().any(|object| object.kind == SifObjectKind::Signature)
    }

    /// The image's number as it is written: `8-4-4-4-12` hexadecimal digits.
    pub fn uuid_text(&self) -> String {
        uuid_text(&self.uuid)
    }
}

/// A UUID as it is written: `8-4-4-4-12` hexadecimal digits.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex = hex(uuid);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The header's fields, whatever they say; None in a source that is too short for one.
fn header<S: ReadAt + ?Sized>(source: &S) -> io::Result<Option<SifHeader>> {
    let mut bytes = [0; HEADER];
    match source.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(Some(SifHeader::parse(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where the rows are, in a file of a known size.
struct DescriptorTable {
    offset: u64,
    rows: u64,
    file: u64,
}

impl DescriptorTable {
    fn of(header: &SifHeader, file: u64) -> Result<DescriptorTable, SifReadError> {
        let total = header.descriptors_total;
        if !(0..=MOST_DESCRIPTORS).contains(&total) {
            return Err(SifReadError::Broken(format!("a table of {total} descriptors")));
        }
        let size = total * DESCRIPTOR as i64;
        let offset = header.descriptors_offset;
        let inside = |end: i64| u64::try_from(end).is_ok_and(|end| end <= file);
        if header.descriptors_size < size
            || offset < HEADER as i64
            || !offset.checked_add(size).is_some_and(inside)
        {
            let problem = format!("its table, {size} bytes at {offset}, is not in the file");
            return Err(SifReadError::Broken(problem));
        }
        Ok(DescriptorTable { offset: offset as u64, rows: total as u64, file })
    }

    fn object(&self, row: &Descriptor) -> Result<SifObject, SifReadError> {
        let (offset, size) = (u64::try_from(row.offset), u64::try_from(row.size));
        let place = offset.ok().zip(size.ok()).filter(|(offset, size)| self.has(*offset, *size));
        let Some((offset, size)) = place else {
            return Err(SifReadError::Broken(format!(
                "object {}: {} bytes at {} are not in the file's data",
                row.id, row.size, row.offset
            )));
        };
        let kind = SifObjectKind::of(row.kind);
        Ok(SifObject {
            id: row.id,
            kind,
            group: Some(row.group & !GROUP).filter(|group| *group != 0),
            link: match row.link & !GROUP {
                0 => None,
                id if row.link & GROUP == GROUP => Some(Link::Group(id)),
                _ => Some(Link::Object(row.link)),
            },
            offset,
            size,
            created: row.created,
            modified: row.modified,
            name: text(&row.name),
            partition: (kind == SifObjectKind::Partition).then(|| Partition::parse(&row.extra)),
            // The hash's number comes first.
            fingerprint: (kind == SifObjectKind::Signature).then(|| hex(&row.extra[4..24])),
            extra: Box::new(row.extra),
        })
    }

    /// Whether these bytes are in the file, and neither in its header nor in the table.
    fn has(&self, offset: u64, size: u64) -> bool {
        let end = offset.checked_add(size).filter(|end| *end <= self.file);
        let table_end = self.offset + self.rows * DESCRIPTOR as u64;
        end.is_some_and(|end| {
            offset >= table_end || (offset >= HEADER as u64 && end <= self.offset)
        })
    }
}

fn check_as_a_whole(objects: &[SifObject]) -> Result<(), SifReadError> {
    let mut ids = BTreeSet::new();
    if let Some(twice) = objects.iter().find(|object| !ids.insert(object.id)) {
        return Err(SifReadError::Broken(format!("two objects have the number {}", twice.id)));
    }
    let primaries = objects.iter().filter(|object| has_role(object, Role::PrimarySystem));
    if primaries.count() > 1 {
        return Err(SifReadError::Broken("it has more than one primary system".to_owned()));
    }
    Ok(())
}

fn has_role(object: &SifObject, role: Role) -> bool {
    object.partition.is_some_and(|partition| partition.role == role)
}

/// A field of text: what is before the first NUL.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
