//! Work that its caller may call off.
//!
//! A caller does the work under a [`InterruptToken`] ([`until`]) and pulls it from another thread. Long loops ask
//! [`check`]: once the token is pulled, the thread unwinds to its caller and drops all on its way, so that partial
//! files are removed. Threads that the work starts are [`carried`] and end alike. A result is whole, or there is none.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// The token that calls off the work of this thread.
    static TOKEN: RefCell<Option<InterruptToken>> = const { RefCell::new(None) };
}

/// Calls off the work that is done under it.
#[derive(Clone, Debug, Default)]
pub struct InterruptToken(Arc<AtomicBool>);

impl InterruptToken {
    /// The work ends at its next [`check`].
    pub fn pull(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn is_pulled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The payload that a thread unwinds with; no panic hook hears of it.
struct CalledOff;

/// Does work under a token; nothing where it was called off.
pub fn until<T>(token: &InterruptToken, work: impl FnOnce() -> T) -> Option<T> {
    let before = TOKEN.replace(Some(token.clone()));
    let done = catch_unwind(AssertUnwindSafe(work));
    TOKEN.set(before);
    match done {
        Ok(done) => Some(done),
        Err(reason) if reason.is::<CalledOff>() => None,
        Err(reason) => resume_unwind(reason),
    }
}

/// Unwinds to [`until`] if the work of this thread was called off. Cheap: loops ask every few thousand turns.
pub fn check() {
    if TOKEN.with_borrow(|token| token.as_ref().is_some_and(InterruptToken::is_pulled)) {
        resume_unwind(Box::new(CalledOff));
    }
}

/// The work of another thread, under the token of this one. Where it was called off it ends early: whoever waits for
/// it asks [`check`].
pub fn carried(work: impl FnOnce()) -> impl FnOnce() {
    let token = TOKEN.with_borrow(Option::clone);
    move || match token {
        Some(token) => drop(until(&token, work)),
        None => work(),
    }
}
