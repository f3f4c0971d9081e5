//! The border to JavaScript: bytes in, bytes out, and how far the work has come.
//!
//! The page asks for [`room`] for its question, writes it there and calls [`ask`]; the answer lies at [`said`].
//! Nobody else touches the memory meanwhile: a worker has one thread.

use std::cell::RefCell;

use super::answer::answer;

thread_local! {
    static QUESTION: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cfg(target_family = "wasm")]
#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Tells the page how many ops, or layouts, are done.
    safe fn done(count: f64);
}

/// Tells whoever waits how many ops, or layouts, are done.
pub(crate) fn tell(count: u64) {
    #[cfg(target_family = "wasm")]
    done(count as f64);
    let _ = count;
}

/// Where a question of so many bytes is to be written; the answer before it is no more.
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    say(Vec::new());
    QUESTION.with_borrow_mut(|question| {
        question.clear();
        question.resize(bytes, 0);
        question.as_mut_ptr()
    })
}

/// Answers the question; whether there is an answer, and not a reason why there is none.
#[unsafe(no_mangle)]
pub extern "C" fn ask() -> bool {
    std::panic::set_hook(Box::new(|defect| say(defect.to_string().into_bytes())));
    let question = QUESTION.take();
    let (good, bytes) = match answer(&question) {
        Ok(bytes) => (true, bytes),
        Err(fault) => (false, serde_json::to_vec(&*fault).unwrap_or_default()),
    };
    say(bytes);
    good
}

/// Where the answer lies, or the words of a defect.
#[unsafe(no_mangle)]
pub extern "C" fn said() -> *const u8 {
    ANSWER.with_borrow(Vec::as_ptr)
}

/// How many bytes it has.
#[unsafe(no_mangle)]
pub extern "C" fn said_bytes() -> usize {
    ANSWER.with_borrow(Vec::len)
}

fn say(bytes: Vec<u8>) {
    ANSWER.set(bytes);
}
