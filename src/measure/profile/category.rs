//! What events of a profile are, by category and name.

use super::model::Does;

/// What an event of a category is to a reader of profiles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Kernel,
    Copy,
    Call,
    Operator,
    OnDevice,
    Wait,
}

impl What {
    pub(super) fn of(category: &str) -> Option<What> {
        Some(match category {
            "kernel" => What::Kernel,
            "gpu_memcpy" | "gpu_memset" | "memcpy" | "memset" => What::Copy,
            "cuda_runtime" | "cuda_driver" | "runtime" => What::Call,
            "cpu_op" | "operator" | "user_annotation" => What::Operator,
            "gpu_user_annotation" => What::OnDevice,
            "cuda_sync" => What::Wait,
            _ => return None,
        })
    }
}

impl Does {
    pub(super) fn of(name: &str) -> Does {
        let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if is(&["StreamWaitEvent"]) {
            Does::StreamWait
        } else if is(&["Synchronize"]) {
            Does::Synchronize
        } else if is(&["Launch", "Memcpy", "Memset"]) {
            Does::Launch
        } else {
            Does::Other
        }
    }
}
