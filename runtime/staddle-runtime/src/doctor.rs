//! What this machine allows, row by row, and what would help: the report behind `staddle doctor`.

use rustix::process::Resource;
use serde::Serialize;
use staddle_base::size;

use crate::io::EngineReport;
use crate::kernel;
use crate::memory::limit;

/// Maps that a large record store with many chunks may need.
const MAPS_WANTED: u64 = 65_530;
/// Open files that a store with many chunks may need.
const FILES_WANTED: u64 = 4096;

/// One fact about the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What it is about.
    pub name: &'static str,
    /// What was found.
    pub value: String,
    /// What to do, where something could be better.
    pub advice: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The facts, in a fixed order.
    pub rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(limit_bytes: u64, engine: EngineReport) -> Self {
        let rows = vec![
            row("kernel", kernel::release()),
            engine_row(&engine),
            cachestat_row(),
            row(
                "processors",
                std::thread::available_parallelism()
                    .map_or(1, usize::from)
                    .to_string(),
            ),
            row("memory", size::human(kernel::machine_bytes())),
            row(
                "memory limit of the cgroup",
                bytes_or(limit::cgroup_limit_bytes(), "none"),
            ),
            row("memory limit of Staddle", size::human(limit_bytes)),
            row("page size", format!("{} B", kernel::page_bytes())),
            huge_pages_row(),
            memlock_row(&engine),
            address_space_row(),
            maps_row(),
            files_row(),
        ];
        Self { rows }
    }

    /// The row called `name`.
    pub fn get(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

fn row(name: &'static str, value: String) -> Row {
    Row {
        name,
        value,
        advice: None,
    }
}

fn advise(mut row: Row, bad: bool, advice: &str) -> Row {
    row.advice = bad.then(|| advice.to_owned());
    row
}

fn bytes_or(bytes: Option<u64>, none: &str) -> String {
    bytes.map_or_else(|| none.to_owned(), size::human)
}

fn engine_row(engine: &EngineReport) -> Row {
    let value = format!("{}: {}", engine.name, engine.why);
    advise(
        row("I/O engine", value),
        engine.name != "uring" && !engine.why.contains("setting"),
        "cold random reads are faster with io_uring; allow it in kernel.io_uring_disabled or the container's profile",
    )
}

fn cachestat_row() -> Row {
    let known = crate::io::cachestat_works();
    let value = if known { "yes" } else { "no" };
    advise(
        row("page cache can be asked (cachestat)", value.into()),
        !known,
        "kernel 6.5 or later tells cached from cold files; until then Staddle measures",
    )
}

fn huge_pages_row() -> Row {
    let text = kernel::text("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    let mode = chosen.map_or("unknown", |(mode, _)| mode);
    advise(
        row("transparent huge pages", mode.into()),
        mode == "never",
        "set /sys/kernel/mm/transparent_hugepage/enabled to madvise for faster large buffers",
    )
}

fn memlock_row(engine: &EngineReport) -> Row {
    let bytes = kernel::soft_limit(Resource::Memlock);
    advise(
        row("locked memory limit", bytes_or(bytes, "unlimited")),
        engine.why.contains("locked memory"),
        "raise ulimit -l to 8 MiB or more for io_uring",
    )
}

fn address_space_row() -> Row {
    let bytes = kernel::soft_limit(Resource::As);
    advise(
        row("address space limit", bytes_or(bytes, "unlimited")),
        bytes.is_some(),
        "without a limit (ulimit -v unlimited) offset tables grow in place; with one they are looked up in segments",
    )
}

fn maps_row() -> Row {
    let maps = kernel::number("/proc/sys/vm/max_map_count");
    advise(
        row(
            "memory maps",
            maps.map_or_else(|| "unknown".into(), size::thousands),
        ),
        maps.is_some_and(|maps| maps < MAPS_WANTED),
        "raise vm.max_map_count for stores with many chunks",
    )
}

fn files_row() -> Row {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let words = |n: Option<u64>| n.map_or_else(|| "unlimited".into(), size::thousands);
    let value = format!(
        "{} (may be raised to {})",
        words(limit.current),
        words(limit.maximum)
    );
    advise(
        row("open files", value),
        limit.current.is_some_and(|files| files < FILES_WANTED),
        "raise ulimit -n for stores with many chunks",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &'static str, why: &str) -> Report {
        let why = why.to_owned();
        Report::new(1 << 30, EngineReport { name, why })
    }

    #[test]
    fn every_row_is_named_once_and_says_something() {
        let report = report("uring", "the kernel offers io_uring");
        let mut names: Vec<&str> = report.rows.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), report.rows.len());
        assert!(report.rows.iter().all(|row| !row.value.is_empty()));
        assert_eq!(
            report.get("memory limit of Staddle").unwrap().value,
            "1.07 GB"
        );
        assert_eq!(report.get("I/O engine").unwrap().advice, None);
    }

    #[test]
    fn advice_follows_from_the_reason() {
        let blocked = report("pread", "io_uring is blocked here");
        assert!(blocked.get("I/O engine").unwrap().advice.is_some());
        assert!(blocked.get("locked memory limit").unwrap().advice.is_none());
        let small = report("pread", "the limit on locked memory is too small");
        assert!(small.get("locked memory limit").unwrap().advice.is_some());
        let wanted = report("pread", "chosen by the engine setting");
        assert!(wanted.get("I/O engine").unwrap().advice.is_none());
    }
}
