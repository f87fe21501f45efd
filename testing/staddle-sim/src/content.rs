//! The bytes of one file: sectors shared between disks until one of them writes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit in which a power cut tears a write.
pub const SECTOR_BYTES: usize = 512;

const SECTOR: u64 = SECTOR_BYTES as u64;

/// One sector; `None` in a [`Version`](crate::inode::Version) or absent from a [`Content`] is a hole that reads as zero.
pub(crate) type Sector = [u8; SECTOR_BYTES];

pub(crate) const ZEROS: Sector = [0; SECTOR_BYTES];

/// A file's length and its sectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    len: u64,
    sectors: BTreeMap<u64, Arc<Sector>>,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The sector `number`, or `None` for a hole.
    pub(crate) fn sector(&self, number: u64) -> Option<&Arc<Sector>> {
        self.sectors.get(&number)
    }

    /// All sectors that are not holes.
    pub(crate) fn sectors(&self) -> impl Iterator<Item = (u64, &Arc<Sector>)> {
        self.sectors
            .iter()
            .map(|(number, sector)| (*number, sector))
    }

    /// Puts a sector, or a hole, without changing the length.
    pub(crate) fn put(&mut self, number: u64, sector: Option<Arc<Sector>>) {
        match sector {
            Some(sector) => self.sectors.insert(number, sector),
            None => self.sectors.remove(&number),
        };
    }

    /// Reads from `offset`; returns how many bytes there were.
    pub(crate) fn read(&self, into: &mut [u8], offset: u64) -> usize {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = into.len().min(left);
        let mut at = offset;
        for piece in pieces(&mut into[..wanted], offset) {
            let within = (at % SECTOR) as usize;
            match self.sectors.get(&(at / SECTOR)) {
                Some(sector) => piece.copy_from_slice(&sector[within..within + piece.len()]),
                None => piece.fill(0),
            }
            at += piece.len() as u64;
        }
        wanted
    }

    /// Writes `bytes` at `offset`, growing the file; calls `changed` with each sector touched.
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        offset: u64,
        mut changed: impl FnMut(u64, &Arc<Sector>),
    ) {
        if bytes.is_empty() {
            return;
        }
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let (number, within) = (at / SECTOR, (at % SECTOR) as usize);
            let (now, later) = rest.split_at(rest.len().min(SECTOR_BYTES - within));
            let mut sector = self.sectors.get(&number).map_or(ZEROS, |old| **old);
            sector[within..within + now.len()].copy_from_slice(now);
            let sector = Arc::new(sector);
            changed(number, &sector);
            self.sectors.insert(number, sector);
            at += now.len() as u64;
            rest = later;
        }
        self.len = self.len.max(at);
    }

    /// Cuts or extends to `len`; bytes past it are gone, and zero if the file grows again. Calls `changed` with each
    /// sector that lost bytes.
    pub(crate) fn set_len(&mut self, len: u64, mut changed: impl FnMut(u64, Option<&Arc<Sector>>)) {
        if len < self.len {
            for number in self.sectors.split_off(&len.div_ceil(SECTOR)).into_keys() {
                changed(number, None);
            }
            let (number, within) = (len / SECTOR, (len % SECTOR) as usize);
            if let Some(sector) = self.sectors.get_mut(&number).filter(|_| within > 0) {
                Arc::make_mut(sector)[within..].fill(0);
                changed(number, Some(sector));
            }
        }
        self.len = len;
    }

    /// Makes `len` the length whatever the sectors say: what lies past it is dropped.
    pub(crate) fn settle(&mut self, len: u64) {
        self.len = u64::MAX;
        self.set_len(len, |_, _| {});
    }

    /// Everything, as a vector.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; usize::try_from(self.len).unwrap_or(usize::MAX)];
        self.read(&mut out, 0);
        out
    }
}

/// Splits a buffer for `offset` at sector boundaries.
fn pieces(mut buffer: &mut [u8], mut offset: u64) -> impl Iterator<Item = &mut [u8]> {
    std::iter::from_fn(move || {
        let within = (offset % SECTOR) as usize;
        let len = buffer.len().min(SECTOR_BYTES - within);
        if len == 0 {
            return None;
        }
        offset += len as u64;
        let (now, later) = std::mem::take(&mut buffer).split_at_mut(len);
        buffer = later;
        Some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_across_sectors_and_holes() {
        let mut content = Content::default();
        let mut touched = Vec::new();
        content.write(b"abcdef", 510, |number, _| touched.push(number));
        assert_eq!(touched, [0, 1]);
        content.write(b"z", 5000, |_, _| {});
        let all = content.to_vec();
        assert_eq!(
            (all.len(), &all[510..516], all[5000]),
            (5001, &b"abcdef"[..], b'z')
        );
        assert!(all[516..5000].iter().all(|b| *b == 0));
        assert_eq!(content.read(&mut [0; 8], 4999), 2);
        assert_eq!(content.read(&mut [0; 8], 9999), 0);
    }

    #[test]
    fn what_was_cut_reads_as_zero_after_growth() {
        let mut content = Content::default();
        content.write(&[7; 2000], 0, |_, _| {});
        content.set_len(600, |_, _| {});
        content.set_len(2000, |_, _| {});
        let all = content.to_vec();
        assert!(all[..600].iter().all(|b| *b == 7) && all[600..].iter().all(|b| *b == 0));
    }
}
