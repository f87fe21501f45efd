//! The mutations: append, update, swap-delete, tombstone.

use std::ops::Range;

use staddle_base::{Error, Result};

use super::Writer;
use super::encode::Encoded;
use super::lane::{Lane, Payload};
use crate::format::{Entry, LogRecord, Op, RECORDS_MAX};
use crate::options::Options;

/// A batch is worth splitting over lanes from this many records or bytes a lane.
const LANE_RECORDS_MIN: usize = 64;
const LANE_BYTES_MIN: usize = 256 << 10;

/// A run of records for one lane.
struct Part<'a, R> {
    lane: &'a mut Lane,
    records: &'a [R],
    encoded: Vec<(usize, &'a Encoded)>,
    index: u64,
    sequence: u64,
}

impl Writer {
    /// Appends one record and returns its index.
    ///
    /// # Errors
    /// `Invalid` for a record that this set cannot hold, `Exhausted` when the disk is full (nothing is kept and a later
    /// append may succeed), and those of a failed device.
    pub fn append(&mut self, record: &[u8]) -> Result<u64> {
        self.check()?;
        self.manifest.options.check_record(record.len())?;
        self.check_room(1)?;
        if let Some(staging) = &mut self.staging {
            staging.push(record);
            let index = self.head.n + staging.count() as u64 - 1;
            if staging.is_full() {
                self.settle()?;
            }
            return Ok(index);
        }
        let (index, sequence) = (self.head.n, self.head.next_sequence);
        let generation = self.published.generation;
        let options = &self.manifest.options;
        let lane = &mut self.lanes[0];
        let result = self
            .workbench
            .one(record)
            .and_then(|payload| lane.push(options, generation, sequence, index, Op::Put, payload));
        match result {
            Ok(entry) => {
                self.head.next_sequence += 1;
                self.append_entry(sequence, entry)?;
                Ok(index)
            }
            Err(e) => Err(self.note(e)),
        }
    }

    pub(super) fn check_room(&self, more: u64) -> Result<()> {
        if self.records() + more > RECORDS_MAX {
            return Err(Error::invalid(format!(
                "{more} more records do not fit: a set holds at most 2^40"
            )));
        }
        Ok(())
    }

    /// Appends records and returns their indices. Large batches are compressed on the workers and spread over the lanes.
    ///
    /// # Errors
    /// As [`Writer::append`]; records before the one that failed stay.
    pub fn extend<R: AsRef<[u8]> + Sync>(&mut self, records: &[R]) -> Result<Range<u64>> {
        self.check()?;
        let start = self.records();
        let options = &self.manifest.options;
        let fitting = records
            .iter()
            .position(|record| options.check_record(record.as_ref().len()).is_err());
        let (good, bad) = records.split_at(fitting.unwrap_or(records.len()));
        self.check_room(good.len() as u64)?;
        let mut good = good;
        while let Some(staging) = &mut self.staging {
            let Some((first, rest)) = good.split_first() else {
                break;
            };
            staging.push(first.as_ref());
            good = rest;
            if staging.is_full() {
                self.settle()?;
            }
        }
        self.extend_encoded(good)?;
        match bad.first() {
            Some(record) => Err(self.refuse(
                record.as_ref().len(),
                start + (records.len() - bad.len()) as u64,
            )),
            None => Ok(start..self.records()),
        }
    }

    #[cold]
    fn refuse(&self, len: usize, index: u64) -> Error {
        match self.manifest.options.check_record(len) {
            Err(e) => e.with("index", index).with("uri", self.origin.device.uri()),
            Ok(()) => Error::internal("a record was refused without a reason"),
        }
    }

    /// Appends without staging.
    pub(super) fn extend_encoded<R: AsRef<[u8]> + Sync>(&mut self, records: &[R]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let encoded = self.workbench.many(&self.runtime, records)?;
        let share = records.len().div_ceil(encoded.len());
        let lanes = self.lanes_for(records);
        let part_len = records.len().div_ceil(lanes);
        let (index, sequence) = (self.head.n, self.head.next_sequence);
        let generation = self.published.generation;
        let options = &self.manifest.options;
        let marks: Vec<_> = self.lanes.iter().map(Lane::mark).collect();

        let mut parts = Vec::with_capacity(lanes);
        for (no, (lane, records)) in self
            .lanes
            .iter_mut()
            .zip(records.chunks(part_len))
            .enumerate()
        {
            let first = no * part_len;
            let encoded = (first..first + records.len())
                .map(|k| (k % share, &encoded[k / share]))
                .collect();
            parts.push(Part {
                lane,
                records,
                encoded,
                index: index + first as u64,
                sequence: sequence + first as u64,
            });
        }
        let run = |part| push_all(options, generation, part);
        let mut results = match parts.len() {
            1 => parts.into_iter().map(run).collect(),
            _ => self.runtime.workers().map("write", parts, run)?,
        };

        // Sequence numbers are never used twice, not even those of records that failed.
        self.head.next_sequence += records.len() as u64;
        let mut failure = None;
        let mut at = sequence;
        for (no, (entries, result)) in results.drain(..).enumerate() {
            if failure.is_some() {
                // Their indices would leave a gap.
                self.lanes[no].rewind(marks[no]);
                continue;
            }
            for entry in entries {
                self.append_entry(at, entry)?;
                at += 1;
            }
            failure = result.err();
        }
        match failure {
            Some(e) => Err(self.note(e)),
            None => Ok(()),
        }
    }

    fn lanes_for<R: AsRef<[u8]>>(&self, records: &[R]) -> usize {
        let lanes = self.manifest.options.writers.min(self.lanes.len());
        if lanes == 1 {
            return 1;
        }
        let bytes: usize = records.iter().map(|record| record.as_ref().len()).sum();
        lanes
            .min((records.len() / LANE_RECORDS_MIN).max(bytes / LANE_BYTES_MIN))
            .clamp(1, records.len())
    }

    /// Gives the next index to an entry.
    pub(super) fn append_entry(&mut self, sequence: u64, entry: Entry) -> Result<()> {
        let slot = self.head.n;
        self.head.n += 1;
        self.head.live += 1;
        self.head.live_bytes += u64::from(entry.physical_length());
        if slot < self.head.base_len {
            // The slot was published once; readers may still use what it held.
            self.redirect(Op::Put, sequence, slot, entry);
            return Ok(());
        }
        self.head.base_len += 1;
        self.tail.extend_from_slice(&entry.to_bytes());
        if self.tail.len() >= super::TAIL_BYTES {
            self.write_tail().map_err(|e| self.fail(e))?;
        }
        Ok(())
    }

    /// Changes what a published slot holds.
    fn redirect(&mut self, op: Op, sequence: u64, slot: u64, entry: Entry) {
        LogRecord {
            op,
            sequence,
            index: slot,
            entry,
        }
        .encode(&mut self.log.pending);
        self.top.insert(slot, entry);
    }

    fn check_index(&self, index: u64) -> Result<()> {
        if index < self.head.n {
            return Ok(());
        }
        Err(
            Error::out_of_range(i64::try_from(index).unwrap_or(i64::MAX), self.head.n)
                .with("uri", self.origin.device.uri()),
        )
    }

    fn push(&mut self, index: u64, op: Op, payload: Payload<'_>) -> Result<(u64, Entry)> {
        let sequence = self.head.next_sequence;
        self.head.next_sequence += 1;
        let lane = self.next_lane;
        self.next_lane = (lane + 1) % self.manifest.options.writers.min(self.lanes.len());
        let generation = self.published.generation;
        let pushed = self.lanes[lane].push(
            &self.manifest.options,
            generation,
            sequence,
            index,
            op,
            payload,
        );
        match pushed {
            Ok(entry) => Ok((sequence, entry)),
            Err(e) => Err(self.note(e)),
        }
    }

    /// Replaces the record at an index; a hole becomes a record again.
    ///
    /// # Errors
    /// `OutOfRange`, and those of [`Writer::append`].
    pub fn update(&mut self, index: u64, record: &[u8]) -> Result<()> {
        self.check()?;
        self.settle()?;
        self.check_index(index)?;
        self.manifest
            .options
            .check_record(record.len())
            .map_err(|e| e.with("index", index))?;
        let old = self.entry(index)?;
        let encoded = self
            .workbench
            .many(&self.runtime, std::slice::from_ref(&record))?;
        let Some(encoded) = encoded.first() else {
            return Err(Error::internal("a record was not encoded"));
        };
        let (sequence, entry) = self.push(index, Op::Put, encoded.payload(0, record))?;
        self.redirect(Op::Put, sequence, index, entry);
        self.forget(old);
        self.head.live += 1;
        self.head.live_bytes += u64::from(entry.physical_length());
        self.changed = true;
        Ok(())
    }

    /// Removes the record at an index: the last record takes its place. Returns the old index of the record that moved,
    /// which is `index` itself when it was the last.
    ///
    /// # Errors
    /// `OutOfRange`, and those of [`Writer::append`].
    pub fn delete(&mut self, index: u64) -> Result<u64> {
        self.check()?;
        self.settle()?;
        self.check_index(index)?;
        let last = self.head.n - 1;
        let (old, moved) = (self.entry(index)?, self.entry(last)?);
        let (sequence, _) =
            self.push(index, Op::SwapDelete, Payload::marker(&last.to_le_bytes()))?;
        if index != last {
            self.redirect(Op::SwapDelete, sequence, index, moved);
        }
        self.forget(old);
        self.head.n = last;
        self.moved = true;
        Ok(last)
    }

    /// Empties an index and keeps all others where they are.
    ///
    /// # Errors
    /// `OutOfRange`, and those of [`Writer::append`].
    pub fn tombstone(&mut self, index: u64) -> Result<()> {
        self.check()?;
        self.settle()?;
        self.check_index(index)?;
        let old = self.entry(index)?;
        if !old.is_present() {
            return Ok(());
        }
        let (sequence, _) = self.push(index, Op::Tombstone, Payload::marker(&[]))?;
        self.redirect(Op::Tombstone, sequence, index, Entry::MISSING);
        self.forget(old);
        self.changed = true;
        Ok(())
    }

    /// Takes a record out of the counts.
    fn forget(&mut self, old: Entry) {
        if old.is_present() {
            self.head.live -= 1;
            self.head.live_bytes = self
                .head
                .live_bytes
                .saturating_sub(u64::from(old.physical_length()));
        }
    }
}

/// Pushes a run of records; stops at the first that fails.
fn push_all<R: AsRef<[u8]>>(
    options: &Options,
    generation: u64,
    part: Part<'_, R>,
) -> (Vec<Entry>, Result<()>) {
    let mut entries = Vec::with_capacity(part.records.len());
    for (k, (record, (row, encoded))) in (0u64..).zip(part.records.iter().zip(part.encoded)) {
        let payload = encoded.payload(row, record.as_ref());
        match part.lane.push(
            options,
            generation,
            part.sequence + k,
            part.index + k,
            Op::Put,
            payload,
        ) {
            Ok(entry) => entries.push(entry),
            Err(e) => return (entries, Err(e)),
        }
    }
    (entries, Ok(()))
}
