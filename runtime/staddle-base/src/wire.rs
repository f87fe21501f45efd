//! Little-endian integers in and out of bytes that may be hostile.
//!
//! [`Reader`] never panics and never trusts a length; [`bounded_vec`](Reader::bounded_capacity) is the only way a
//! number from a file becomes a capacity.

use crate::error::{Error, Result};

/// Reads fixed-width little-endian fields from a slice, remembering where it is for the error message.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

macro_rules! read_int {
    ($($name:ident: $ty:ty),*) => {
        $(
            /// The next little-endian integer.
            pub fn $name(&mut self) -> Result<$ty> {
                let (head, _) = self.rest().split_first_chunk().ok_or_else(|| self.short(size_of::<$ty>()))?;
                let value = <$ty>::from_le_bytes(*head);
                self.at = self.at.saturating_add(size_of::<$ty>());
                Ok(value)
            }
        )*
    };
}

impl<'a> Reader<'a> {
    /// Reads from `bytes`, which hold a `what` (used in errors).
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, what }
    }

    read_int!(u8: u8, u16: u16, u32: u32, u64: u64, i32: i32, i64: i64);

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let slice = self.rest().get(..len).ok_or_else(|| self.short(len))?;
        self.at = self.at.saturating_add(len);
        Ok(slice)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, _) = self
            .rest()
            .split_first_chunk::<N>()
            .ok_or_else(|| self.short(N))?;
        let value = *head;
        self.at = self.at.saturating_add(N);
        Ok(value)
    }

    /// Skips `len` bytes.
    pub fn skip(&mut self, len: usize) -> Result<()> {
        self.bytes(len).map(|_| ())
    }

    /// Skips `len` bytes that must be zero.
    pub fn zeros(&mut self, len: usize) -> Result<()> {
        let at = self.at;
        if self.bytes(len)?.iter().any(|b| *b != 0) {
            return Err(
                Error::corrupt(format!("{}: reserved bytes are not zero", self.what))
                    .with("offset", at),
            );
        }
        Ok(())
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// A capacity for `count` items of at least `item_bytes` each, if that many can follow and `limit` allows it.
    pub fn bounded_capacity(&self, count: u64, item_bytes: usize, limit: usize) -> Result<usize> {
        let fits = self
            .rest()
            .len()
            .checked_div(item_bytes.max(1))
            .unwrap_or(0);
        match usize::try_from(count) {
            Ok(n) if n <= fits && n <= limit => Ok(n),
            _ => Err(Error::corrupt(format!(
                "{}: says that {count} items follow, but only {} can",
                self.what,
                fits.min(limit)
            ))
            .with("offset", self.at)),
        }
    }

    #[cold]
    fn short(&self, need: usize) -> Error {
        Error::corrupt(format!(
            "{}: {need} bytes expected, {} left",
            self.what,
            self.rest().len()
        ))
        .with("offset", self.at)
    }
}

/// Appends little-endian fields to a vector.
pub trait Put {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends two bytes.
    fn put_u16(&mut self, value: u16);
    /// Appends four bytes.
    fn put_u32(&mut self, value: u32);
    /// Appends eight bytes.
    fn put_u64(&mut self, value: u64);
    /// Appends `len` zero bytes.
    fn put_zeros(&mut self, len: usize);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_zeros(&mut self, len: usize) {
        self.resize(self.len() + len, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_put_and_stops_at_the_end() {
        let mut bytes = Vec::new();
        bytes.put_u8(7);
        bytes.put_u32(0x0403_0201);
        bytes.put_u64(u64::MAX);
        let mut reader = Reader::new("test", &bytes);
        assert_eq!(reader.u8().unwrap(), 7);
        assert_eq!(reader.u32().unwrap(), 0x0403_0201);
        assert_eq!(reader.u64().unwrap(), u64::MAX);
        assert_eq!(reader.u8().unwrap_err().kind(), crate::ErrorKind::Corrupt);
    }

    #[test]
    fn a_count_beyond_the_bytes_left_is_refused() {
        let reader = Reader::new("test", &[0; 16]);
        assert_eq!(reader.bounded_capacity(2, 8, 100).unwrap(), 2);
        assert!(reader.bounded_capacity(3, 8, 100).is_err());
        assert!(reader.bounded_capacity(u64::MAX, 0, 100).is_err());
        assert!(reader.bounded_capacity(2, 8, 1).is_err());
    }
}
