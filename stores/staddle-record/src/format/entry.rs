//! One row of the offset table: where a record's payload lies.
//!
//! | Word | Bits | Field |
//! |---|---|---|
//! | 0 | 0-47 | payload offset in the chunk |
//! | 0 | 48-55 | flags: bit 0 present; 1-3 codec; 4 external; 5 payload not 8-aligned; 6-7 zero |
//! | 0 | 56-63 | dictionary slot, 0 for none |
//! | 1 | 0-31 | physical length |
//! | 1 | 32-63 | chunk id |
//!
//! Both words are little-endian. All zero means *missing*; a record of zero bytes has its present bit set.

use staddle_base::{Error, Result};

use crate::codec::Codec;

/// Where a record lies. Sixteen bytes, as on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    word0: u64,
    word1: u64,
}

const _: () = assert!(size_of::<Entry>() == Entry::BYTES);

const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const PRESENT: u64 = 1 << 48;
const CODEC_SHIFT: u32 = 49;
const CODEC_MASK: u64 = 0b111;
const EXTERNAL: u64 = 1 << 52;
const UNALIGNED: u64 = 1 << 53;
const UNKNOWN: u64 = 0b11 << 54;
const DICTIONARY_SHIFT: u32 = 56;

impl Entry {
    /// Bytes on disk.
    pub const BYTES: usize = 16;
    /// No record.
    pub const MISSING: Self = Self { word0: 0, word1: 0 };
    /// The largest offset that fits.
    pub const OFFSET_MAX: u64 = OFFSET_MASK;

    /// A payload in one of the set's own chunks. `offset` must not exceed [`Entry::OFFSET_MAX`].
    pub fn new(
        chunk: u32,
        offset: u64,
        physical_length: u32,
        codec: Codec,
        dictionary: u8,
    ) -> Self {
        debug_assert!(offset <= OFFSET_MASK);
        let unaligned = if offset.trailing_zeros() >= 3 {
            0
        } else {
            UNALIGNED
        };
        Self {
            word0: (offset & OFFSET_MASK)
                | PRESENT
                | (u64::from(codec.id()) << CODEC_SHIFT)
                | unaligned
                | (u64::from(dictionary) << DICTIONARY_SHIFT),
            word1: u64::from(physical_length) | (u64::from(chunk) << 32),
        }
    }

    /// Bytes of a foreign file: no frame stands before them.
    pub fn external(chunk: u32, offset: u64, physical_length: u32) -> Self {
        let mut entry = Self::new(chunk, offset, physical_length, Codec::None, 0);
        entry.word0 |= EXTERNAL;
        entry
    }

    /// The same payload, in a chunk of another number.
    #[must_use]
    pub fn in_chunk(self, chunk: u32) -> Self {
        Self {
            word0: self.word0,
            word1: (self.word1 & u64::from(u32::MAX)) | (u64::from(chunk) << 32),
        }
    }

    /// Whether there is a record, perhaps an empty one.
    #[inline]
    pub fn is_present(self) -> bool {
        self.word0 & PRESENT != 0
    }

    /// Whether the bytes lie in a foreign file.
    #[inline]
    pub fn is_external(self) -> bool {
        self.word0 & EXTERNAL != 0
    }

    /// Whether the payload can be handed out as it lies: present, and not compressed.
    #[inline]
    pub fn is_raw(self) -> bool {
        self.word0 & (CODEC_MASK << CODEC_SHIFT) == 0
    }

    /// Offset of the payload in its chunk.
    #[inline]
    pub fn offset(self) -> u64 {
        self.word0 & OFFSET_MASK
    }

    /// Bytes of the payload as stored.
    #[inline]
    pub fn physical_length(self) -> u32 {
        (self.word1 & u64::from(u32::MAX)) as u32
    }

    /// The chunk that holds it.
    #[inline]
    pub fn chunk(self) -> u32 {
        (self.word1 >> 32) as u32
    }

    /// The dictionary slot, 0 for none.
    #[inline]
    pub fn dictionary(self) -> u8 {
        (self.word0 >> DICTIONARY_SHIFT) as u8
    }

    /// How the payload is compressed.
    ///
    /// # Errors
    /// `Unsupported` for a codec or flag that this version does not know.
    #[inline]
    pub fn codec(self) -> Result<Codec> {
        if self.word0 & UNKNOWN != 0 {
            return Err(Error::unsupported(
                "an offset entry carries flags of a newer version",
            ));
        }
        Codec::from_id(((self.word0 >> CODEC_SHIFT) & CODEC_MASK) as u8)
    }

    /// As on disk.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        (u128::from(self.word0) | (u128::from(self.word1) << 64)).to_le_bytes()
    }

    /// From disk; any sixteen bytes are an entry, [`Entry::codec`] and the bounds check of the chunk refuse bad ones.
    #[inline]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self {
            word0: both as u64,
            word1: (both >> 64) as u64,
        }
    }
}
