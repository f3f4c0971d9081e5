//! Defaults for fields of mixers.

pub(super) fn yes() -> bool {
    true
}
pub(super) fn four() -> u64 {
    4
}
pub(super) fn chunk_64() -> u64 {
    64
}
pub(super) fn chunk_256() -> u64 {
    256
}
