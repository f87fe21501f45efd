//! A set, copied as it is to another folder or to an object store.
//!
//! What one commit names is copied byte for byte: bytes below a published end never change, and a pin keeps the files
//! while they travel. HEAD goes last, so a copy that was interrupted is not a set. Every size is compared.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{
    Device, File, LockKind, Map, Open, Region, RemoteDevice, parent, publish_file, read_file,
};

use crate::adopt::locate::{ALIGNED, refer};
use crate::adopt::run::{check_free, remove_all};
use crate::adopt::source::{home_of, rooted};
use crate::aligned::{self, Aligned};
use crate::format::{ChunkFooter, Entry, Head, SEGMENT_SLOTS, head, names};
use crate::manifest::{BYTES_MAX, Manifest};
use crate::progress::{OnProgress, Progress};
use crate::records::Records;

/// Bytes copied at a time.
const BLOCK_BYTES: usize = 4 << 20;

/// Where a set is copied to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A folder that can be written.
    Folder(Arc<dyn Device>),
    /// An object store.
    Objects(RemoteDevice),
}

impl Target {
    /// The place that a path or URI names.
    ///
    /// # Errors
    /// `Invalid` for an unknown scheme or option.
    pub fn at(runtime: &Runtime, uri: &str, storage: &BTreeMap<String, String>) -> Result<Self> {
        let device = runtime.io().device(uri, storage)?;
        if device.capabilities().remote {
            return Ok(Self::Objects(runtime.io().remote(uri, storage)?));
        }
        Ok(Self::Folder(device))
    }
}

/// Figures of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CloneReport {
    /// Files copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The first bytes of a file, as a file.
#[derive(Debug)]
struct Prefix {
    file: Arc<dyn File>,
    len: u64,
}

/// A copy under way.
struct Job<'a> {
    target: &'a Target,
    /// Before every path: the folder of a field.
    prefix: String,
    report: CloneReport,
    bytes_total: u64,
    progress: OnProgress<'a>,
    folders: BTreeSet<String>,
}

/// Copies a set, flushed first, into the root of `target`.
///
/// # Errors
/// `Conflict` when something is there, `Unsupported` for a set with adopted files on its way to an object store;
/// `Corrupt` when a file is missing or short; those of reading and writing.
pub fn clone_set(
    records: &Records,
    target: &Target,
    progress: OnProgress<'_>,
) -> Result<CloneReport> {
    whole(target, progress, |job| job.set(records, ""))
}

/// Copies aligned sets with all their fields.
///
/// # Errors
/// As [`clone_set`].
pub fn clone_aligned(
    sets: &Aligned,
    target: &Target,
    progress: OnProgress<'_>,
) -> Result<CloneReport> {
    let fields = aligned::folders(sets.fields().map(|(name, _)| name));
    whole(target, progress, |job| {
        for ((_, records), field) in sets.fields().zip(&fields) {
            job.set(records, &field.folder)?;
        }
        job.prefix.clear();
        job.put_bytes(ALIGNED, &aligned::encode(&fields)?)
    })
}

/// Checks the target, runs the copy, and on failure removes from a folder what was copied.
fn whole(
    target: &Target,
    progress: OnProgress<'_>,
    copy: impl FnOnce(&mut Job<'_>) -> Result<()>,
) -> Result<CloneReport> {
    let existed = match target {
        Target::Folder(device) => {
            check_free(device.as_ref())?;
            device.stat("")?.is_some()
        }
        Target::Objects(device) => {
            if Records::is_set(device)? || Aligned::is_aligned(device)? {
                return Err(Error::conflict("there is a set here already")
                    .with("uri", device.uri())
                    .hint("choose another destination, or remove this one first"));
            }
            true
        }
    };
    let mut job = Job {
        target,
        prefix: String::new(),
        report: CloneReport::default(),
        bytes_total: 0,
        progress,
        folders: BTreeSet::new(),
    };
    let result = copy(&mut job);
    if let (Err(_), Target::Folder(device)) = (&result, target) {
        let _ = remove_all(device.as_ref(), "", existed);
    }
    result?;
    Ok(job.report)
}

impl Job<'_> {
    /// Copies one set below `folder`.
    fn set(&mut self, records: &Records, folder: &str) -> Result<()> {
        self.prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        records.flush()?;
        let view = records.current()?;
        let source = records.device().as_ref();
        let head = &view.head;
        let path = names::manifest(head.manifest);
        let bytes = read_file(source, &path, BYTES_MAX)?;
        let mut manifest = Manifest::decode(&bytes)?;
        let rebased = self.rebase(source, &mut manifest, !folder.is_empty())?;
        let bytes = if rebased { manifest.encode()? } else { bytes };
        let files = files(head, &manifest);
        for part in &files {
            let size = source.stat(&part.path)?.map_or(0, |stat| stat.len);
            self.bytes_total = self.bytes_total.saturating_add(size.min(part.most));
        }
        self.start(folder)?;
        for part in &files {
            self.put_file(source, part)?;
        }
        self.put_bytes(&path, &bytes)?;
        self.put_bytes(names::META, &manifest.for_people(head)?)?;
        self.sync_folders()?;
        let mut slots = vec![0; head::FILE_BYTES];
        let at = usize::try_from(head.slot_offset()).unwrap_or(0);
        if let Some(slot) = slots.get_mut(at..at.saturating_add(head::SLOT_BYTES)) {
            slot.copy_from_slice(&head.encode());
        }
        self.put_bytes(names::HEAD, &slots)
    }

    /// Makes the folders of a set, and the file that its locks are on.
    fn start(&mut self, folder: &str) -> Result<()> {
        let Target::Folder(device) = self.target else {
            return Ok(());
        };
        device.create_dir(folder)?;
        for dir in names::DIRS {
            device.create_dir(&format!("{}{dir}", self.prefix))?;
        }
        device.open(&format!("{}{}", self.prefix, names::LOCK), Open::Create)?;
        self.folders.insert(folder.to_owned());
        if !folder.is_empty() {
            self.folders.insert(String::new());
        }
        Ok(())
    }

    fn sync_folders(&mut self) -> Result<()> {
        if let Target::Folder(device) = self.target {
            for folder in std::mem::take(&mut self.folders) {
                device.sync_dir(&folder)?;
            }
        }
        Ok(())
    }

    /// Makes the manifest's references to adopted files right for the target; true when one changed.
    fn rebase(&self, source: &dyn Device, manifest: &mut Manifest, field: bool) -> Result<bool> {
        let mut changed = false;
        for chunk in &mut manifest.sealed {
            let Some(external) = &mut chunk.external else {
                continue;
            };
            let Target::Folder(target) = self.target else {
                return Err(Error::unsupported(format!(
                    "the set refers to `{}`, which an object store cannot follow",
                    external.uri.escape_debug()
                ))
                .with("uri", source.uri())
                .hint("move adopted records in first: rebalance(external=\"copy\")"));
            };
            let rooted = rooted(source, &external.uri)?;
            let mut uri = refer(&home_of(target.as_ref())?, &rooted);
            if field && uri != rooted {
                uri.insert_str(0, "../");
            }
            changed |= uri != external.uri;
            external.uri = uri;
        }
        Ok(changed)
    }

    /// Copies the published part of a file.
    fn put_file(&mut self, source: &dyn Device, part: &Part) -> Result<()> {
        let path = part.path.as_str();
        let file = source.open(path, Open::Read)?;
        let size = file.len()?;
        if size < part.least {
            return Err(
                Error::corrupt("a file of the set is shorter than what was published")
                    .with("uri", source.uri())
                    .with("path", path)
                    .with("size", size)
                    .with("published", part.least),
            );
        }
        let len = size.min(part.most);
        let prefix = Prefix { file, len };
        let to = format!("{}{path}", self.prefix);
        match self.target {
            Target::Folder(device) => {
                let copy = device.open(&to, Open::Create)?;
                copy_bytes(&prefix, copy.as_ref())?;
                copy.sync()?;
                self.folders.insert(parent(&to).to_owned());
            }
            Target::Objects(device) => device.upload(&to, &prefix, &|_| ())?,
        }
        self.done(&to, len)
    }

    fn put_bytes(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let to = format!("{}{path}", self.prefix);
        match self.target {
            Target::Folder(device) => publish_file(device.as_ref(), &to, bytes)?,
            Target::Objects(device) => put_object(device, &to, bytes, path == names::HEAD)?,
        }
        self.done(&to, bytes.len() as u64)
    }

    /// Compares the size, and tells how far the copy is.
    fn done(&mut self, path: &str, len: u64) -> Result<()> {
        let device: &dyn Device = match self.target {
            Target::Folder(device) => device.as_ref(),
            Target::Objects(device) => device,
        };
        let there = device.stat(path)?.map(|stat| stat.len);
        if there != Some(len) {
            return Err(Error::unavailable(format!(
                "a copied file has {} bytes where {len} were written",
                there.map_or("no".into(), |len| len.to_string())
            ))
            .with("uri", device.uri())
            .with("path", path));
        }
        self.report.files += 1;
        self.report.bytes += len;
        (self.progress)(&Progress {
            records: 0,
            bytes: self.report.bytes,
            records_total: None,
            bytes_total: Some(self.bytes_total.max(self.report.bytes)),
        })
    }
}

/// Stores a small object. HEAD makes a set, so nobody may have been faster, where the store can tell.
fn put_object(device: &RemoteDevice, path: &str, bytes: &[u8], is_new: bool) -> Result<()> {
    let result = device.put(path, bytes.to_vec().into(), !is_new);
    match result {
        Err(e) if is_new && e.kind() == ErrorKind::Unsupported => {
            device.put(path, bytes.to_vec().into(), true)
        }
        result => result,
    }
}

/// A file to copy.
#[derive(Debug)]
struct Part {
    path: String,
    /// Bytes that are published: fewer are an error.
    least: u64,
    /// Bytes that are copied, if there are so many.
    most: u64,
}

/// Every file that a commit names but its manifest.
fn files(head: &Head, manifest: &Manifest) -> Vec<Part> {
    let part = |path: String, least: u64, most: u64| Part { path, least, most };
    let mut files = Vec::new();
    for chunk in &manifest.sealed {
        if chunk.external.is_none() {
            // A chunk of a repaired set has no footer.
            let most = chunk.bytes.saturating_add(ChunkFooter::BYTES as u64);
            files.push(part(names::chunk(chunk.id), chunk.bytes, most));
        }
    }
    for chunk in &head.open {
        files.push(part(names::chunk(chunk.id), chunk.end, chunk.end));
    }
    for segment in &manifest.segments {
        let first = segment.no.saturating_mul(SEGMENT_SLOTS);
        let slots = head.base_len.saturating_sub(first).min(SEGMENT_SLOTS);
        let len = slots.saturating_mul(Entry::BYTES as u64);
        files.push(part(names::segment(segment.no, segment.version), len, len));
        if segment.summed > 0 {
            let sums = names::sums(segment.no, segment.version, segment.summed);
            files.push(part(sums, 0, u64::MAX));
        }
    }
    for dictionary in &manifest.dictionaries {
        let bytes = dictionary.bytes;
        files.push(part(names::dictionary(dictionary.slot), bytes, bytes));
    }
    if head.log_end > 0 {
        files.push(part(names::log(head.log), head.log_end, head.log_end));
    }
    files
}

fn copy_bytes(from: &Prefix, to: &dyn File) -> Result<()> {
    let mut buffer = vec![0; BLOCK_BYTES.min(usize::try_from(from.len).unwrap_or(BLOCK_BYTES))];
    let mut at = 0;
    while at < from.len {
        let left = usize::try_from(from.len.saturating_sub(at)).unwrap_or(usize::MAX);
        let len = left.min(buffer.len());
        let block = buffer.get_mut(..len).unwrap_or_default();
        from.read_exact_at(block, at)?;
        to.write_at(block, at)?;
        at = at.saturating_add(len as u64);
    }
    Ok(())
}

impl File for Prefix {
    fn path(&self) -> &str {
        self.file.path()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        self.file
            .read_at(into.get_mut(..len).unwrap_or_default(), offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<()> {
        Err(read_only())
    }

    fn allocate(&self, _: u64, _: u64) -> Result<()> {
        Err(read_only())
    }

    fn set_len(&self, _: u64) -> Result<()> {
        Err(read_only())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn map(&self, _: usize) -> Result<Map> {
        Err(read_only())
    }

    fn map_into(&self, _: &Region, _: usize) -> Result<()> {
        Err(read_only())
    }

    fn try_lock(&self, _: u64, _: u64, _: LockKind) -> Result<bool> {
        Err(read_only())
    }

    fn unlock(&self, _: u64, _: u64) -> Result<()> {
        Err(read_only())
    }

    fn is_locked(&self, _: u64, _: u64, _: LockKind) -> Result<bool> {
        Err(read_only())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cold]
fn read_only() -> Error {
    Error::unsupported("the published part of a file can only be read")
}
