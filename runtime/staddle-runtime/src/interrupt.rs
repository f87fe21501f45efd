//! Ctrl-C for command lines: the process ends at once with the documented exit code, whatever it was waiting for.
//!
//! Stores need no farewell: what was acknowledged is durable, and the kernel drops locks and maps.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static CODE: AtomicI32 = AtomicI32::new(130);
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Ends the process with `code` on SIGINT until the guard is dropped, which puts the handler from before back.
pub fn exit_on_interrupt(code: i32) -> Interrupt {
    install(code, exit)
}

/// Like [`exit_on_interrupt`], but the first SIGINT only asks: a job that looks at [`Interrupt::requested`] can clean up
/// after itself. The second one ends the process.
pub fn ask_on_interrupt(code: i32) -> Interrupt {
    REQUESTED.store(false, Ordering::Relaxed);
    install(code, ask)
}

fn install(code: i32, handler: extern "C" fn(libc::c_int)) -> Interrupt {
    CODE.store(code, Ordering::Relaxed);
    // SAFETY: a zeroed `sigaction` is a valid one with no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both pointers are live; the handlers only touch atomics and call `_exit`, which is async-signal-safe.
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

extern "C" fn ask(signal: libc::c_int) {
    if REQUESTED.swap(true, Ordering::Relaxed) {
        exit(signal);
    }
}

/// Puts the handler from before back when dropped.
#[must_use = "the handler is put back when this is dropped"]
pub struct Interrupt {
    before: Option<libc::sigaction>,
}

impl Interrupt {
    /// Whether a SIGINT has come since [`ask_on_interrupt`].
    pub fn requested(&self) -> bool {
        REQUESTED.load(Ordering::Relaxed)
    }
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
    fn the_first_signal_only_asks() {
        let guard = ask_on_interrupt(130);
        assert!(!guard.requested());
        // SAFETY: raising a signal for which a handler is installed.
        assert_eq!(unsafe { libc::raise(libc::SIGINT) }, 0);
        assert!(guard.requested());
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
