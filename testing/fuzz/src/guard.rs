//! Runs one input so that whatever it does becomes a report: panic, hang, memory, signal.
//!
//! A panic is caught here. Memory past the limit ends the process from the allocator, too much time from [`watch`], both
//! after saving the input. For a signal or an abort the input lies in the file that is written before each run; the
//! parent process finds it there.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::alloc;
use crate::target::{Signal, Target};

/// Computing time for one input.
pub const TIME_MAX: Duration = Duration::from_secs(2);

/// Memory that a target may hold while it works on an input of `len` bytes: 16 MiB, and 32 bytes for each byte of input.
pub fn allowed_bytes(len: usize) -> u64 {
    (16 << 20) + 32 * len as u64
}

thread_local! {
    static NAME: Cell<&'static str> = const { Cell::new("") };
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static ARMED: Cell<bool> = const { Cell::new(false) };
}

/// Runs so far, for the watch.
static RUNS: AtomicU64 = AtomicU64::new(0);
/// What the watch saves: the name and input under way.
static UNDER_WAY: Mutex<(&'static str, Vec<u8>)> = Mutex::new(("", Vec::new()));

/// Runs `input`; `Err` says how the target failed.
///
/// # Errors
/// The panic's message and place.
pub fn run(target: &Target, input: &[u8]) -> Result<Signal, String> {
    catch_panics_quietly();
    NAME.set(target.name);
    INPUT.with_borrow_mut(|kept| {
        kept.clear();
        kept.extend_from_slice(input);
    });
    {
        let mut under_way = UNDER_WAY.lock();
        under_way.0 = target.name;
        under_way.1.clear();
        under_way.1.extend_from_slice(input);
    }
    RUNS.fetch_add(1, Ordering::Release);
    ARMED.set(true);
    alloc::arm(allowed_bytes(input.len()));
    let result = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    alloc::disarm();
    ARMED.set(false);
    result.map_err(|_| {
        PANIC
            .take()
            .unwrap_or_else(|| "a panic without a message".into())
    })
}

/// Keeps panics of guarded runs for the report instead of printing them.
fn catch_panics_quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if ARMED.get() {
                PANIC.set(Some(info.to_string()));
            } else {
                print(info);
            }
        }));
    });
}

/// The folder of failing inputs, not under version control.
pub fn failures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("failures")
}

/// Saves an input and prints what happened and how to replay it.
#[expect(clippy::print_stderr, reason = "the report of a test tool")]
pub fn report(target: &str, input: &[u8], what: &str) {
    let name = format!("{target}-{:016x}", staddle_base::checksum::xxh3(input));
    let path = failures().join(name);
    let saved = std::fs::create_dir_all(failures()).and_then(|()| std::fs::write(&path, input));
    eprintln!(
        "\nFAILED {target}: {what}\n  input of {} bytes: {}",
        input.len(),
        path.display()
    );
    match saved {
        Ok(()) => eprintln!("  replay: cargo x fuzz {target} --input {}", path.display()),
        Err(error) => eprintln!("  it could not be saved: {error}"),
    }
}

/// Reports the input under way on this thread and ends the process.
pub fn end_process(what: &str) -> ! {
    let input = INPUT.with_borrow(Clone::clone);
    report(NAME.get(), &input, what);
    std::process::exit(1);
}

/// A file that always holds the input under way, for a parent process to find after a signal.
#[derive(Debug)]
pub struct Keep(File);

impl Keep {
    /// Makes the file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(path: &Path) -> std::io::Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a scratch file of a test tool, not data"
        )]
        File::create(path).map(Self)
    }

    /// Writes the input.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn put(&self, input: &[u8]) -> std::io::Result<()> {
        self.0
            .write_all_at(&(input.len() as u64).to_le_bytes(), 0)?;
        self.0.write_all_at(input, 8)
    }

    /// Reads what the last [`Keep::put`] wrote.
    pub fn read(path: &Path) -> Option<Vec<u8>> {
        let bytes = std::fs::read(path).ok()?;
        let (len, rest) = bytes.split_first_chunk::<8>()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        rest.get(..len).map(<[u8]>::to_vec)
    }
}

/// Starts a thread that ends the process when one run of the calling thread computes for longer than [`TIME_MAX`], or
/// waits for longer than 60 times that. Computing time is what counts, so a busy machine raises no alarm.
pub fn watch() {
    let Some(thread) = std::fs::read_link("/proc/thread-self").ok() else {
        return;
    };
    let stat = Path::new("/proc").join(thread).join("stat");
    #[expect(
        clippy::disallowed_methods,
        reason = "the watch must not depend on what it watches"
    )]
    let watching = std::thread::Builder::new()
        .name("watch".into())
        .spawn(move || {
            let (mut run, mut computed_at_start, mut waited) = (0, Duration::ZERO, Duration::ZERO);
            let pause = Duration::from_millis(100);
            loop {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the watch must not depend on what it watches"
                )]
                std::thread::sleep(pause);
                let (now, computed) = (RUNS.load(Ordering::Acquire), computed(&stat));
                if now != run {
                    (run, computed_at_start, waited) = (now, computed, Duration::ZERO);
                    continue;
                }
                waited += pause;
                if run > 0
                    && (computed.saturating_sub(computed_at_start) > TIME_MAX
                        || waited > 60 * TIME_MAX)
                {
                    let under_way = UNDER_WAY.lock();
                    report(
                        under_way.0,
                        &under_way.1,
                        &format!("no answer after {TIME_MAX:?} of computing"),
                    );
                    std::process::exit(1);
                }
            }
        });
    // Without a watch a hang is still a hang; the caller's own time limit ends it.
    drop(watching);
}

/// Computing time of a thread, from its `stat` file (fields 14 and 15, in hundredths of a second).
fn computed(stat: &Path) -> Duration {
    let text = std::fs::read_to_string(stat).unwrap_or_default();
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum::<u64>();
    Duration::from_millis(10 * ticks)
}
