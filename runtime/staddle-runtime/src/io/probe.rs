//! How deep a queue a local device wants: measured, not guessed from flags that virtual disks set wrongly.
//!
//! A probe writes a scratch file in the folder it is asked about, reads random 4 KiB pages of it that are not cached at
//! depths 1, 4, 16 and 64, each for a quarter of the time, and picks the smallest depth within 5 % of the best rate. It
//! runs when a user asks (`staddle doctor --io DIR`); what it found is kept under the user's cache folder by device, and
//! engines start with the depth of the deepest device known there. Nothing depends on that file: a missing or damaged one
//! is as good as none.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use staddle_base::hash::Permutation;
use staddle_base::{Clock, Error, Result, Seed};

use super::device::{Device, File, LocalDevice, Open, publish_file, read_file};
use super::engine::{Engine, Job, Part, PreadEngine, UringEngine};

/// Depths that are tried.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];
/// How long a probe reads in all.
const READING: Duration = Duration::from_millis(100);
/// The scratch file, bytes: more pages than any depth can read in its share of the time on today's devices.
const SCRATCH_BYTES: usize = 64 << 20;
const READ_BYTES: usize = 4096;
/// A rate this close to the best is good enough.
const NEAR: f64 = 0.95;
/// The largest probe file that is read back, bytes.
const SAVED_BYTES_MAX: usize = 1 << 20;

/// What a probe found out about a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The device's number, as `stat` gives it.
    pub device: u64,
    /// The engine that was measured.
    pub engine: String,
    /// Random 4 KiB reads per second at each depth.
    pub reads_per_second: BTreeMap<u32, f64>,
    /// The smallest depth near the best rate.
    pub depth: u32,
    /// Time of one read at depth 1, microseconds.
    pub latency_us: f64,
    /// Set where the file system kept the pages in memory, so that no device was measured.
    pub cached: bool,
}

/// Probes the device that holds `folder`.
///
/// # Errors
/// What writing and reading a scratch file there gives.
pub fn run(folder: &Path, clock: &dyn Clock, seed: Seed, uring: bool) -> Result<Probe> {
    run_on(SCRATCH_BYTES, folder, clock, seed, uring)
}

fn run_on(
    scratch_bytes: usize,
    folder: &Path,
    clock: &dyn Clock,
    seed: Seed,
    uring: bool,
) -> Result<Probe> {
    let device = LocalDevice::new(folder)?;
    let name = format!(
        ".staddle-probe-{}-{:016x}",
        std::process::id(),
        seed.stream("probe").next_u64()
    );
    let file = device.open(&name, Open::Create)?;
    // The name goes at once, so that a killed probe leaves nothing behind.
    let removed = device.remove(&name);
    let number = device_number(&*file)?;
    let result = measure(&*file, scratch_bytes, clock, seed, uring);
    removed?;
    let (engine, rates, cached) = result?;
    let best = rates.values().fold(0.0, |best: f64, rate| best.max(*rate));
    let near = rates.iter().find(|(_, rate)| **rate >= best * NEAR);
    Ok(Probe {
        device: number,
        engine,
        depth: near.map_or(1, |(depth, _)| *depth),
        latency_us: rates
            .get(&1)
            .map_or(0.0, |rate| 1e6 / rate.max(f64::MIN_POSITIVE)),
        reads_per_second: rates,
        cached,
    })
}

fn measure(
    file: &dyn File,
    scratch_bytes: usize,
    clock: &dyn Clock,
    seed: Seed,
    uring: bool,
) -> Result<(String, BTreeMap<u32, f64>, bool)> {
    // Random bytes, no two pages equal: some devices compress or deduplicate.
    let mut chunk = vec![0; 1 << 20];
    seed.stream("probe bytes").fill(&mut chunk);
    for at in (0..scratch_bytes).step_by(chunk.len()) {
        for (page, bytes) in (at as u64..)
            .step_by(READ_BYTES)
            .zip(chunk.chunks_mut(READ_BYTES))
        {
            if let Some(first) = bytes.first_chunk_mut() {
                *first = page.to_le_bytes();
            }
        }
        file.write_at(&chunk, at as u64)?;
    }
    file.sync()?;
    advise(file, libc::POSIX_FADV_DONTNEED);
    advise(file, libc::POSIX_FADV_RANDOM);
    let cached =
        super::residency::residency(file, 0, scratch_bytes as u64).is_some_and(|part| part > 0.5);

    let pages = (scratch_bytes / READ_BYTES) as u64;
    let order = Permutation::new(pages, seed.stream("probe order").next_u64());
    let share = pages / DEPTHS.len() as u64;
    let time_ns = u64::try_from(READING.as_nanos()).unwrap_or(u64::MAX) / DEPTHS.len() as u64;
    let mut rates = BTreeMap::new();
    let mut engine_name = "pread";
    for (turn, depth) in (0u64..).zip(DEPTHS) {
        let pread = Arc::new(PreadEngine::new(usize::try_from(depth).unwrap_or(1)));
        let ring = if uring {
            UringEngine::new(depth, Arc::clone(&pread)).ok()
        } else {
            None
        };
        let engine: &dyn Engine = match &ring {
            Some(ring) => ring,
            None => &*pread,
        };
        engine_name = engine.name();
        let mut buffers = vec![[0u8; READ_BYTES]; usize::try_from(depth).unwrap_or(1)];
        // Each depth has pages of its own, so that none finds what another brought into the cache.
        let mut next = turn * share;
        let end = next + share;
        let start = clock.steady_ns();
        let mut reads = 0u64;
        while next < end && clock.steady_ns().saturating_sub(start) < time_ns {
            let batch = u64::from(depth).min(end - next);
            read_pages(
                engine,
                file,
                (next..next + batch).map(|page| order.at(page)),
                &mut buffers,
            )?;
            next += batch;
            reads += batch;
        }
        let seconds = clock.steady_ns().saturating_sub(start).max(1) as f64 / 1e9;
        rates.insert(depth, reads as f64 / seconds);
    }
    Ok((engine_name.to_owned(), rates, cached))
}

fn read_pages(
    engine: &dyn Engine,
    file: &dyn File,
    pages: impl Iterator<Item = u64>,
    buffers: &mut [[u8; READ_BYTES]],
) -> Result<()> {
    let fd = file
        .fd()
        .ok_or_else(|| Error::unsupported("only local files can be probed"))?;
    let mut jobs: Vec<Job<'_>> = pages
        .zip(buffers)
        .map(|(page, buffer)| Job {
            fd,
            path: file.path(),
            offset: page * READ_BYTES as u64,
            parts: vec![Part::Into(buffer)],
        })
        .collect();
    engine.read(&mut jobs)
}

fn advise(file: &dyn File, advice: libc::c_int) {
    if let Some(fd) = file.fd() {
        // SAFETY: the descriptor is open; advice changes no contents.
        unsafe { libc::posix_fadvise(fd.as_raw_fd(), 0, 0, advice) };
    }
}

fn device_number(file: &dyn File) -> Result<u64> {
    let fd = file
        .fd()
        .ok_or_else(|| Error::unsupported("only local files can be probed"))?;
    let stat =
        rustix::fs::fstat(fd).map_err(|e| Error::io("looking at a file", file.path(), e.into()))?;
    Ok(stat.st_dev)
}

/// Where probes are kept: `$XDG_CACHE_HOME/staddle`, else `~/.cache/staddle`.
pub fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("staddle"))
}

const FILE: &str = "probe.json";

/// The probes kept in `folder`; none when the file is missing or damaged.
pub fn saved(folder: &Path) -> Vec<Probe> {
    let read = || {
        let device = LocalDevice::new(folder).ok()?;
        let bytes = read_file(&device, FILE, SAVED_BYTES_MAX).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    read().unwrap_or_default()
}

/// Keeps a probe in `folder`, in place of an older one of the same device.
///
/// # Errors
/// What writing there gives.
pub fn save(folder: &Path, probe: &Probe) -> Result<()> {
    let mut probes = saved(folder);
    probes.retain(|other| other.device != probe.device);
    probes.push(probe.clone());
    let text = serde_json::to_string_pretty(&probes)
        .map_err(|error| Error::internal("a probe cannot be written").source(error))?;
    let device = LocalDevice::new(folder)?;
    device.create_dir("")?;
    publish_file(&device, FILE, text.as_bytes())
}

/// The depth that the deepest probed device wants, if any was probed with sensible results.
pub(super) fn deepest(probes: &[Probe]) -> Option<u32> {
    let sane = |probe: &&Probe| DEPTHS.contains(&probe.depth) && !probe.cached;
    probes.iter().filter(sane).map(|probe| probe.depth).max()
}

#[cfg(test)]
mod tests;
