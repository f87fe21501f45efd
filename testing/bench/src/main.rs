//! Micro-benchmarks of the record store without Python: what a change costs, against a plain copy of the same bytes.
//!
//! `cargo run --release -p staddle-bench [records] [bytes]` prints records per second for each way of reading. The
//! comparison with peers is `cargo x bench record`; this one is for the profiler.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool for the terminal that measures wall time"
)]

use std::sync::Arc;
use std::time::Instant;

use staddle_base::{Result, Seed};
use staddle_record::{OpenOptions, Options, Records, Verify};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, LocalDevice};

const BATCH: usize = 256;

fn main() -> Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse::<usize>().ok());
    let records = arguments.next().unwrap_or(100_000);
    let bytes = arguments.next().unwrap_or(1024);
    let folder = tempfile::tempdir()
        .map_err(|e| staddle_base::Error::io("make a folder", "temporary", e))?;
    let device: Arc<dyn Device> = Arc::new(LocalDevice::new(&folder.path().join("bench.rec"))?);
    let runtime = Runtime::new(staddle_runtime::Options::default())?;
    let mut rng = Seed(1).stream("bench");

    let set = Records::create(&runtime, Arc::clone(&device), Options::default())?;
    let mut record = vec![0; bytes];
    rng.fill(&mut record);
    let start = Instant::now();
    for _ in 0..records {
        set.append(&record)?;
    }
    report("append", records, bytes, start);
    let start = Instant::now();
    set.close()?;
    report("close (sync)", records, bytes, start);

    let indices: Vec<Vec<u64>> = (0..2000.min(4 * records / BATCH))
        .map(|_| (0..BATCH).map(|_| rng.below(records as u64)).collect())
        .collect();
    let total = indices.len() * BATCH;
    for verify in [Verify::First, Verify::Always] {
        let set = Records::open(
            &runtime,
            Arc::clone(&device),
            OpenOptions {
                verify,
                ..OpenOptions::default()
            },
        )?;
        let mut out = vec![0; BATCH * bytes];
        let mut offsets = vec![0; BATCH + 1];
        for round in ["first touch", "again"] {
            println!("-- verify {verify:?}, {round}");
            time("gather_into", total, bytes, || {
                for batch in &indices {
                    set.gather_into(batch, &mut out, &mut offsets)?;
                }
                Ok(())
            })?;
            time("gather_packed", total, bytes, || {
                for batch in &indices {
                    set.gather_packed(batch)?;
                }
                Ok(())
            })?;
            time("gather (views)", total, bytes, || {
                for batch in &indices {
                    set.gather(batch)?;
                }
                Ok(())
            })?;
            time("with (one)", total, bytes, || {
                let mut sum = 0usize;
                for index in indices.iter().flatten() {
                    sum += set.with(*index, |record| record.map_or(0, <[u8]>::len))?;
                }
                std::hint::black_box(sum);
                Ok(())
            })?;
        }
    }

    // The limit: the same copies from one flat array, nothing resolved.
    let flat = vec![1u8; records * bytes];
    let mut out = vec![0; BATCH * bytes];
    time("plain copies", total, bytes, || {
        for batch in &indices {
            for (target, index) in out.chunks_exact_mut(bytes).zip(batch) {
                let at = *index as usize * bytes;
                target.copy_from_slice(&flat[at..at + bytes]);
            }
            std::hint::black_box(&out);
        }
        Ok(())
    })
}

fn time(name: &str, records: usize, bytes: usize, run: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    run()?;
    report(name, records, bytes, start);
    Ok(())
}

fn report(name: &str, records: usize, bytes: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = records as f64 / seconds;
    println!(
        "{name:<16} {:>12.0} records/s {:>8.2} GB/s",
        rate,
        rate * bytes as f64 / 1e9
    );
}
