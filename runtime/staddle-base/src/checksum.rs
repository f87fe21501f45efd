//! CRC32C for what is read often, XXH3 for what is read whole.

/// CRC32C (Castagnoli, iSCSI polynomial) of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// CRC32C of `bytes` appended to what `crc` already covers.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, bytes)
}

/// Masks a CRC32C as TFRecord does: rotated right by 15 and offset, so that a CRC of a CRC is not degenerate.
pub fn crc32c_mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// TFRecord's masked CRC32C of `bytes`.
pub fn crc32c_masked(bytes: &[u8]) -> u32 {
    crc32c_mask(crc32c(bytes))
}

/// XXH3-64 of `bytes`, seed 0.
pub fn xxh3(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// XXH3-64 of a stream.
#[derive(Default)]
pub struct Xxh3(xxhash_rust::xxh3::Xxh3);

impl Xxh3 {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of everything added so far.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xe306_9283);
        assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
        let mut stream = Xxh3::default();
        stream.update(b"ab");
        stream.update(b"c");
        assert_eq!(stream.finish(), xxh3(b"abc"));
    }

    #[test]
    fn masking_is_reversible_and_not_identity() {
        let masked = crc32c_masked(b"abc");
        assert_eq!(
            masked.wrapping_sub(0xa282_ead8).rotate_left(15),
            crc32c(b"abc")
        );
        assert_ne!(masked, crc32c(b"abc"));
    }
}
