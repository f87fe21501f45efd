//! Pax headers: lines of `length key=value`, where the length counts the whole line.

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use staddle_base::{Error, Result};

/// The fields that say where a member's bytes are and what it is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Replaces the header's name.
    pub path: Option<Vec<u8>>,
    /// Replaces the header's size.
    pub size: Option<u64>,
}

impl Fields {
    /// Adds the fields of one pax header; later ones win.
    ///
    /// # Errors
    /// `Corrupt` for a line that is not one, `Unsupported` for sparse members.
    pub fn read(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (key, value, after) =
                line(rest).ok_or_else(|| Error::corrupt("a pax header has a malformed line"))?;
            match key {
                b"path" if value.is_empty() || value.contains(&0) => {
                    return Err(Error::corrupt("a pax header gives an impossible path"));
                }
                b"path" => self.path = Some(value.to_vec()),
                b"size" => {
                    let size = decimal(value)
                        .ok_or_else(|| Error::corrupt("a pax header gives an impossible size"))?;
                    self.size = Some(size);
                }
                _ if key.starts_with(b"GNU.sparse.") => return Err(super::sparse()),
                _ => {}
            }
            rest = after;
        }
        Ok(())
    }
}

/// Key, value and what follows the first line.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let (digits, _) = bytes.split_at_checked(space)?;
    let len = usize::try_from(decimal(digits)?).ok()?;
    let (line, after) = bytes.split_at_checked(len)?;
    let text = line.get(space.checked_add(1)?..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    let (key, value) = text.split_at_checked(equals)?;
    Some((key, value.strip_prefix(b"=")?, after))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
