//! Values where a file gives none.

pub(super) fn yes() -> bool {
    true
}

pub(super) fn is_zero(value: &u64) -> bool {
    *value == 0
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn one() -> u64 {
    1
}
