//! Ctrl-C for command lines: the process ends at once with the documented exit code, whatever it was waiting for.
//!
//! Stores need no farewell: what was acknowledged is durable, and the kernel drops locks and maps.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

static CODE: AtomicI32 = AtomicI32::new(130);

/// Ends the process with `code` on SIGINT until the guard is dropped, which puts the handler from before back.
pub fn exit_on_interrupt(code: i32) -> Interrupt {
    CODE.store(code, Ordering::Relaxed);
    // SAFETY: a zeroed `sigaction` is a valid one with no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = exit as *const () as usize;
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both pointers are live; the handler only reads an atomic and calls `_exit`, which is async-signal-safe.
    let set = unsafe { libc::sigaction(libc::SIGINT, &raw const action, before.as_mut_ptr()) };
    Interrupt {
        // SAFETY: sigaction returned 0, so it wrote the action from before.
        before: (set == 0).then(|| unsafe { before.assume_init() }),
    }
}

extern "C" fn exit(_signal: libc::c_int) {
    // SAFETY: `_exit` may be called from a signal handler; it runs no destructors.
    unsafe { libc::_exit(CODE.load(Ordering::Relaxed)) }
}

/// Puts the handler from before back when dropped.
#[must_use = "the handler is put back when this is dropped"]
pub struct Interrupt {
    before: Option<libc::sigaction>,
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: `before` is what sigaction gave us for this signal.
            let _ = unsafe { libc::sigaction(libc::SIGINT, before, std::ptr::null_mut()) };
        }
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupt")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler() -> usize {
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: without a new action this only reads the one in force.
        unsafe {
            assert_eq!(
                libc::sigaction(libc::SIGINT, std::ptr::null(), now.as_mut_ptr()),
                0
            );
            now.assume_init().sa_sigaction
        }
    }

    #[test]
    fn the_handler_from_before_comes_back() {
        let before = handler();
        let guard = exit_on_interrupt(130);
        assert_ne!(handler(), before);
        drop(guard);
        assert_eq!(handler(), before);
    }
}
