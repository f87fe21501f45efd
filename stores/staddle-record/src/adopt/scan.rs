//! What the parser found in one file, with everything the manifest will say about it.

use staddle_base::checksum::Xxh3;
use staddle_base::{Error, Result};

use super::kind::Kind;
use super::megatron::{Header, Megatron};
use super::samples::{Piece, Samples};
use super::source::{FileSource, Found};
use super::tar::Tar;
use super::tfrecord::TfRecord;
use super::{Adopter, Scanned, Source, Window};
use crate::manifest::External;
use crate::options::Dtype;

/// Bytes hashed at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// How a file is scanned.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Group the members of tar archives into samples.
    pub split: bool,
    /// Pass over links, devices and pipes in tar archives.
    pub skip_special: bool,
    /// Check payload checksums where the format has them.
    pub verify: bool,
    /// Hash the whole file.
    pub digest: bool,
}

/// The records of a file.
#[derive(Clone, Debug)]
pub enum Layout {
    /// One after the other.
    Plain(Vec<Option<(u64, u64)>>),
    /// Grouped into samples.
    Samples(Samples),
}

/// One file, scanned.
#[derive(Clone, Debug)]
pub struct FileScan {
    /// What the manifest will say; its URI is the rooted one.
    pub external: External,
    /// Where its records lie.
    pub layout: Layout,
    /// What the scan saw.
    pub scanned: Scanned,
    /// The type of its elements, where the format says it.
    pub dtype: Option<Dtype>,
}

impl FileScan {
    /// Records, or samples.
    pub fn len(&self) -> u64 {
        match &self.layout {
            Layout::Plain(pieces) => pieces.len() as u64,
            Layout::Samples(samples) => samples.len() as u64,
        }
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The file that holds the bytes, and for Megatron the index beside it.
///
/// # Errors
/// `NotFound` when the other half of a Megatron pair is missing.
pub fn data_file(found: &Found, kind: Kind) -> Result<(Found, Option<Found>)> {
    if kind != Kind::Megatron {
        return Ok((found.clone(), None));
    }
    let stem = found
        .name
        .strip_suffix(".idx")
        .or(found.name.strip_suffix(".bin"))
        .unwrap_or(&found.name);
    let half = |end: &str| {
        found.sibling(&format!("{stem}{end}"))?.ok_or_else(|| {
            Error::not_found(format!("`{stem}{end}` is missing beside `{}`", found.name))
                .with("file", &found.uri)
                .hint("a Megatron data set is a .bin and an .idx with the same name")
        })
    };
    Ok((half(".bin")?, Some(half(".idx")?)))
}

/// Scans one file.
///
/// # Errors
/// Those of the parser and the device, with the file's name; `Conflict` when the file changed meanwhile.
pub fn scan(found: &Found, kind: Kind, how: How) -> Result<FileScan> {
    let (data, index) = data_file(found, kind)?;
    let headers = index.as_ref().unwrap_or(&data);
    let inner = || {
        let source = headers.open()?;
        let mut window = Window::new(&source, headers.reach());
        let mut dtype = None;
        let adopter: Box<dyn Adopter> = match kind {
            Kind::Tar => Box::new(Tar {
                skip_special: how.skip_special,
            }),
            Kind::TfRecord => Box::new(TfRecord { verify: how.verify }),
            Kind::Megatron => {
                dtype = Some(Header::read(&mut window)?.dtype);
                Box::new(Megatron {
                    bin_bytes: data.stat.len,
                })
            }
        };
        let (layout, scanned) = if how.split && kind == Kind::Tar {
            let mut samples = Samples::default();
            let mut scanned = adopter.scan(&mut window, &mut |item| samples.add(&item))?;
            scanned.skipped = scanned.skipped.saturating_add(samples.skipped());
            (Layout::Samples(samples), scanned)
        } else {
            let mut pieces = Vec::new();
            let scanned = adopter.scan(&mut window, &mut |item| {
                pieces.push(Some((item.offset, item.len)));
                Ok(())
            })?;
            (Layout::Plain(pieces), scanned)
        };
        let xxh3 = if how.digest {
            Some(format!("{:016x}", digest(&data.open()?)?))
        } else {
            None
        };
        headers.check_unchanged()?;
        data.check_unchanged()?;
        let external = External {
            uri: data.uri.clone(),
            kind: kind.name().to_owned(),
            size: data.stat.len,
            mtime_ns: data.stat.mtime_ns,
            etag: data.stat.etag.clone(),
            xxh3,
        };
        Ok(FileScan {
            external,
            layout,
            scanned,
            dtype,
        })
    };
    inner().map_err(|e: Error| e.with("file", &headers.uri))
}

/// XXH3 of a whole file.
///
/// # Errors
/// Those of the device.
pub fn digest(source: &FileSource) -> Result<u64> {
    let mut hash = Xxh3::default();
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut at = 0;
    while at < source.size() {
        let left = usize::try_from(source.size().saturating_sub(at)).unwrap_or(BLOCK_BYTES);
        let len = left.min(BLOCK_BYTES);
        let block = buffer.get_mut(..len).unwrap_or_default();
        source.read(block, at)?;
        hash.update(block);
        at = at.saturating_add(len as u64);
    }
    Ok(hash.finish())
}

/// A column of samples as the writer wants it.
pub fn pieces(column: &[Option<Piece>]) -> Vec<Option<(u64, u64)>> {
    column
        .iter()
        .map(|piece| piece.map(|piece| (piece.offset, piece.len)))
        .collect()
}
