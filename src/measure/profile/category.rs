//! The kind of a profile's events, by category and name.

use super::model::Does;

/// The kind of an event's category to a reader of profiles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EventRole {
    Kernel,
    Copy,
    Call,
    Operator,
    OnDevice,
    Wait,
}

impl EventRole {
    pub(super) fn of(category: &str) -> Option<EventRole> {
        Some(match category {
            "kernel" => EventRole::Kernel,
            "gpu_memcpy" | "gpu_memset" | "memcpy" | "memset" => EventRole::Copy,
            "cuda_runtime" | "cuda_driver" | "runtime" => EventRole::Call,
            "cpu_op" | "operator" | "user_annotation" => EventRole::Operator,
            "gpu_user_annotation" => EventRole::OnDevice,
            "cuda_sync" => EventRole::Wait,
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
