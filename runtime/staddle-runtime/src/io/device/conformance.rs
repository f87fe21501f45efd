//! What every device promises, as checks that any implementation can run.
//!
//! [`check`] works in an empty device and leaves it empty. It returns the first promise that is broken, so a test says
//! `conformance::check(&device).unwrap()`. Devices that cannot write, map or lock are asked only for what they can do,
//! and must refuse the rest as `Unsupported`.

use std::sync::Arc;

use staddle_base::{Error, ErrorKind, Result};

use super::{Device, File, LockKind, Open, Range, Region, publish_file, read_file};

macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(Error::internal(format!($($words)+)).with("line", line!()));
        }
    };
}

/// Fails unless `result` is an error of `kind`.
fn refuses<T>(what: &str, result: Result<T>, kind: ErrorKind) -> Result<()> {
    match result {
        Ok(_) => Err(Error::internal(format!(
            "{what}: succeeded, expected {kind:?}"
        ))),
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(Error::internal(format!(
            "{what}: expected {kind:?}, got {error:?}"
        ))),
    }
}

/// Runs every check on an empty writable device.
///
/// # Errors
/// `Internal` for the first broken promise; other kinds when a call fails that must not.
pub fn check(device: &dyn Device) -> Result<()> {
    device.create_dir("")?;
    ensure!(device.list("")?.is_empty(), "the device is not empty");
    names(device)?;
    paths(device)?;
    bytes(device)?;
    ranges(device)?;
    publishing(device)?;
    copies(device)?;
    maps(device)?;
    locks(device)?;
    ensure!(device.list("")?.is_empty(), "the checks left files behind");
    Ok(())
}

/// Creating, listing, renaming and removing.
fn names(device: &dyn Device) -> Result<()> {
    ensure!(device.stat("a")?.is_none(), "nothing is called a");
    refuses(
        "open of nothing",
        device.open("a", Open::Read),
        ErrorKind::NotFound,
    )?;
    refuses(
        "open of nothing",
        device.open("a", Open::Write),
        ErrorKind::NotFound,
    )?;
    let a = device.open("a", Open::Create)?;
    refuses(
        "create of a file that exists",
        device.open("a", Open::Create),
        ErrorKind::Conflict,
    )?;
    a.write_at(b"one", 0)?;
    let stat = device.stat("a")?.unwrap_or_default();
    ensure!(stat.len == 3 && !stat.dir, "stat of a file: {stat:?}");

    refuses(
        "create in no folder",
        device.open("d/x", Open::Create),
        ErrorKind::NotFound,
    )?;
    refuses("list of no folder", device.list("d"), ErrorKind::NotFound)?;
    refuses("list of a file", device.list("a"), ErrorKind::NotFound)?;
    device.create_dir("d/e")?;
    device.create_dir("d/e")?;
    refuses(
        "folder over a file",
        device.create_dir("a"),
        ErrorKind::Conflict,
    )?;
    refuses(
        "open of a folder",
        device.open("d", Open::Read),
        ErrorKind::Denied,
    )?;
    ensure!(
        device.stat("d/e")?.is_some_and(|stat| stat.dir),
        "d/e is a folder"
    );
    ensure!(
        device.stat("")?.is_some_and(|stat| stat.dir),
        "the root is a folder"
    );
    ensure!(device.stat("a/b")?.is_none(), "nothing is under a file");

    let x = device.open("d/x", Open::Create)?;
    x.write_at(b"new", 0)?;
    ensure!(device.list("")? == ["a", "d"], "{:?}", device.list("")?);
    ensure!(device.list("d")? == ["e", "x"], "{:?}", device.list("d")?);
    refuses(
        "removal of a full folder",
        device.remove_dir("d"),
        ErrorKind::Conflict,
    )?;

    device.rename("d/x", "a")?;
    device.sync_dir("")?;
    device.sync_dir("d")?;
    ensure!(device.list("d")? == ["e"], "the renamed file is gone");
    ensure!(
        read_file(device, "a", 10)? == b"new",
        "rename replaces the target"
    );
    let mut old = [0; 3];
    a.read_exact_at(&mut old, 0)?;
    ensure!(
        &old == b"one",
        "a replaced file stays readable through its handle"
    );
    refuses(
        "rename of nothing",
        device.rename("d/x", "a"),
        ErrorKind::NotFound,
    )?;
    refuses(
        "rename into no folder",
        device.rename("a", "no/a"),
        ErrorKind::NotFound,
    )?;
    refuses(
        "sync of no folder",
        device.sync_dir("no"),
        ErrorKind::NotFound,
    )?;

    device.remove("a")?;
    device.remove("a")?;
    device.remove("no/such")?;
    x.read_exact_at(&mut old, 0)?;
    ensure!(
        &old == b"new",
        "a removed file stays readable through its handle"
    );
    device.remove_dir("d/e")?;
    device.remove_dir("d")?;
    device.remove_dir("d")?;
    Ok(())
}

/// No name leads out of the device.
fn paths(device: &dyn Device) -> Result<()> {
    for path in [
        "..",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a//b",
        "./a",
        "a/.",
        "a/",
        "nul\0",
    ] {
        refuses(path, device.open(path, Open::Read), ErrorKind::Denied)?;
        refuses(path, device.open(path, Open::Create), ErrorKind::Denied)?;
        refuses(path, device.stat(path), ErrorKind::Denied)?;
        refuses(path, device.list(path), ErrorKind::Denied)?;
        refuses(path, device.create_dir(path), ErrorKind::Denied)?;
        refuses(path, device.remove(path), ErrorKind::Denied)?;
        refuses(path, device.remove_dir(path), ErrorKind::Denied)?;
        refuses(path, device.sync_dir(path), ErrorKind::Denied)?;
        refuses(path, device.rename(path, "b"), ErrorKind::Denied)?;
        refuses(path, device.rename("b", path), ErrorKind::Denied)?;
        refuses(path, device.copy(path, "b"), ErrorKind::Denied)?;
    }
    Ok(())
}

/// Reading, writing, growing and cutting.
fn bytes(device: &dyn Device) -> Result<()> {
    let file = device.open("f", Open::Create)?;
    ensure!(file.is_empty()?, "a new file is empty");
    let mut buffer = [9; 8];
    ensure!(
        file.read_at(&mut buffer, 0)? == 0,
        "an empty file has no bytes"
    );
    ensure!(
        file.read_at(&mut [], 5)? == 0,
        "an empty read is fine anywhere"
    );
    file.write_at(b"", 100)?;
    ensure!(file.is_empty()?, "an empty write does not grow a file");
    file.write_at(b"hello", 3)?;
    ensure!(file.len()? == 8, "a write past the end grows the file");
    ensure!(file.read_at(&mut buffer, 0)? == 8, "all bytes are there");
    ensure!(&buffer == b"\0\0\0hello", "the gap is zeros: {buffer:?}");
    file.write_at(b"HE", 3)?;
    ensure!(file.read_at(&mut buffer, 4)? == 4, "fewer bytes at the end");
    ensure!(buffer.starts_with(b"Ello"), "a write replaces: {buffer:?}");
    ensure!(file.read_at(&mut buffer, 8)? == 0, "no bytes at the end");
    ensure!(
        file.read_at(&mut buffer, 1 << 40)? == 0,
        "no bytes far past the end"
    );

    let error = file.read_exact_at(&mut buffer, 4).err();
    let error = error.ok_or_else(|| Error::internal("an exact read past the end succeeded"))?;
    ensure!(
        error.kind() == ErrorKind::Corrupt && error.get("size") == Some("8"),
        "a short file is Corrupt with its size: {error:?}"
    );

    file.allocate(0, 1 << 20)?;
    ensure!(file.len()? == 8, "reserving space keeps the length");
    file.set_len(5)?;
    ensure!(file.len()? == 5, "cut");
    file.set_len(7)?;
    ensure!(file.read_at(&mut buffer, 0)? == 7, "extended");
    ensure!(
        buffer.starts_with(b"\0\0\0HE\0\0"),
        "what was cut reads as zeros: {buffer:?}"
    );
    file.sync()?;

    let again = device.open("f", Open::Read)?;
    ensure!(again.len()? == 7, "a second handle sees the length");
    ensure!(
        again.write_at(b"x", 0).is_err(),
        "a handle for reading cannot write"
    );
    ensure!(again.set_len(0).is_err(), "a handle for reading cannot cut");
    let third = device.open("f", Open::Write)?;
    third.write_at(b"!", 6)?;
    ensure!(
        again.read_at(&mut buffer, 0)? == 7 && buffer.get(6) == Some(&b'!'),
        "writes show at once"
    );
    device.remove("f")
}

/// Many ranges at once.
fn ranges(device: &dyn Device) -> Result<()> {
    let file = device.open("r", Open::Create)?;
    let data: Vec<u8> = (0..=255u8).cycle().take(100_000).collect();
    file.write_at(&data, 0)?;
    let offsets = [0u64, 99_990, 4_096, 4_097, 50_000];
    let mut buffers = vec![vec![0; 10]; offsets.len()];
    let mut ranges: Vec<Range<'_>> = offsets
        .iter()
        .zip(&mut buffers)
        .map(|(offset, into)| Range {
            offset: *offset,
            into,
        })
        .collect();
    file.read_ranges(&mut ranges)?;
    for (offset, buffer) in offsets.iter().zip(&buffers) {
        let at = usize::try_from(*offset).unwrap_or(0);
        ensure!(data.get(at..at + 10) == Some(buffer), "range at {offset}");
    }
    let mut beyond = [0; 11];
    let short = Range {
        offset: 99_990,
        into: &mut beyond,
    };
    refuses(
        "a range past the end",
        file.read_ranges(&mut [short]),
        ErrorKind::Corrupt,
    )?;
    device.remove("r")
}

/// The one way a small file is published.
fn publishing(device: &dyn Device) -> Result<()> {
    publish_file(device, "p", b"first")?;
    publish_file(device, "p", b"second")?;
    ensure!(read_file(device, "p", 6)? == b"second", "published twice");
    ensure!(device.list("")? == ["p"], "no temporary file is left");
    refuses(
        "a file over the limit",
        read_file(device, "p", 5),
        ErrorKind::Exhausted,
    )?;
    refuses(
        "publishing into no folder",
        publish_file(device, "no/p", b""),
        ErrorKind::NotFound,
    )?;
    device.remove("p")
}

/// Copies are independent of what they copy.
fn copies(device: &dyn Device) -> Result<()> {
    let data = vec![7; 3_000_001];
    let from = device.open("from", Open::Create)?;
    device.copy("from", "none")?;
    ensure!(
        device.open("none", Open::Read)?.is_empty()?,
        "copy of an empty file"
    );
    from.write_at(&data, 0)?;
    device.copy("from", "to")?;
    refuses(
        "copy over a file",
        device.copy("from", "to"),
        ErrorKind::Conflict,
    )?;
    refuses(
        "copy of nothing",
        device.copy("no", "new"),
        ErrorKind::NotFound,
    )?;
    ensure!(
        device.stat("new")?.is_none(),
        "a failed copy leaves nothing"
    );
    from.write_at(&[8; 100], 0)?;
    ensure!(
        read_file(device, "to", 4 << 20)? == data,
        "the copy has the old bytes"
    );
    ["from", "to", "none"]
        .iter()
        .try_for_each(|path| device.remove(path))
}

/// Maps show the file and its growth, or are refused.
fn maps(device: &dyn Device) -> Result<()> {
    let page = crate::kernel::page_bytes();
    let file = device.open("m", Open::Create)?;
    let region = Region::reserve(8 * page)?;
    if !device.capabilities().map {
        refuses("a map", file.map(10), ErrorKind::Unsupported)?;
        refuses(
            "a map",
            file.map_into(&region, page),
            ErrorKind::Unsupported,
        )?;
        return device.remove("m");
    }
    let map = file.map(4 * page)?;
    ensure!(
        map.len() == 4 * page && file.map(0)?.is_empty(),
        "lengths of maps"
    );
    file.write_at(b"abc", 0)?;
    ensure!(
        map.bytes(0, 3) == Some(b"abc"),
        "growth shows through a map"
    );
    file.write_at(b"xyz", page as u64)?;
    ensure!(
        map.bytes(page as u64, 3) == Some(b"xyz"),
        "growth by a page shows too"
    );
    for (offset, len) in [
        (4 * page as u64, 1),
        (0, 4 * page + 1),
        (u64::MAX, 1),
        (1, usize::MAX),
    ] {
        ensure!(
            map.bytes(offset, len).is_none(),
            "{len} bytes at {offset} are outside"
        );
    }
    ensure!(
        map.bytes(4 * page as u64, 0) == Some(b""),
        "the empty end is inside"
    );
    map.advise_willneed(1, page);
    map.advise_willneed(0, usize::MAX);

    ensure!(
        region.mapped() == 0 && region.bytes(0, 1).is_none(),
        "nothing is mapped yet"
    );
    file.map_into(&region, 2 * page)?;
    let first = region.bytes(0, 3);
    ensure!(first == Some(b"abc"), "the first segment");
    file.map_into(&region, 2 * page)?;
    ensure!(
        region.bytes(2 * page, 3) == Some(b"abc"),
        "segments lie back to back"
    );
    ensure!(
        region
            .bytes(page, page + 3)
            .is_some_and(|b| b.starts_with(b"xyz") && b.ends_with(b"abc")),
        "a slice may cross segments"
    );
    ensure!(region.bytes(0, 3) == first, "growth moves nothing");
    ensure!(region.bytes(4 * page, 1).is_none(), "beyond what is mapped");
    refuses(
        "a full region",
        file.map_into(&region, 5 * page),
        ErrorKind::Exhausted,
    )?;
    refuses(
        "half a page",
        file.map_into(&region, page / 2),
        ErrorKind::Invalid,
    )?;
    refuses("nothing", file.map_into(&region, 0), ErrorKind::Invalid)?;
    ensure!(region.mapped() == 4 * page, "a refused map changes nothing");

    device.remove("m")?;
    ensure!(
        map.bytes(0, 3) == Some(b"abc"),
        "a map outlives its file's name"
    );
    drop(file);
    ensure!(
        region.bytes(0, 3) == Some(b"abc"),
        "a map outlives its file's handle"
    );
    Ok(())
}

/// Byte-range locks between open files, or their refusal.
fn locks(device: &dyn Device) -> Result<()> {
    use LockKind::{Exclusive, Shared};
    let a = device.open("l", Open::Create)?;
    if !device.capabilities().lock {
        refuses(
            "a lock",
            a.try_lock(0, 1, Exclusive),
            ErrorKind::Unsupported,
        )?;
        return device.remove("l");
    }
    let open = || -> Result<Arc<dyn File>> { device.open("l", Open::Write) };
    let (b, c) = (open()?, open()?);
    ensure!(a.try_lock(0, 10, Exclusive)?, "a free range");
    ensure!(a.try_lock(0, 10, Exclusive)?, "the same handle again");
    ensure!(!b.try_lock(9, 2, Shared)?, "an exclusive lock excludes");
    ensure!(b.try_lock(10, 2, Exclusive)?, "the bytes behind are free");
    ensure!(
        !a.is_locked(0, 10, Exclusive)?,
        "one's own lock does not count"
    );
    ensure!(b.is_locked(0, 1, Shared)?, "another's does");
    ensure!(
        a.try_lock(0, 10, Shared)?,
        "an exclusive lock can become shared"
    );
    ensure!(b.try_lock(0, 10, Shared)?, "shared locks share");
    ensure!(
        !c.try_lock(5, 1, Exclusive)?,
        "but exclude an exclusive one"
    );
    ensure!(
        !c.is_locked(5, 1, Shared)?,
        "nor stand in the way of a shared one"
    );
    a.unlock(0, 10)?;
    ensure!(!c.try_lock(5, 1, Exclusive)?, "the second holder remains");
    b.unlock(4, 3)?;
    ensure!(c.try_lock(5, 1, Exclusive)?, "a part can be unlocked");
    ensure!(!c.try_lock(7, 1, Exclusive)?, "the rest stays locked");
    drop(b);
    ensure!(
        c.try_lock(7, 1, Exclusive)?,
        "closing a file ends its locks"
    );
    drop((a, c));
    device.remove("l")
}
