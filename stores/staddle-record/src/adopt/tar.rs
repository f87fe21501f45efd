//! Tar: 512-byte headers, payloads padded to 512, two zero blocks at the end.
//!
//! Understood: v7, ustar (with prefix), GNU long names (`L`), pax (`x`: path and size). Directories are passed over.
//! Refused, because their bytes are not in place: compressed archives, sparse members, multi-volume archives; and links,
//! devices and pipes, unless the user asks to skip them.

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use staddle_base::{Error, Result};

use super::{Adopter, Item, Scanned, Window, compressed, compression, shown};

pub mod header;
pub mod pax;

use header::{BLOCK_BYTES, Header};

/// The largest name or pax header that is read.
const META_BYTES_MAX: u64 = 1 << 20;

/// The tar parser.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tar {
    /// Pass over links, devices and pipes, and count them, rather than refuse the archive.
    pub skip_special: bool,
}

/// What the headers before a member say about it.
#[derive(Default)]
struct Pending {
    long_name: Option<Vec<u8>>,
    pax: pax::Fields,
    any: bool,
}

impl Adopter for Tar {
    fn kind(&self) -> &'static str {
        "tar"
    }

    fn scan(
        &self,
        file: &mut Window<'_>,
        found: &mut dyn FnMut(Item<'_>) -> Result<()>,
    ) -> Result<Scanned> {
        let mut scanned = Scanned::default();
        let mut pending = Pending::default();
        let mut at = 0;
        loop {
            let Some(header) = next_header(file, at)? else {
                if pending.any {
                    return Err(
                        Error::corrupt("the archive ends where a member should begin")
                            .with("offset", at),
                    );
                }
                scanned.unterminated = at >= file.size();
                nothing_follows(file, at)?;
                return Ok(scanned);
            };
            at = self
                .member(file, at, &header, &mut pending, &mut scanned, found)
                .map_err(|e| e.with("offset", at).with("member", shown(&header.name)))?;
        }
    }
}

impl Tar {
    /// Handles the header at `at` and returns where the next one begins.
    fn member(
        &self,
        file: &mut Window<'_>,
        at: u64,
        header: &Header,
        pending: &mut Pending,
        scanned: &mut Scanned,
        found: &mut dyn FnMut(Item<'_>) -> Result<()>,
    ) -> Result<u64> {
        let body = file.inside(at, BLOCK_BYTES as u64)?;
        match header.kind {
            b'L' => {
                let name = metadata(file, body, header.size)?;
                pending.long_name = Some(header::until_nul(name).to_vec());
                pending.any = true;
                after(file, body, header.size)
            }
            b'K' => {
                pending.any = true;
                after(file, body, header.size)
            }
            b'x' | b'X' => {
                pending.pax.read(metadata(file, body, header.size)?)?;
                pending.any = true;
                after(file, body, header.size)
            }
            b'g' => {
                let mut global = pax::Fields::default();
                global.read(metadata(file, body, header.size)?)?;
                if global.path.is_some() || global.size.is_some() {
                    return Err(Error::unsupported(
                        "a global pax header gives every member the same path or size",
                    ));
                }
                after(file, body, header.size)
            }
            b'S' => Err(sparse()),
            b'M' => Err(Error::unsupported(
                "the archive has several volumes: its members have no bytes in one place",
            )),
            b'V' => Ok(body),
            _ => {
                let pending = std::mem::take(pending);
                let name = pending.name(header);
                match header.kind {
                    b'5' | b'D' => {
                        let dumped = if header.kind == b'D' { header.size } else { 0 };
                        after(file, body, dumped)
                    }
                    b'0' | 0 if name.ends_with(b"/") => Ok(body),
                    b'0' | 0 | b'7' => {
                        let size = pending.pax.size.unwrap_or(header.size);
                        let next = after(file, body, size)?;
                        found(Item {
                            name: &name,
                            offset: body,
                            len: size,
                        })?;
                        scanned.items = scanned.items.saturating_add(1);
                        Ok(next)
                    }
                    b'1'..=b'6' => {
                        self.special(header.kind, &name, scanned)?;
                        Ok(body)
                    }
                    kind => Err(Error::unsupported(format!(
                        "members of type `{}` are not known",
                        char::from(kind).escape_debug()
                    ))),
                }
            }
        }
    }

    fn special(&self, kind: u8, name: &[u8], scanned: &mut Scanned) -> Result<()> {
        if !self.skip_special {
            let what = match kind {
                b'1' => "a hard link",
                b'2' => "a symbolic link",
                b'6' => "a pipe",
                _ => "a device",
            };
            return Err(Error::unsupported(format!(
                "`{}` is {what}: it has no bytes in the archive",
                shown(name)
            ))
            .hint("skip links and devices (skip_special), or write the archive without them"));
        }
        scanned.skipped = scanned.skipped.saturating_add(1);
        scanned.first_skipped.get_or_insert_with(|| shown(name));
        Ok(())
    }
}

impl Pending {
    fn name(&self, header: &Header) -> Vec<u8> {
        self.pax
            .path
            .as_ref()
            .or(self.long_name.as_ref())
            .unwrap_or(&header.name)
            .clone()
    }
}

/// The error for sparse members, however they are spelled.
#[cold]
fn sparse() -> Error {
    Error::unsupported("sparse members have no contiguous bytes")
        .hint("write the archive without --sparse, or import it instead")
}

/// The header at `at`; `None` at the end marker or at the end of the file.
fn next_header(file: &mut Window<'_>, at: u64) -> Result<Option<Header>> {
    if at == file.size() && at > 0 {
        return Ok(None);
    }
    let block = file.up_to(at, BLOCK_BYTES)?;
    if at == 0
        && let Some(codec) = compression(block)
        && !block.first_chunk().is_some_and(header::checksum_is_right)
    {
        return Err(compressed("tar", codec));
    }
    let Some(block) = block.first_chunk::<BLOCK_BYTES>() else {
        if at > 0 && block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        return Err(Error::corrupt(format!(
            "a tar header has {BLOCK_BYTES} bytes, but only {} are left",
            block.len()
        ))
        .with("offset", at)
        .hint("the archive is cut short, or this is not a tar file"));
    };
    Header::parse(block).map_err(|e| e.with("offset", at))
}

/// A name or pax header, bounded.
fn metadata<'a>(file: &'a mut Window<'_>, at: u64, size: u64) -> Result<&'a [u8]> {
    let len = usize::try_from(size)
        .ok()
        .filter(|_| size <= META_BYTES_MAX)
        .ok_or_else(|| {
            Error::exhausted(format!(
                "a long name or pax header has {size} bytes, more than the limit of {META_BYTES_MAX}"
            ))
        })?;
    file.get(at, len)
}

/// Where the header after a payload begins. The padding of the last member may be missing.
fn after(file: &Window<'_>, at: u64, size: u64) -> Result<u64> {
    let end = file.inside(at, size)?;
    Ok(end
        .checked_next_multiple_of(BLOCK_BYTES as u64)
        .unwrap_or(u64::MAX)
        .min(file.size()))
}

/// Refuses archives that were concatenated: other readers would silently see only the first, and so would we.
fn nothing_follows(file: &mut Window<'_>, end: u64) -> Result<()> {
    let mut at = end;
    while at < file.size() {
        let block = file.up_to(at, BLOCK_BYTES)?;
        if block.iter().any(|byte| *byte != 0) {
            if block.first_chunk().is_some_and(header::checksum_is_right) {
                return Err(Error::unsupported("another archive follows the end marker")
                    .with("offset", at)
                    .hint("split concatenated archives, or join them with `tar --concatenate`"));
            }
            return Ok(());
        }
        at = at.saturating_add(BLOCK_BYTES as u64);
    }
    Ok(())
}
