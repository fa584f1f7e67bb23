//! The zip archive at a bundle's end, which makes Python's zipimport read it (PKWARE's
//! APPNOTE.TXT, 4.3: stored members, no extensions).

/// Midnight of 1980-01-01: the first moment that a zip archive knows.
const DATE: u16 = 1 << 5 | 1;

/// An archive of these members. Offsets count from its own start; readers find that start from
/// its end, whatever comes before.
pub(super) fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut local, mut central) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let offset = local.len() as u32;
        let mut common = Vec::new();
        for word in [20, 0, 0, 0, DATE] {
            common.extend(u16::to_le_bytes(word));
        }
        let length = data.len() as u32;
        for word in [crc32fast::hash(data), length, length] {
            common.extend(u32::to_le_bytes(word));
        }
        common.extend(u16::to_le_bytes(name.len() as u16));
        common.extend(u16::to_le_bytes(0));
        local.extend(b"PK\x03\x04");
        local.extend(&common);
        local.extend(name.as_bytes());
        local.extend(*data);
        central.extend(b"PK\x01\x02\x14\x03");
        central.extend(&common);
        central.extend([0; 6]);
        central.extend(u32::to_le_bytes(0o100_444 << 16));
        central.extend(u32::to_le_bytes(offset));
        central.extend(name.as_bytes());
    }
    let count = u16::to_le_bytes(members.len() as u16);
    let (start, length) = (local.len() as u32, central.len() as u32);
    let mut archive = local;
    archive.extend(central);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count, count].concat());
    archive.extend(u32::to_le_bytes(length));
    archive.extend(u32::to_le_bytes(start));
    archive.extend([0, 0]);
    archive
}
