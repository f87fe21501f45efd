//! How much memory this process may count on: the machine's, or its cgroup's if that is less.

use crate::kernel;

/// Bytes of memory that the process may use: the machine's, or the tightest cgroup v2 (or v1) limit above it.
pub fn available_bytes() -> u64 {
    let cgroup = cgroup_limit_bytes().unwrap_or(u64::MAX);
    kernel::machine_bytes().min(cgroup)
}

/// The default root limit: half of [`available_bytes`].
pub fn default_limit_bytes() -> u64 {
    (available_bytes() / 2).max(crate::options::MEMORY_MIN)
}

/// The tightest memory limit of the cgroups this process is in, if there is one.
pub fn cgroup_limit_bytes() -> Option<u64> {
    let groups = kernel::text("/proc/self/cgroup")?;
    tightest(&groups, &kernel::text)
}

/// Walks from each group up to the root, since a limit anywhere above holds. `read` gives a file's text.
fn tightest(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (base, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let mut group = path.trim_end_matches('/');
        loop {
            let limit = read(&format!("{base}{group}/{file}"))
                .and_then(|text| text.trim().parse::<u64>().ok());
            if let Some(limit) = limit {
                least = Some(least.map_or(limit, |least| least.min(limit)));
            }
            match group.rsplit_once('/') {
                Some((above, _)) => group = above,
                None => break,
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_above_counts() {
        let files = |path: &str| match path {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("4096\n".to_owned()),
            "/sys/fs/cgroup/memory.max" => Some("8192\n".to_owned()),
            "/sys/fs/cgroup/memory/x/memory.limit_in_bytes" => Some("100\n".to_owned()),
            _ => None,
        };
        assert_eq!(tightest("0::/a/b\n", &files), Some(4096));
        assert_eq!(tightest("0::/\n", &files), Some(8192));
        assert_eq!(tightest("5:cpu:/x\n4:memory:/x\n", &files), Some(100));
        assert_eq!(tightest("0::/elsewhere\nnonsense\n", &|_| None), None);
    }

    #[test]
    fn the_machine_has_memory_and_half_of_it_is_the_default() {
        assert!(kernel::machine_bytes() > 64 << 20);
        assert!(available_bytes() <= kernel::machine_bytes());
        assert!(default_limit_bytes() >= available_bytes() / 2);
    }
}
