//! A machine by count and name: `64xh100`, `256 of meta-roce-24k`, `8 x mi300x`.
//!
//! The name is a shipped machine, the path of one, or a device under any name that `workloads/rules/devices.json`
//! knows; those rules name the machine in which such devices usually stand. [`super::machine_size`] gives it the
//! count.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use stepsim_located::shipped;

use super::rules::{Layer, MachineRule, RulesSpec};
use super::words::{Text, fits, normal};
use super::{Kind, SpecError, catalog};

/// The number of devices and the name, where a text has that form.
pub(super) fn count_and_name(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, rest) = text.split_at(digits);
    let name = rest.trim_start();
    let name = match name.strip_prefix("of ") {
        Some(machine) => machine,
        // A file may be called `8x.json`.
        None if is_path(name) => return None,
        None => name.strip_prefix(['x', 'X', '×', '*']).or((rest != name).then_some(name))?,
    };
    Some((count.parse().ok()?, name.trim())).filter(|(_, name)| !name.is_empty())
}

/// True if a name means a file on disk.
pub(super) fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name == "-" || is_called_like_a_file(name)
}

/// True if a name has the form of a path, or the ending of a file that is read: `publisher/model` has the form of a
/// path and is none.
pub fn is_called_like_a_file(name: &str) -> bool {
    let path = name.starts_with(['.', '/']) || name.contains('\\') || name.matches('/').count() > 1;
    path || name.contains(".py:") || FILES.iter().any(|ends| name.ends_with(ends))
}

/// How the names of files end that are read.
const FILES: [&str; 6] = [".json", ".sh", ".toml", ".yaml", ".yml", ".py"];

/// The machine in which devices of this name usually stand: a shipped device under its own name, or one of the names of
/// the rules for devices.
pub(super) fn usual_machine(device: &str) -> Option<MachineRule> {
    let name = device.to_lowercase();
    let shipped = catalog::text(Kind::Device, &name).is_some();
    let rules = RULES.iter().filter(|rules| rules.layer == Layer::Devices).flat_map(|rules| &rules.rules);
    let mut machine = MachineRule::default();
    for rule in rules.filter(|rule| about_device(&rule.when, &name)) {
        let Some(of_rule) = &rule.machine else { continue };
        machine.topology = of_rule.topology.clone().or(machine.topology);
        machine.device = of_rule.device.clone().or(machine.device);
        machine.class = of_rule.class.clone().or(machine.class);
        machine.domain = of_rule.domain.or(machine.domain);
        machine.set.extend(of_rule.set.iter().cloned());
    }
    if shipped {
        machine.device = Some(name);
    }
    machine.topology.is_some().then_some(machine)
}

/// The shipped rules.
static RULES: LazyLock<Vec<RulesSpec>> = LazyLock::new(|| {
    let texts = catalog::names(Kind::Rules).filter_map(|name| catalog::text(Kind::Rules, name));
    texts.filter_map(|text| shipped(text).ok()).collect()
});

/// True if every word of a name is known from shipped devices or from the rules for devices: a misspelt word means
/// nothing.
pub(super) fn is_device(name: &str) -> bool {
    words(name).all(|word| VOCABULARY.contains(&word)) && usual_machine(name).is_some()
}

/// The words of a name in small letters: what stands between signs.
fn words(name: &str) -> impl Iterator<Item = String> + '_ {
    let parts = name.split(|c: char| !c.is_alphanumeric());
    parts.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// The words of the names of shipped devices, and of the patterns of the rules for devices.
static VOCABULARY: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut known: BTreeSet<String> = catalog::names(Kind::Device).flat_map(words).collect();
    let texts = catalog::names(Kind::Device).filter_map(|file| catalog::text(Kind::Device, file));
    let names = texts.filter_map(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    known.extend(
        names.flat_map(|device| words(device["name"].as_str().unwrap_or_default()).collect::<Vec<_>>()),
    );
    let patterns = RULES.iter().flat_map(|rules| &rules.rules).filter_map(|rule| rule.when.get("device"));
    known.extend(patterns.flat_map(|pattern| words(pattern)));
    known
});

/// True if a rule asks for this device and for nothing else that must be said.
fn about_device(when: &std::collections::BTreeMap<String, String>, name: &str) -> bool {
    let holds = |(column, pattern): (&String, &String)| {
        let (turned, body) = pattern.strip_prefix('!').map_or((false, pattern.as_str()), |body| (true, body));
        let text = if column == "device" { Text::of(&name.into()) } else { Text::default() };
        fits(&normal(body), &text).is_some() != turned
    };
    when.contains_key("device") && when.iter().all(holds)
}

/// The error about a name that is neither a machine nor a device.
pub(super) fn unknown(devices: u64, name: &str) -> SpecError {
    let names: Vec<&str> = catalog::names(Kind::Topology).chain(catalog::names(Kind::Device)).collect();
    let short = VOCABULARY.iter().map(String::as_str).filter(|word| usual_machine(word).is_some());
    let near = super::nearest(name, names.iter().copied().chain(short));
    let hint = match near.first() {
        Some(near) => format!("did you mean `{devices}x{near}`?"),
        None => "a machine by count and name: `64xh100`, `512 of b200`".to_string(),
    };
    SpecError::at("", format!("no machine and no device has the name `{name}`"))
        .allowed(names.join(", "))
        .hint(hint)
}
