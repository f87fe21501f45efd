//! Forked children see other generations, build their own values and are refused what is not theirs.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Runs `child` in a forked process and returns its exit code; 99 is a panic.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `child` and leaves by `_exit` without unwinding into the test harness.
    let pid = unsafe { libc::fork() };
    wait_or_run(pid, child)
}

fn wait_or_run(pid: libc::pid_t, child: impl FnOnce() -> i32) -> i32 {
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(code) }
    }
    assert!(pid > 0);
    let mut status = 0;
    // SAFETY: `pid` is our child and `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child was killed: {status}");
    libc::WEXITSTATUS(status)
}

#[test]
fn a_child_and_a_grandchild_have_generations_of_their_own() {
    let parent = fork_generation();
    assert_eq!(parent, fork_generation());
    let code = in_child(|| {
        let child = fork_generation();
        if child == parent || child != fork_generation() {
            return 1;
        }
        in_child(|| i32::from(fork_generation() == child || fork_generation() == parent))
    });
    assert_eq!(code, 0);
    assert_eq!(parent, fork_generation());
}

#[test]
fn a_raw_clone_is_noticed_too() {
    let parent = fork_generation();
    // SAFETY: a clone with only a signal number is a fork that runs no `atfork` hooks; the child calls nothing that
    // takes a lock and leaves by `_exit`.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    let code = wait_or_run(libc::pid_t::try_from(pid).unwrap(), || {
        i32::from(fork_generation() == parent)
    });
    assert_eq!(code, 0);
}

#[test]
fn the_way_without_the_page_agrees() {
    let parent = by_process_id();
    assert_eq!(parent, by_process_id());
    assert_eq!(in_child(|| i32::from(by_process_id() == parent)), 0);
}

#[test]
fn a_value_is_built_once_per_process() {
    static BUILT: AtomicU32 = AtomicU32::new(0);
    static VALUE: PerProcess<u32> = PerProcess::new(|| BUILT.fetch_add(1, Ordering::SeqCst));
    assert!(VALUE.peek().is_none());
    let first = *VALUE.get();
    assert_eq!(*VALUE.get(), first);
    let code = in_child(|| {
        let inherited = VALUE.peek().is_some();
        let own = *VALUE.get();
        i32::from(inherited || own == first || *VALUE.get() != own)
    });
    assert_eq!(code, 0);
    assert_eq!(*VALUE.get(), first);
}

#[test]
fn a_value_is_dropped_by_its_builder_and_leaked_by_a_child() {
    static DROPS: AtomicU32 = AtomicU32::new(0);
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::SeqCst);
        }
    }
    let cell = ProcessCell::new();
    cell.get_or_init(|| Counts);
    let code = in_child(|| {
        cell.get_or_init(|| Counts);
        let replaced = DROPS.load(Ordering::SeqCst);
        let mine: ProcessCell<Counts> = ProcessCell::new();
        mine.get_or_init(|| Counts);
        drop(mine);
        i32::from(replaced != 0 || DROPS.load(Ordering::SeqCst) != 1)
    });
    assert_eq!(code, 0);
    drop(cell);
    assert_eq!(DROPS.load(Ordering::SeqCst), 1);
}

#[test]
fn many_threads_share_one_value() {
    let cell = ProcessCell::new();
    let seen: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn({
                    let cell = &cell;
                    move || std::ptr::from_ref(cell.get_or_init(|| n)).addr()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(seen.iter().all(|at| *at == seen[0]));
}

#[test]
fn an_owner_refuses_other_processes() {
    let owner = OwnerProcess::here();
    assert!(owner.is_here() && owner.check().is_ok());
    let code = in_child(|| {
        let error = owner.check().unwrap_err();
        let named = error.to_string().contains(&owner.pid().to_string());
        i32::from(owner.is_here() || error.kind() != staddle_base::ErrorKind::Closed || !named)
    });
    assert_eq!(code, 0);
}

#[test]
fn an_append_list_keeps_the_first_of_two_clashing_values() {
    let list = AppendList::new();
    assert_eq!(list.push_unless(1, |v| *v == 1), Ok(&1));
    assert_eq!(list.push_unless(2, |v| *v == 2), Ok(&2));
    assert_eq!(list.push_unless(1, |v| *v == 1), Err(&1));
    assert_eq!(list.iter().copied().collect::<Vec<_>>(), [2, 1]);
}
