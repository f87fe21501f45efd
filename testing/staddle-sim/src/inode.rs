//! One file: what programs see, what is durable, and what lies between.

use std::collections::BTreeMap;
use std::sync::Arc;

use staddle_base::Rng;

use crate::content::{Content, Sector};
use crate::ranges::Ranges;

/// Versions kept of one sector between two syncs; beyond that the middle ones are forgotten, which loses images but
/// never makes a false one.
const VERSIONS_MAX: usize = 8;

/// A sector as one call left it.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The mutating call that wrote it.
    pub(crate) call: u64,
    /// Its bytes; `None` is a hole.
    pub(crate) sector: Option<Arc<Sector>>,
}

/// A file without its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    /// What survives a crash for certain.
    pub(crate) durable: Arc<Content>,
    /// What reads see.
    pub(crate) live: Arc<Content>,
    /// Sectors written since the last sync, oldest version first.
    pub(crate) pending: BTreeMap<u64, Vec<Version>>,
    /// Lengths since the last sync, with the call that set them.
    pub(crate) lens: Vec<(u64, u64)>,
    /// Blocks with disk space.
    pub(crate) space: Ranges,
    /// Names in live folders.
    pub(crate) links: u32,
    /// Open files.
    pub(crate) handles: u32,
    /// Set from the call counter: time that replays.
    pub(crate) mtime_ns: u64,
    /// A sync failed: `live` holds bytes that will never be written.
    lost: bool,
}

impl Inode {
    /// A new, empty file.
    pub(crate) fn made_by(call: u64) -> Self {
        Self {
            mtime_ns: call,
            ..Self::default()
        }
    }

    /// A file that a crash left behind.
    pub(crate) fn settled(content: Arc<Content>) -> Self {
        let mut space = Ranges::default();
        let (start, end) = Ranges::blocks(0, content.len());
        space.insert(start, end);
        Self {
            durable: Arc::clone(&content),
            live: content,
            space,
            links: 1,
            ..Self::default()
        }
    }

    /// Whether everything seen is durable.
    pub(crate) fn is_clean(&self) -> bool {
        self.pending.is_empty() && self.lens.is_empty()
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64, call: u64) {
        let pending = &mut self.pending;
        let live = Arc::make_mut(&mut self.live);
        let before = live.len();
        live.write(bytes, offset, |number, sector| {
            note(pending, number, call, Some(Arc::clone(sector)))
        });
        let after = live.len();
        if before != after {
            self.lens.push((call, after));
        }
        self.mtime_ns = call;
    }

    pub(crate) fn set_len(&mut self, len: u64, call: u64) {
        let pending = &mut self.pending;
        let live = Arc::make_mut(&mut self.live);
        if live.len() != len {
            self.lens.push((call, len));
        }
        live.set_len(len, |number, sector| {
            note(pending, number, call, sector.cloned())
        });
        self.space.cut(Ranges::blocks(0, len).1);
        self.mtime_ns = call;
    }

    /// Takes over the bytes of another file, all of them still to be synced.
    pub(crate) fn copy_from(&mut self, content: Arc<Content>, call: u64) {
        for (number, sector) in content.sectors() {
            note(&mut self.pending, number, call, Some(Arc::clone(sector)));
        }
        if content.len() > 0 {
            self.lens.push((call, content.len()));
        }
        let (start, end) = Ranges::blocks(0, content.len());
        self.space.insert(start, end);
        self.live = content;
        self.mtime_ns = call;
    }

    /// Makes bytes and length durable.
    pub(crate) fn sync(&mut self) {
        if !self.lost {
            self.durable = Arc::clone(&self.live);
        } else if !self.is_clean() {
            let durable = Arc::make_mut(&mut self.durable);
            for number in self.pending.keys() {
                durable.put(*number, self.live.sector(*number).cloned());
            }
            let len = if self.lens.is_empty() {
                durable.len()
            } else {
                self.live.len()
            };
            durable.settle(len);
        }
        self.pending.clear();
        self.lens.clear();
    }

    /// A sync that failed: some pages arrived, the others are marked clean and will never be written.
    pub(crate) fn fail_sync(&mut self, rng: &mut Rng) {
        if self.is_clean() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for (number, versions) in &self.pending {
            if let Some(last) = versions.last().filter(|_| rng.chance(1, 2)) {
                durable.put(*number, last.sector.clone());
            }
        }
        let len = match self.lens.last() {
            Some((_, len)) if rng.chance(1, 2) => *len,
            _ => durable.len(),
        };
        durable.settle(len);
        self.pending.clear();
        self.lens.clear();
        self.lost = true;
    }

    /// Changes bytes on the medium behind everyone's back.
    pub(crate) fn damage(&mut self, change: impl Fn(&mut Content)) {
        let same = Arc::ptr_eq(&self.durable, &self.live);
        change(Arc::make_mut(&mut self.durable));
        if same {
            self.live = Arc::clone(&self.durable);
        } else {
            change(Arc::make_mut(&mut self.live));
        }
    }
}

fn note(
    pending: &mut BTreeMap<u64, Vec<Version>>,
    number: u64,
    call: u64,
    sector: Option<Arc<Sector>>,
) {
    let versions = pending.entry(number).or_default();
    if versions.len() == VERSIONS_MAX {
        versions.remove(VERSIONS_MAX / 2);
    }
    versions.push(Version { call, sector });
}
