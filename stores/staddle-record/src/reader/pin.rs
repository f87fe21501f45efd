//! Keeping a generation's files: a shared lock on one byte of `LOCK` per generation in use.
//!
//! Byte `2^32 + g` belongs to generation g. The kernel drops the lock with the process, so a killed reader holds nothing
//! back. Locks of one open file are not counted, so a set's handle hands out one [`Pin`] per generation and shares it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use staddle_base::Result;
use staddle_runtime::io::device::{Device, File, LockKind, Open};
use staddle_runtime::process::OwnerProcess;

use crate::format::names;

/// Keeps one generation's files from being reclaimed while it lives.
#[derive(Debug)]
pub struct Pin {
    board: Arc<Board>,
    generation: u64,
}

#[derive(Debug)]
struct Board {
    file: Arc<dyn File>,
    owner: OwnerProcess,
    pins: Mutex<HashMap<u64, Weak<Pin>>>,
}

/// The pins of one open set.
#[derive(Clone, Debug)]
pub struct PinBoard(Option<Arc<Board>>);

impl PinBoard {
    /// Opens the set's `LOCK`. Where the medium has no locks, or the folder cannot be written, pins hold nothing and
    /// the reclaimer's grace period protects readers instead.
    ///
    /// # Errors
    /// Those of opening `LOCK`, apart from a refusal to write.
    pub fn open(device: &dyn Device) -> Result<Self> {
        if !device.capabilities().lock {
            return Ok(Self(None));
        }
        let file = match device.open(names::LOCK, Open::Write) {
            Ok(file) => file,
            // A shared lock needs only a readable descriptor.
            Err(_) => match device.open(names::LOCK, Open::Read) {
                Ok(file) => file,
                Err(_) => return Ok(Self(None)),
            },
        };
        Ok(Self(Some(Arc::new(Board {
            file,
            owner: OwnerProcess::here(),
            pins: Mutex::default(),
        }))))
    }

    /// Pins a generation; `None` where nothing can be pinned.
    ///
    /// # Errors
    /// `Unavailable` when the kernel refuses the lock for another reason than having none.
    pub fn pin(&self, generation: u64) -> Result<Option<Arc<Pin>>> {
        let Some(board) = &self.0 else {
            return Ok(None);
        };
        let mut pins = board.pins.lock();
        if let Some(pin) = pins.get(&generation).and_then(Weak::upgrade) {
            return Ok(Some(pin));
        }
        let offset = names::PIN_BASE.saturating_add(generation);
        if !board.file.try_lock(offset, 1, LockKind::Shared)? {
            return Ok(None);
        }
        let pin = Arc::new(Pin {
            board: Arc::clone(board),
            generation,
        });
        pins.retain(|_, pin| pin.strong_count() > 0);
        pins.insert(generation, Arc::downgrade(&pin));
        Ok(Some(pin))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // The lock belongs to the open file, which a forked child shares with its parent.
        if !self.board.owner.is_here() {
            return;
        }
        let mut pins = self.board.pins.lock();
        // A new pin of the same generation may have been made since the last strong reference went.
        let alive = pins
            .get(&self.generation)
            .is_some_and(|pin| pin.strong_count() > 0);
        if !alive {
            pins.remove(&self.generation);
            let _ = self
                .board
                .file
                .unlock(names::PIN_BASE.saturating_add(self.generation), 1);
        }
    }
}

/// Whether any other open file pins a generation below `generation`.
///
/// # Errors
/// Those of opening `LOCK` and asking the kernel.
pub fn older_is_pinned(device: &dyn Device, generation: u64) -> Result<bool> {
    // A descriptor of its own: the kernel does not report a lock to the open file that holds it.
    let file = device.open(names::LOCK, Open::Write)?;
    file.is_locked(names::PIN_BASE, generation, LockKind::Exclusive)
}
