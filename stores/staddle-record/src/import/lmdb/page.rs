//! LMDB's pages: headers, nodes and meta pages of data formats 1 (LMDB 0.9) and 3 (LMDB 1.0).
//!
//! | Page, format 1 | format 3 | Type | Field |
//! |---|---|---|---|
//! | 0 | 0 | u64 | page number |
//! | | 8 | u64 | transaction |
//! | 8 | 16 | u16 | key size, where all keys have one |
//! | 10 | 18 | u16 | flags: 1 branch, 2 leaf, 4 overflow, 8 meta, 0x20 keys without nodes, 0x40 page within a node |
//! | 12 | 20 | u16 | end of the node pointers, from the header's end in format 3 |
//! | 14 | 22 | u16 | begin of the nodes |
//! | 16 | 24 | u16 ... | node pointers |
//!
//! | Node | Type | Field |
//! |---|---|---|
//! | 0 | u32 | length of the data; in branches the low half of the child's page number |
//! | 4 | u16 | flags: 1 data on overflow pages, 2 a tree, 4 several values; in branches the high half |
//! | 6 | u16 | length of the key, which follows; format 3 pads it to an even length |
//!
//! | Meta, after the header | Type | Field |
//! |---|---|---|
//! | 0, 4 | u32, u32 | magic, data format |
//! | 8, 16 | u64, u64 | map address, map size |
//! | 24, 72 | 48 B each | tree of free pages (its first field is the page size), main tree |
//! | 120, 128 | u64, u64 | last page, transaction |
//!
//! | Tree | Type | Field |
//! |---|---|---|
//! | 0, 4, 6 | u32, u16, u16 | key size, flags, depth |
//! | 8, 16, 24 | u64 each | branch, leaf, overflow pages |
//! | 32, 40 | u64, u64 | entries, root page; all ones for an empty tree |

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use staddle_base::wire::Reader;
use staddle_base::{Error, Result};

/// First field of a meta page.
const MAGIC: u32 = 0xbeef_c0de;
/// Bytes of a meta page that are read.
pub(super) const META_BYTES: usize = 24 + 136;
/// The root of a tree without entries.
const NO_PAGE: u64 = u64::MAX;

/// Page flags.
pub(super) const BRANCH: u16 = 0x01;
pub(super) const LEAF: u16 = 0x02;
pub(super) const OVERFLOW: u16 = 0x04;
pub(super) const FIXED_KEYS: u16 = 0x20;

/// Node flags.
pub(super) const BIG_DATA: u16 = 0x01;
pub(super) const SUB_TREE: u16 = 0x02;
pub(super) const SEVERAL: u16 = 0x04;

/// What differs between the data formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// Bytes of a page header.
    pub header: usize,
    /// What node pointers count from.
    base: usize,
    /// Whether keys are padded to even lengths.
    even: bool,
}

/// LMDB 0.9.
const FORMAT_1: Format = Format {
    header: 16,
    base: 0,
    even: false,
};
/// LMDB 1.0.
const FORMAT_3: Format = Format {
    header: 24,
    base: 24,
    even: true,
};

/// A tree: the main one, a named one, or the values of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeInfo {
    /// Size of every key, in pages without nodes.
    pub key_bytes: u32,
    /// Items in it.
    pub entries: u64,
    /// Its root page, if it has entries.
    pub root: Option<u64>,
}

impl TreeInfo {
    /// From 48 bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("LMDB tree", bytes);
        let key_bytes = r.u32()?;
        r.skip(28)?;
        let entries = r.u64()?;
        let root = r.u64()?;
        Ok(Self {
            key_bytes,
            entries,
            root: (root != NO_PAGE).then_some(root),
        })
    }
}

/// What a meta page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub format: Format,
    pub page_bytes: u64,
    pub last_page: u64,
    pub transaction: u64,
    pub main: TreeInfo,
}

impl Meta {
    /// From the first [`META_BYTES`] of a page.
    ///
    /// # Errors
    /// `Corrupt` when this is no meta page, `Unsupported` for another data format.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let at = |header: usize| {
            let mut r = Reader::new("LMDB meta page", bytes);
            r.skip(header)?;
            Ok::<_, Error>((r.u32()? == MAGIC, r))
        };
        let (format, mut r) = match at(FORMAT_1.header)? {
            (true, r) => (FORMAT_1, r),
            (false, _) => match at(FORMAT_3.header)? {
                (true, r) => (FORMAT_3, r),
                (false, _) => return Err(Error::corrupt("this is no LMDB data file")),
            },
        };
        let version = r.u32()?;
        let known = if format == FORMAT_1 { 1 } else { 3 };
        if version != known {
            return Err(Error::unsupported(format!(
                "the LMDB file has data format {version}; formats 1 and 3 are known"
            )));
        }
        r.skip(16)?;
        let page_bytes = u64::from(Reader::new("LMDB meta page", r.rest()).u32()?);
        r.skip(48)?;
        let main = TreeInfo::decode(r.bytes(48)?)?;
        let last_page = r.u64()?;
        let transaction = r.u64()?;
        if !page_bytes.is_power_of_two() || !(256..=65_536).contains(&page_bytes) {
            return Err(Error::corrupt(format!(
                "an LMDB page of {page_bytes} bytes is impossible"
            )));
        }
        Ok(Self {
            format,
            page_bytes,
            last_page,
            transaction,
            main,
        })
    }
}

/// Number and flags of a page, by its header.
///
/// # Errors
/// `Corrupt` when the header is cut short.
pub(super) fn head(bytes: &[u8], format: Format) -> Result<(u64, u16)> {
    let mut r = Reader::new("LMDB page", bytes);
    let number = r.u64()?;
    r.skip(format.header.saturating_sub(14))?;
    Ok((number, r.u16()?))
}

/// A page, or a page within a node.
#[derive(Clone, Debug)]
pub(super) struct Page {
    bytes: Vec<u8>,
    format: Format,
    pub number: u64,
    pub flags: u16,
    key_bytes: u16,
    count: usize,
}

/// A key and what belongs to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub flags: u16,
    pub key: &'a [u8],
    length: u32,
    /// Everything after the key, to the end of the page.
    rest: &'a [u8],
}

impl Page {
    /// From its bytes.
    ///
    /// # Errors
    /// `Corrupt` when the header contradicts itself.
    pub(super) fn decode(bytes: Vec<u8>, format: Format) -> Result<Self> {
        let mut r = Reader::new("LMDB page", &bytes);
        let number = r.u64()?;
        r.skip(format.header.saturating_sub(16))?;
        let key_bytes = r.u16()?;
        let flags = r.u16()?;
        let pointers_end = usize::from(r.u16()?).saturating_add(format.base);
        let count = pointers_end
            .checked_sub(format.header)
            .filter(|_| pointers_end <= bytes.len() || flags & FIXED_KEYS != 0)
            .ok_or_else(|| Error::corrupt("the pointers of an LMDB page end outside it"))?;
        Ok(Self {
            number,
            flags,
            key_bytes,
            count: count.checked_div(2).unwrap_or(0),
            format,
            bytes,
        })
    }

    /// How many keys it has.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// A key of a page without nodes; all have `key_bytes`, or what the page itself says.
    pub(super) fn fixed_key(&self, position: usize, key_bytes: u32) -> Result<&[u8]> {
        let key_bytes = match key_bytes {
            0 => usize::from(self.key_bytes),
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        position
            .checked_mul(key_bytes)
            .and_then(|at| at.checked_add(self.format.header))
            .and_then(|at| self.bytes.get(at..)?.get(..key_bytes))
            .ok_or_else(outside)
    }

    /// A node.
    pub(super) fn node(&self, position: usize) -> Result<Node<'_>> {
        let pointer_at = position
            .checked_mul(2)
            .and_then(|at| at.checked_add(self.format.header))
            .filter(|_| position < self.count)
            .ok_or_else(outside)?;
        let pointers = self.bytes.get(pointer_at..).ok_or_else(outside)?;
        let pointer = Reader::new("LMDB page", pointers).u16()?;
        let at = usize::from(pointer).saturating_add(self.format.base);
        let mut r = Reader::new("LMDB node", self.bytes.get(at..).ok_or_else(outside)?);
        let length = r.u32()?;
        let flags = r.u16()?;
        let key_bytes = usize::from(r.u16()?);
        let key = r.bytes(key_bytes)?;
        if self.format.even && self.flags & LEAF != 0 {
            r.skip(key_bytes % 2)?;
        }
        Ok(Node {
            flags,
            key,
            length,
            rest: r.rest(),
        })
    }
}

impl<'a> Node<'a> {
    /// The page that a branch's node leads to.
    pub(super) fn child(&self) -> u64 {
        u64::from(self.length) | (u64::from(self.flags) << 32)
    }

    /// Length of the value, wherever it is.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// The value, where it is in the page.
    pub(super) fn data(&self) -> Result<&'a [u8]> {
        usize::try_from(self.length)
            .ok()
            .and_then(|length| self.rest.get(..length))
            .ok_or_else(outside)
    }

    /// The page that the value begins on, where it is not in this page.
    pub(super) fn overflow(&self) -> Result<u64> {
        Reader::new("LMDB node", self.rest).u64()
    }
}

#[cold]
fn outside() -> Error {
    Error::corrupt("a node of an LMDB page lies outside it")
}
