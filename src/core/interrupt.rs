//! Work that its caller may call off.
//!
//! A caller does the work under a [`InterruptToken`] ([`until`]) and pulls it from another thread, or gives it a time
//! after which it counts as pulled. Long loops ask [`check`]: once the token is pulled, the thread unwinds to its
//! caller and drops all on its way, so that partial files are removed. Threads that the work starts are [`carried`] and
//! end alike. A result is whole, or there is none. Work under two tokens, one inside the other, ends with either.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clock::Clock;

thread_local! {
    /// The token that calls off the work of this thread.
    static TOKEN: RefCell<Option<InterruptToken>> = const { RefCell::new(None) };
}

/// Calls off the work that is done under it.
#[derive(Clone, Debug, Default)]
pub struct InterruptToken(Arc<TokenState>);

#[derive(Debug, Default)]
struct TokenState {
    pulled: AtomicBool,
    /// A moment, and the seconds after which it counts as pulled.
    over: Option<(Clock, f64)>,
    /// With these it is pulled, too.
    around: Vec<InterruptToken>,
}

impl InterruptToken {
    /// A token that is pulled with this one, and after `seconds` from now where there are any.
    #[must_use]
    pub fn within(&self, seconds: Option<f64>) -> InterruptToken {
        let over = seconds.map(|seconds| (Clock::start(), seconds));
        InterruptToken(Arc::new(TokenState { over, around: vec![self.clone()], ..TokenState::default() }))
    }
    /// The work ends at its next [`check`].
    pub fn pull(&self) {
        self.0.pulled.store(true, Ordering::Relaxed);
    }
    /// True if it was pulled, or its time is over.
    pub fn is_pulled(&self) -> bool {
        let TokenState { pulled, over, around } = &*self.0;
        pulled.load(Ordering::Relaxed)
            || over.is_some_and(|(begun, seconds)| begun.elapsed().as_secs_f64() > seconds)
            || around.iter().any(InterruptToken::is_pulled)
    }
    /// This token inside the one of this thread.
    fn inside(&self) -> InterruptToken {
        let Some(outer) = TOKEN.with_borrow(Option::clone) else { return self.clone() };
        InterruptToken(Arc::new(TokenState { around: vec![self.clone(), outer], ..TokenState::default() }))
    }
}

/// The payload that a thread unwinds with; no panic hook hears of it.
struct CalledOff;

/// Does work under a token; nothing where it was called off.
pub fn until<T>(token: &InterruptToken, work: impl FnOnce() -> T) -> Option<T> {
    let before = TOKEN.replace(Some(token.inside()));
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
