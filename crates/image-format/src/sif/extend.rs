//! A SIF with something added: a new file of the old one's parts and more.

use std::fs::File;

use super::format::{Filesystem, Role, SifObjectKind};
use super::reader::Sif;
use super::writer::SifPart;

/// Why nothing can be added to a SIF.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotExtendable {
    /// Its signature would not be over what it holds.
    #[error("is signed: a signature does not cover what is added")]
    Signed,
    /// A layer over an encrypted root would not be encrypted.
    #[error("is encrypted: what is added would not be")]
    Encrypted,
    /// There is nothing to lay an overlay over.
    #[error("has no primary system, which an overlay could be laid over")]
    NoRoot,
    /// Those of another group, which a runtime passes over, would all at once be used.
    #[error("has objects of more than one group")]
    Groups,
    /// A container writes to one layer.
    #[error("has an overlay that can be written to already: object {0}")]
    Writable(u32),
}

impl Sif {
    /// The parts of this SIF, which is in `file`, and more: for [`write`](super::write). What
    /// apptainer refuses to add to is refused (internal/app/apptainer/overlay_create.go).
    ///
    /// # Errors
    /// Where the result would not do what the SIF does now.
    pub fn with<'a>(
        &'a self,
        file: &'a File,
        more: Vec<SifPart<'a>>,
    ) -> Result<Vec<SifPart<'a>>, NotExtendable> {
        let root = self.primary().ok_or(NotExtendable::NoRoot)?;
        if self.is_signed() {
            return Err(NotExtendable::Signed);
        }
        if self.is_encrypted() {
            return Err(NotExtendable::Encrypted);
        }
        if self.objects.iter().any(|object| object.group != root.group) {
            return Err(NotExtendable::Groups);
        }
        let is_ext3 = |part: &SifPart<'_>| {
            part.partition()
                .is_some_and(|it| it.role == Role::Overlay && it.filesystem == Filesystem::Ext3)
        };
        let there = self.objects.iter().map(|object| (object.id, SifPart::of_object(object, file)));
        let there: Vec<_> = there.collect();
        let writable = there.iter().find(|(_, part)| is_ext3(part)).map(|(id, _)| *id);
        match writable {
            Some(id) if more.iter().any(is_ext3) => Err(NotExtendable::Writable(id)),
            _ => Ok(there.into_iter().map(|(_, part)| part).chain(more).collect()),
        }
    }

    /// Whether a partition of it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.objects.iter().any(|object| {
            object.kind == SifObjectKind::CryptoMessage
                || object.partition.is_some_and(|partition| {
                    let encrypted = [Filesystem::EncryptedSquashfs, Filesystem::GocryptfsSquashfs];
                    encrypted.contains(&partition.filesystem)
                })
        })
    }
}
