//! Protocol Buffers' wire format, as far as it takes to write a message of known fields.
//!
//! <https://protobuf.dev/programming-guides/encoding/>: a field is its number and type, then a
//! varint, or a length and so many bytes.

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct ProtoMessage {
    bytes: Vec<u8>,
}

/// Types of fields on the wire.
const VARINT: u32 = 0;
const BYTES: u32 = 2;

impl ProtoMessage {
    /// An unsigned number, an enumeration's value or a boolean; a signed one as its two's complement.
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut ProtoMessage {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(value);
        self
    }

    /// Text, or bytes.
    pub(super) fn text(&mut self, field: u32, value: impl AsRef<[u8]>) -> &mut ProtoMessage {
        let value = value.as_ref();
        self.varint(u64::from(field << 3 | BYTES));
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// A message in it.
    pub(super) fn message(
        &mut self,
        field: u32,
        fill: impl FnOnce(&mut ProtoMessage),
    ) -> &mut ProtoMessage {
        let mut inner = ProtoMessage::default();
        fill(&mut inner);
        self.text(field, &inner.bytes)
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the encoding's own description.
    #[test]
    fn fields_are_written_as_the_format_says() {
        let mut message = ProtoMessage::default();
        message.number(1, 150).text(2, "testing");
        assert_eq!(message.bytes(), b"\x08\x96\x01\x12\x07testing");
        let mut outer = ProtoMessage::default();
        outer.message(3, |inner| {
            inner.number(1, 150);
        });
        assert_eq!(outer.bytes(), b"\x1a\x03\x08\x96\x01");
        let mut negative = ProtoMessage::default();
        negative.number(1, -2i64 as u64);
        assert_eq!(negative.bytes(), b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    }
}
