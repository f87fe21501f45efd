//! The handle a user holds: opens a set, reads it, changes it.
//!
//! Reading never takes a lock that writing holds: the view in use is swapped atomically. The first mutation takes the
//! set's writer lock; a handle that only reads never does.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::Serialize;
use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::Device;
use staddle_runtime::memory::Reservation;
use staddle_runtime::process::OwnerProcess;

use crate::format::{Head, Uuid, names, uuid_text};
use crate::maintain::snapshot;
use crate::manifest::External;
use crate::options::{Durability, Io, OpenOptions, Options};
use crate::reader::chunks::Origin;
use crate::reader::gather::{self, Context};
use crate::reader::generation::read_head;
use crate::reader::pin::PinBoard;
use crate::reader::{Batch, Generation, Packed};
use crate::writer::Writer;
use crate::writer::create;

/// Attempts to pin a generation while a writer commits.
const PIN_ATTEMPTS: usize = 100;

/// A set of records. Cloning is cheap; all clones share one view and one writer.
#[derive(Clone)]
pub struct Records(Arc<Store>);

pub(crate) struct Store {
    pub(crate) runtime: Runtime,
    pub(crate) origin: Arc<Origin>,
    pub(crate) how: OpenOptions,
    pub(crate) pins: PinBoard,
    pub(crate) client: Reservation,
    generation: ArcSwap<Generation>,
    /// Whether the writer knows more than the view shows.
    dirty: AtomicBool,
    writer: Mutex<Option<Writer>>,
    closed: AtomicBool,
    owner: OwnerProcess,
}

/// What must be equal for a saved loader state to mean the same records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Fingerprint {
    /// The set.
    pub uuid: String,
    /// The commit.
    pub generation: u64,
    /// Records in it.
    pub length: u64,
    /// The commit of the last update or tombstone.
    pub changed_generation: u64,
    /// The commit of the last swap-delete.
    pub moved_generation: u64,
}

impl Fingerprint {
    /// That of a commit.
    pub fn of(head: &Head) -> Self {
        Self {
            uuid: uuid_text(&head.uuid),
            generation: head.generation,
            length: head.n,
            changed_generation: head.changed_generation,
            moved_generation: head.moved_generation,
        }
    }
}

/// What one line can say about a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Records, holes and own unflushed ones included.
    pub records: u64,
    /// Payload bytes of live records, as stored.
    pub live_bytes: u64,
    /// Bytes of all chunks.
    pub total_bytes: u64,
    /// Number of chunks.
    pub chunks: usize,
    /// Whether the handle was closed.
    pub closed: bool,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let view = self.0.generation.load();
        write!(
            f,
            "Records({}, {} records, generation {})",
            self.uri(),
            view.head.n,
            view.head.generation
        )
    }
}

impl Records {
    /// Makes an empty set in the device's root and opens it for writing.
    ///
    /// # Errors
    /// `Invalid` for bad options, `Conflict` when there is a set already, `Unsupported` on a read-only medium.
    pub fn create(runtime: &Runtime, device: Arc<dyn Device>, options: Options) -> Result<Self> {
        create::create(runtime, &device, options)?;
        Self::open(runtime, device, OpenOptions::default())
    }

    /// [`Records::create`] with a uuid that the caller chose, so that equal calls make equal bytes. The uuid is what tells
    /// sets apart: never give it to two of them.
    ///
    /// # Errors
    /// As [`Records::create`].
    pub fn create_as(
        runtime: &Runtime,
        device: Arc<dyn Device>,
        options: Options,
        uuid: Uuid,
    ) -> Result<Self> {
        create::create_as(runtime, &device, options, uuid)?;
        Self::open(runtime, device, OpenOptions::default())
    }

    /// Opens a set. Takes no writer lock: the first mutation does.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Corrupt` for damaged files, `Unsupported` for a newer format, `Conflict` when the
    /// generation asked for is gone.
    pub fn open(runtime: &Runtime, device: Arc<dyn Device>, how: OpenOptions) -> Result<Self> {
        let head = read_head(device.as_ref())?;
        let capabilities = device.capabilities();
        let map = match how.io {
            Io::Auto => capabilities.map,
            Io::Read => false,
            Io::Map if capabilities.map => true,
            Io::Map => {
                return Err(Error::unsupported("files here cannot be mapped")
                    .with("uri", device.uri())
                    .hint("use io=\"auto\""));
            }
        };
        let origin = Arc::new(Origin {
            uuid: head.uuid,
            map,
            external_anywhere: how.external_anywhere,
            runtime: runtime.clone(),
            maps: AtomicUsize::new(0),
            trust: AtomicU32::new(0),
            device,
        });
        let pins = PinBoard::open(origin.device.as_ref())?;
        let generation = pinned(&origin, &pins, &how, None)?;
        let client = runtime
            .memory()
            .root()
            .child(&format!("record {}", origin.device.uri()), None);
        Ok(Self(Arc::new(Store {
            runtime: runtime.clone(),
            origin,
            how,
            pins,
            client,
            generation: ArcSwap::from(generation),
            dirty: AtomicBool::new(false),
            writer: Mutex::new(None),
            closed: AtomicBool::new(false),
            owner: OwnerProcess::here(),
        })))
    }

    /// Whether the device's root holds a record set.
    ///
    /// # Errors
    /// Those of the device.
    pub fn is_set(device: &dyn Device) -> Result<bool> {
        Ok(device.stat(names::HEAD)?.is_some_and(|stat| !stat.dir))
    }

    /// Where the set is.
    pub fn uri(&self) -> &str {
        self.0.origin.device.uri()
    }

    /// The folder it is in.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.origin.device
    }

    /// The runtime it uses.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// The set's identity.
    pub fn uuid(&self) -> &Uuid {
        &self.0.origin.uuid
    }

    /// How the set was made.
    pub fn options(&self) -> Options {
        self.0.generation.load().manifest.options.clone()
    }

    /// How the set was opened.
    pub fn how(&self) -> &OpenOptions {
        &self.0.how
    }

    /// Number of records, holes and unflushed ones included.
    ///
    /// # Errors
    /// `Closed`, and those of looking for a newer generation when following.
    pub fn len(&self) -> Result<u64> {
        if self.0.dirty.load(Ordering::Acquire)
            && self.0.owner.is_here()
            && let Some(writer) = self.0.writer.lock().as_ref()
            && !writer.has_failed()
        {
            return Ok(writer.records());
        }
        Ok(self.current()?.head.n)
    }

    /// Whether there are no records.
    ///
    /// # Errors
    /// As [`Records::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The number of records that are not holes.
    ///
    /// # Errors
    /// As [`Records::current`].
    pub fn live(&self) -> Result<u64> {
        Ok(self.current()?.head.live)
    }

    /// The commit in view.
    pub fn generation(&self) -> u64 {
        self.0.generation.load().head.generation
    }

    /// What one line can say about the set: no I/O and no waiting.
    pub fn glance(&self) -> Glance {
        let view = self.0.generation.load();
        let unflushed = match self.0.writer.try_lock() {
            Some(writer) if self.0.owner.is_here() => writer.as_ref().map(Writer::records),
            _ => None,
        };
        Glance {
            records: unflushed.unwrap_or(view.head.n),
            live_bytes: view.head.live_bytes,
            total_bytes: view.head.total_bytes,
            chunks: view.chunks.list().len(),
            closed: self.0.closed.load(Ordering::Acquire),
        }
    }

    /// What a saved loader state is checked against.
    ///
    /// # Errors
    /// As [`Records::current`].
    pub fn fingerprint(&self) -> Result<Fingerprint> {
        Ok(Fingerprint::of(&self.current()?.head))
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.0.closed.load(Ordering::Acquire) {
            return Err(Error::closed("the set was closed")
                .with("uri", self.uri())
                .hint("open it again"));
        }
        Ok(())
    }

    /// The view that a read made now uses: with own unflushed writes, and the newest commit when following.
    ///
    /// # Errors
    /// `Closed`, and those of the device.
    pub fn current(&self) -> Result<Arc<Generation>> {
        self.check_open()?;
        if self.0.dirty.load(Ordering::Acquire) && self.0.owner.is_here() {
            self.expose()?;
        } else if self.0.how.follow {
            self.refresh()?;
        }
        Ok(self.0.generation.load_full())
    }

    /// As [`Records::current`], with own writes flushed, so that its number says what it holds.
    pub(crate) fn settled(&self) -> Result<Arc<Generation>> {
        self.flush()?;
        self.current()
    }

    /// The view of a named commit, beside the one in use.
    pub(crate) fn view_of(&self, snapshot: &str) -> Result<Arc<Generation>> {
        let how = OpenOptions {
            snapshot: Some(snapshot.to_owned()),
            generation: None,
            ..self.0.how.clone()
        };
        pinned(&self.0.origin, &self.0.pins, &how, None)
    }

    /// The newest commit, beside the one in use; `None` when the set was opened at a certain one.
    pub(crate) fn newest(&self) -> Result<Option<Arc<Generation>>> {
        if self.0.how.generation.is_some() || self.0.how.snapshot.is_some() {
            return Ok(None);
        }
        let older = self.0.generation.load_full();
        pinned(&self.0.origin, &self.0.pins, &self.0.how, Some(&older)).map(Some)
    }

    #[cold]
    fn expose(&self) -> Result<()> {
        let mut slot = self.0.writer.lock();
        // A writer that has stopped shows nothing new; what it showed before stays readable.
        if let Some(writer) = slot.as_mut()
            && !writer.has_failed()
        {
            self.0.generation.store(writer.expose()?);
        }
        self.0.dirty.store(false, Ordering::Release);
        Ok(())
    }

    /// Moves to the newest commit; true when there was a newer one.
    ///
    /// # Errors
    /// Those of the device.
    pub fn refresh(&self) -> Result<bool> {
        self.check_open()?;
        if self.0.how.generation.is_some()
            || self.0.how.snapshot.is_some()
            || !self.0.owner.is_here()
        {
            return Ok(false);
        }
        let _writer = match self.0.writer.lock() {
            writer if writer.is_some() => return Ok(false),
            writer => writer,
        };
        let older = self.0.generation.load_full();
        if read_head(self.0.origin.device.as_ref())?.generation == older.head.generation {
            return Ok(false);
        }
        let newer = pinned(&self.0.origin, &self.0.pins, &self.0.how, Some(&older))?;
        self.0.generation.store(newer);
        Ok(true)
    }

    /// An index as a user writes it: negative ones count from the end.
    ///
    /// # Errors
    /// `OutOfRange` with the valid range.
    pub fn normalize(&self, index: i64) -> Result<u64> {
        let length = self.len()?;
        let absolute = if index < 0 {
            length.checked_sub(index.unsigned_abs())
        } else {
            u64::try_from(index).ok()
        };
        absolute
            .filter(|absolute| *absolute < length)
            .ok_or_else(|| Error::out_of_range(index, length).with("uri", self.uri()))
    }

    /// Runs a read against the current view.
    fn read<R>(&self, read: impl FnOnce(&Context<'_>) -> Result<R>) -> Result<R> {
        let generation = self.current()?;
        self.read_in(&generation, read)
    }

    /// Runs a read against a view.
    pub(crate) fn read_in<R>(
        &self,
        generation: &Arc<Generation>,
        read: impl FnOnce(&Context<'_>) -> Result<R>,
    ) -> Result<R> {
        read(&Context {
            generation,
            runtime: &self.0.runtime,
            client: &self.0.client,
        })
    }

    /// One record, decompressed; `None` for a hole.
    ///
    /// # Errors
    /// `OutOfRange`, `Corrupt` with chunk, offset and index, `Closed`.
    pub fn get(&self, index: u64) -> Result<Option<Vec<u8>>> {
        self.with(index, |record| record.map(<[u8]>::to_vec))
    }

    /// Hands one record to `then` without copying it, where it is mapped and not compressed.
    ///
    /// # Errors
    /// As [`Records::get`].
    pub fn with<R>(&self, index: u64, then: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        let settled = !self.0.dirty.load(Ordering::Acquire)
            && !self.0.how.follow
            && !self.0.closed.load(Ordering::Acquire);
        if settled {
            let generation = self.0.generation.load();
            return gather::one(&self.context(&generation), index, then);
        }
        self.read(|context| gather::one(context, index, then))
    }

    fn context<'a>(&'a self, generation: &'a Arc<Generation>) -> Context<'a> {
        Context {
            generation,
            runtime: &self.0.runtime,
            client: &self.0.client,
        }
    }

    /// Records in input order, repeated and unsorted indices included; none is copied that can be handed out as it lies.
    ///
    /// # Errors
    /// `OutOfRange` before any byte moves; `Corrupt` with chunk, offset and index; `Exhausted`; `Closed`.
    pub fn gather(&self, indices: &[u64]) -> Result<Batch> {
        self.read(|context| gather::gather(context, indices))
    }

    /// As [`Records::gather`], in a view that the caller holds.
    ///
    /// # Errors
    /// As [`Records::gather`].
    pub fn gather_in(&self, generation: &Arc<Generation>, indices: &[u64]) -> Result<Batch> {
        self.read_in(generation, |context| gather::gather(context, indices))
    }

    /// As [`Records::gather_packed`], in a view that the caller holds.
    ///
    /// # Errors
    /// As [`Records::gather`].
    pub fn gather_packed_in(
        &self,
        generation: &Arc<Generation>,
        indices: &[u64],
    ) -> Result<Packed> {
        self.read_in(generation, |context| gather::pack(context, indices))
    }

    /// Lengths in bytes, decompressed; 0 for holes.
    ///
    /// # Errors
    /// As [`Records::gather`].
    pub fn lengths(&self, indices: &[u64]) -> Result<Vec<u64>> {
        self.read(|context| gather::lengths(context, indices))
    }

    /// Records one after the other in the caller's memory; `offsets` has one more entry than there are indices. Returns
    /// the bytes written.
    ///
    /// # Errors
    /// As [`Records::gather`]; `Invalid` with the sizes needed.
    pub fn gather_into(&self, indices: &[u64], out: &mut [u8], offsets: &mut [i64]) -> Result<u64> {
        self.read(|context| gather::pack_into(context, indices, out, offsets))
    }

    /// Records one after the other in a pooled buffer.
    ///
    /// # Errors
    /// As [`Records::gather`].
    pub fn gather_packed(&self, indices: &[u64]) -> Result<Packed> {
        self.read(|context| gather::pack(context, indices))
    }

    /// Asks the kernel to bring records into memory.
    ///
    /// # Errors
    /// `OutOfRange`, and those of opening a chunk.
    pub fn prefetch(&self, indices: &[u64]) -> Result<()> {
        let generation = self.current()?;
        for index in indices {
            let (entry, _) = generation.entry(*index)?;
            if let Some(chunk) = generation.chunks.get(entry.chunk())
                && entry.is_present()
                && chunk.ensure_mapped()?
            {
                chunk.will_need(entry.offset(), entry.physical_length() as usize);
            }
        }
        Ok(())
    }

    /// Runs a mutation with the writer, which the first one opens.
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut Writer) -> Result<R>) -> Result<R> {
        self.check_open()?;
        self.0
            .owner
            .check()
            .map_err(|e| e.with("uri", self.uri()))?;
        if self.0.how.read_only {
            return Err(Error::unsupported("the set was opened read-only")
                .with("uri", self.uri())
                .hint("open it with mode=\"r+\""));
        }
        if self.0.how.generation.is_some() || self.0.how.snapshot.is_some() {
            return Err(Error::unsupported("an older generation cannot be changed")
                .with("uri", self.uri())
                .hint("open the set without generation and snapshot"));
        }
        let mut slot = self.0.writer.lock();
        let writer = match &mut *slot {
            Some(writer) => writer,
            empty => {
                let writer =
                    Writer::open(&self.0.runtime, &self.0.origin, &self.0.pins, &self.0.how)?;
                self.0.generation.store(Arc::clone(writer.base()));
                empty.insert(writer)
            }
        };
        // Even a change that fails may have changed something.
        self.0.dirty.store(true, Ordering::Release);
        let result = change(writer)?;
        if writer.manifest.options.durability == Durability::Call {
            self.0.generation.store(writer.flush()?);
            self.0.dirty.store(false, Ordering::Release);
        }
        Ok(result)
    }

    /// Runs a step that ends with a published view.
    pub(crate) fn publish(
        &self,
        change: impl FnOnce(&mut Writer) -> Result<Arc<Generation>>,
    ) -> Result<()> {
        self.write(|writer| {
            let view = change(writer)?;
            self.0.generation.store(view);
            self.0.dirty.store(false, Ordering::Release);
            writer.reclaim()
        })
    }

    /// Appends one record; returns its index. Durable after [`Records::flush`].
    ///
    /// # Errors
    /// `Conflict` when another process writes, `Invalid` for a record of 4 GiB or more or one that does not fit the
    /// dtype, `Exhausted` when the disk is full, `Unavailable` when it failed, `Closed`.
    pub fn append(&self, record: &[u8]) -> Result<u64> {
        self.write(|writer| writer.append(record))
    }

    /// Appends records; returns their indices.
    ///
    /// # Errors
    /// As [`Records::append`]; records before the one that failed stay.
    pub fn extend<R: AsRef<[u8]> + Sync>(&self, records: &[R]) -> Result<Range<u64>> {
        self.write(|writer| writer.extend(records))
    }

    /// Replaces a record.
    ///
    /// # Errors
    /// `OutOfRange`, and as [`Records::append`].
    pub fn update(&self, index: u64, record: &[u8]) -> Result<()> {
        self.write(|writer| writer.update(index, record))
    }

    /// Replaces records; all indices are checked before anything changes.
    ///
    /// # Errors
    /// As [`Records::update`]; records before the one that failed stay replaced.
    pub fn update_many<R: AsRef<[u8]>>(&self, items: &[(u64, R)]) -> Result<()> {
        self.write(|writer| {
            let length = writer.records();
            if let Some((bad, _)) = items.iter().find(|(index, _)| *index >= length) {
                return Err(
                    Error::out_of_range(i64::try_from(*bad).unwrap_or(i64::MAX), length)
                        .with("uri", self.uri()),
                );
            }
            items
                .iter()
                .try_for_each(|(index, record)| writer.update(*index, record.as_ref()))
        })
    }

    /// Removes a record in constant time: the last one takes its place. Returns the old index of the record that moved.
    ///
    /// # Errors
    /// `OutOfRange`, and as [`Records::append`].
    pub fn delete(&self, index: u64) -> Result<u64> {
        self.write(|writer| writer.delete(index))
    }

    /// Removes several records. Indices mean the set before the call; they are applied from the highest down. Returns
    /// the old index of the record that moved into each place, in the order of the input.
    ///
    /// # Errors
    /// `OutOfRange` or `Invalid` (an index twice) before anything changes, and as [`Records::append`].
    pub fn delete_many(&self, indices: &[u64]) -> Result<Vec<u64>> {
        self.write(|writer| {
            let length = writer.records();
            if let Some(bad) = indices.iter().find(|index| **index >= length) {
                return Err(
                    Error::out_of_range(i64::try_from(*bad).unwrap_or(i64::MAX), length)
                        .with("uri", self.uri()),
                );
            }
            let mut order: Vec<usize> = (0..indices.len()).collect();
            order.sort_by_key(|at| std::cmp::Reverse(indices[*at]));
            if let Some(pair) = order
                .windows(2)
                .find(|pair| indices[pair[0]] == indices[pair[1]])
            {
                return Err(
                    Error::invalid("the same record is deleted twice in one call")
                        .with("index", indices[pair[0]]),
                );
            }
            let mut moved = vec![0; indices.len()];
            for at in order {
                moved[at] = writer.delete(indices[at])?;
            }
            Ok(moved)
        })
    }

    /// Empties an index; all other records keep theirs.
    ///
    /// # Errors
    /// `OutOfRange`, and as [`Records::append`].
    pub fn tombstone(&self, index: u64) -> Result<()> {
        self.write(|writer| writer.tombstone(index))
    }

    /// Appends records that lie in a foreign file, as `(offset, length)` in it; `None` appends a hole.
    ///
    /// # Errors
    /// `Invalid` for a piece beyond the file, and as [`Records::append`].
    pub fn adopt_external(
        &self,
        external: External,
        pieces: &[Option<(u64, u64)>],
    ) -> Result<Range<u64>> {
        self.write(|writer| writer.adopt(external, pieces))
    }

    /// Makes a foreign file a chunk of the set, for [`Records::link`].
    pub(crate) fn add_foreign(&self, external: External, records: u64) -> Result<u32> {
        self.write(|writer| writer.add_foreign(external, records))
    }

    /// Appends entries of chunks that [`Records::add_foreign`] returned, and holes.
    pub(crate) fn link(&self, entries: &[crate::format::Entry]) -> Result<Range<u64>> {
        self.write(|writer| writer.link(entries))
    }

    /// Makes everything up to now durable and visible to other processes.
    ///
    /// # Errors
    /// `Exhausted` when the disk is full (flushed records are intact, a later flush may succeed), `Unavailable` when a
    /// write or sync failed (reopen: it goes back to the last flush).
    pub fn flush(&self) -> Result<()> {
        self.check_open()?;
        if !self.0.owner.is_here() {
            return Ok(());
        }
        let mut slot = self.0.writer.lock();
        if let Some(writer) = slot.as_mut() {
            self.0.generation.store(writer.flush()?);
            self.0.dirty.store(false, Ordering::Release);
            writer.reclaim()?;
        }
        Ok(())
    }

    /// Flushes and gives up the writer lock. Later calls raise `Closed`; batches and views stay valid.
    ///
    /// # Errors
    /// As [`Records::flush`]; the set is closed all the same.
    pub fn close(&self) -> Result<()> {
        if self.0.closed.swap(true, Ordering::AcqRel) || !self.0.owner.is_here() {
            return Ok(());
        }
        let mut slot = self.0.writer.lock();
        let closed = match slot.as_mut() {
            Some(writer) if !writer.has_failed() => writer.close(),
            _ => Ok(()),
        };
        // Batches hold pins of their own; this handle reads no more, and must keep no files.
        let unpinned = Generation {
            pin: None,
            ..Generation::clone(&self.0.generation.load())
        };
        self.0.generation.store(Arc::new(unpinned));
        let reclaimed = slot.as_mut().map_or(Ok(()), Writer::reclaim);
        *slot = None;
        closed.and(reclaimed)
    }

    /// Folds all changes since the last checkpoint into the table.
    ///
    /// # Errors
    /// As [`Records::flush`].
    pub fn checkpoint(&self) -> Result<()> {
        self.publish(Writer::checkpoint)
    }

    /// Keeps the current commit under a name. Copies nothing.
    ///
    /// # Errors
    /// `Invalid` for a bad name, `Conflict` when it is taken, and as [`Records::flush`].
    pub fn snapshot(&self, name: &str) -> Result<()> {
        names::check(name)?;
        self.write(|writer| {
            let view = writer.flush()?;
            self.0.generation.store(Arc::clone(&view));
            snapshot::add(self.device().as_ref(), name, &view.head)
        })
    }

    /// The named commits.
    ///
    /// # Errors
    /// `Corrupt` for a damaged one.
    pub fn snapshots(&self) -> Result<Vec<snapshot::Snapshot>> {
        self.check_open()?;
        snapshot::list(self.device().as_ref())
    }

    /// Drops a named commit; its files go when nothing else names them.
    ///
    /// # Errors
    /// `NotFound` with the names that exist, and as [`Records::append`].
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        self.write(|writer| {
            snapshot::remove(self.device().as_ref(), name)?;
            writer.surplus = true;
            writer.reclaim()
        })
    }

    /// Payload bytes of live records over bytes of all chunks; 1 for an empty set.
    ///
    /// # Errors
    /// As [`Records::current`].
    pub fn utilization(&self) -> Result<f64> {
        let head = &self.current()?.head;
        Ok(if head.total_bytes == 0 {
            1.0
        } else {
            head.live_bytes as f64 / head.total_bytes as f64
        })
    }
}

/// Loads the view that `how` asks for, pinned before its files are relied on.
fn pinned(
    origin: &Arc<Origin>,
    pins: &PinBoard,
    how: &OpenOptions,
    older: Option<&Generation>,
) -> Result<Arc<Generation>> {
    let device = origin.device.as_ref();
    if let Some(name) = &how.snapshot {
        let head = snapshot::get(device, name)?.head;
        let pin = pins.pin(head.generation)?;
        return Generation::load(origin, head, pin, how, older).map(Arc::new);
    }
    let mut last = None;
    for _ in 0..PIN_ATTEMPTS {
        let head = match how.generation {
            Some(wanted) => head_of(device, wanted)?,
            None => read_head(device)?,
        };
        let pin = pins.pin(head.generation)?;
        // The reclaimer looks at pins after a commit: one made before this commit, or seen after it, holds.
        let current = read_head(device)?.generation;
        let load = || Generation::load(origin, head.clone(), pin.clone(), how, older).map(Arc::new);
        if current == head.generation || how.generation.is_some() {
            match load() {
                Ok(generation) => return Ok(generation),
                // A commit may have come between, and a medium without locks keeps nothing.
                Err(e)
                    if e.kind() == ErrorKind::Corrupt
                        && read_head(device)?.generation != head.generation =>
                {
                    last = Some(e)
                }
                Err(e) => return Err(e),
            }
        }
    }
    Err(last.unwrap_or_else(|| {
        Error::conflict("the set changed faster than it could be opened")
            .with("uri", device.uri())
            .hint("try again")
    }))
}

/// HEAD of a generation that one of the slots or a snapshot still holds.
fn head_of(device: &dyn Device, wanted: u64) -> Result<crate::format::Head> {
    let newest = read_head(device)?;
    if newest.generation == wanted {
        return Ok(newest);
    }
    let bytes = staddle_runtime::io::device::read_file(
        device,
        names::HEAD,
        crate::format::head::FILE_BYTES,
    )?;
    let slots = bytes
        .chunks(crate::format::head::SLOT_BYTES)
        .filter_map(|slot| crate::format::Head::decode(slot).ok());
    let snapshots = snapshot::list(device)?
        .into_iter()
        .map(|snapshot| snapshot.head);
    slots
        .chain(snapshots)
        .find(|head| head.generation == wanted)
        .ok_or_else(|| {
            Error::conflict(format!(
                "generation {wanted} is gone; the newest is {}",
                newest.generation
            ))
            .with("uri", device.uri())
            .hint("open the newest with refresh(), or keep one next time with snapshot(name)")
        })
}
