//! Lists in which equal things stand once.

/// The number of the item of a list that equals this one, which is added where there is none.
pub fn number_of<T: PartialEq>(list: &mut Vec<T>, item: T) -> u32 {
    let at = list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    });
    at as u32
}
