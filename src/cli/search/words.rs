//! Words about layouts.

use super::super::screen;
use stepsim_core::units::Time;

/// The settings of a layout in short: last words of paths, objects by their first value.
pub(crate) fn layout(settings: &serde_json::Map<String, serde_json::Value>) -> String {
    let word = |path: &str| {
        let mut words = path.rsplit('.');
        match (words.next(), words.next()) {
            (Some("size"), Some(of)) => of.to_string(),
            (last, _) => last.unwrap_or_default().to_string(),
        }
    };
    settings.iter().map(|(path, v)| format!("{} {}", word(path), value(v))).collect::<Vec<_>>().join(", ")
}

/// A value in short: places by their tiers, objects by their first value.
fn value(value: &serde_json::Value) -> String {
    if let Some(places) = value.as_array().filter(|list| list.iter().all(|place| place["tier"].is_string())) {
        let tiers: Vec<&str> = places.iter().filter_map(|place| place["tier"].as_str()).collect();
        return if tiers.is_empty() { "hbm".to_string() } else { tiers.join(" and ") };
    }
    let Some(map) = value.as_object() else {
        return value.as_str().map_or_else(|| value.to_string(), str::to_string);
    };
    let first = map.get("kind").or(map.get("granularity")).unwrap_or(value);
    let first = first.as_str().map_or_else(|| first.to_string(), str::to_string);
    // The workload itself says more than its kind.
    if map.len() > 1 { format!("{first} as stated") } else { first }
}

/// Tells whoever waits the best layout so far.
pub(crate) fn so_far(
    seconds: f64,
    is_simulated: bool,
    settings: &serde_json::Map<String, serde_json::Value>,
) {
    if !screen::keeps() {
        let how = if is_simulated { "" } else { " in closed form" };
        eprintln!("so far: {}{how}: {}", Time::from_s(seconds), layout(settings));
    }
}
