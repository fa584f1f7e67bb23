//! What a command wrote, in bounded memory.

use sha2::{Digest, Sha256};

/// How much of the beginning is kept.
const HEAD: usize = 64 << 10;

/// What came out of one stream: enough to say whether two are equal, and, if they differ near
/// the beginning, where.
#[derive(Clone, Debug)]
pub struct Captured {
    /// How many bytes there were.
    pub bytes: u64,
    /// The first 64 KiB of them.
    pub head: Vec<u8>,
    digest: Sha256,
}

impl Default for Captured {
    fn default() -> Captured {
        Captured { bytes: 0, head: Vec::new(), digest: Sha256::new() }
    }
}

impl Captured {
    /// Takes in what was read.
    pub(crate) fn take_in(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.digest.update(bytes);
        let room = HEAD.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend(&bytes[..room]);
    }

    /// The SHA-256 of all of it, in hexadecimal, as sha256sum(1) prints it.
    pub fn sha256(&self) -> String {
        let digest = self.digest.clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_output_is_digested_whole_and_kept_in_part() {
        let mut captured = Captured::default();
        for _ in 0..1000 {
            captured.take_in(b"abc");
        }
        captured.take_in(&[b'x'; 100_000]);
        assert_eq!((captured.bytes, captured.head.len()), (103_000, HEAD));
        // printf abc | sha256sum
        let mut abc = Captured::default();
        abc.take_in(b"a");
        abc.take_in(b"bc");
        assert_eq!(
            abc.sha256(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
