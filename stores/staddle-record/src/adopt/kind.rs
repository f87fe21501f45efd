//! Which format a foreign file has: by what the user says, else by its first bytes, else by its name.

use staddle_base::checksum::crc32c_masked;
use staddle_base::{Error, Result, suggest};

use super::source::Found;
use super::tar::header;
use super::{Window, compressed, compression, megatron, tfrecord};

/// A format that can be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tar archives; WebDataset shards are tar archives.
    Tar,
    /// TFRecord files.
    TfRecord,
    /// Megatron's `.bin` with its `.idx`.
    Megatron,
}

impl Kind {
    const NAMES: [(&'static str, Self); 3] = [
        ("tar", Self::Tar),
        ("tfrecord", Self::TfRecord),
        ("megatron", Self::Megatron),
    ];

    /// From a name.
    ///
    /// # Errors
    /// `Invalid` with the nearest known name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "webdataset" => Ok(Self::Tar),
            "tfrecords" => Ok(Self::TfRecord),
            _ => Self::NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, kind)| *kind)
                .ok_or_else(|| {
                    Error::invalid(format!("unknown format `{}`", name.escape_debug())).hint(
                        suggest::hint(name, &["tar", "webdataset", "tfrecord", "megatron"]),
                    )
                }),
        }
    }

    /// The name in manifests.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }

    /// The format of a file.
    ///
    /// # Errors
    /// `Unsupported` for a compressed file or one of no known format; those of the device.
    pub fn of(found: &Found) -> Result<Self> {
        let name = found.name.to_ascii_lowercase();
        let stem = found.name.strip_suffix(".bin");
        if let Some(stem) = stem
            && found.sibling(&format!("{stem}.idx"))?.is_some()
        {
            return Ok(Self::Megatron);
        }
        if found.stat.len == 0 && name.contains(".tfrec") {
            return Ok(Self::TfRecord);
        }
        let source = found.open()?;
        let mut window = Window::new(&source, found.reach());
        let head = window.up_to(0, header::BLOCK_BYTES)?;
        if head.starts_with(megatron::MAGIC) {
            return Ok(Self::Megatron);
        }
        if head.first_chunk().is_some_and(header::checksum_is_right) {
            return Ok(Self::Tar);
        }
        if let Some((length, crc)) = head
            .first_chunk::<{ tfrecord::HEADER_BYTES }>()
            .and_then(|head| head.split_first_chunk::<8>())
            && crc32c_masked(length).to_le_bytes() == crc
        {
            return Ok(Self::TfRecord);
        }
        if let Some(codec) = compression(head) {
            return Err(compressed("foreign", codec));
        }
        let by_name = if name.ends_with(".tar") {
            Some(Self::Tar)
        } else if name.contains(".tfrec") {
            Some(Self::TfRecord)
        } else {
            None
        };
        by_name.ok_or_else(|| {
            Error::unsupported("this is no tar, TFRecord or Megatron file").hint(
                "only these can be adopted in place; `staddle import` copies from more formats",
            )
        })
    }
}
