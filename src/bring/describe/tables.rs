//! Columns under the names that training software gives its arguments: the tables of the importers
//! (`workloads/imports/*.json`) are words here too.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::Value;

use super::columns::DescribedColumns;
use super::origin::ValueOrigin;
use crate::imports::{FormatTable, word};

/// Quantities of the tables that are columns here.
const QUANTITIES: &str = "$tensor=tp $pipeline=pp $context=cp $expert=ep $chunks=vp $stage_layout=pp_layout \
    $devices=n_devices $nodes=n_nodes $gpus_per_node=devices_per_node $accumulation=grad_accum \
    $tokens_per_step=gbs_tokens $per_device_batch=per_device_batch sequence=seq";

/// Takes up columns that are arguments of a training software: quantities become columns; what else they set is
/// returned as words, path and value. A name that no rule has as a column is looked up, first in the table of the
/// software that the description names, then in those that most others build on.
pub fn take(columns: &mut DescribedColumns, known: &BTreeSet<&str>) -> Vec<(String, String, Value)> {
    let software = columns.text("software").to_lowercase().replace([' ', '_'], "-");
    let tables = FormatTable::all();
    let heirs =
        |format: &str| tables.values().filter(|table| table.bases.iter().any(|base| base == format)).count();
    let mut formats: Vec<&str> = tables.keys().copied().collect();
    formats.sort_by_cached_key(|format| (!software.contains(format), Reverse(heirs(format))));
    let mut told = Vec::new();
    let arguments: Vec<String> = columns.names().filter(|n| !known.contains(n.as_str())).cloned().collect();
    for name in arguments {
        let value = number(columns.peek(&name));
        let Some(sets) = formats.iter().find_map(|format| word(format, &name, &value)) else { continue };
        columns.heed(&name);
        for (path, value) in sets {
            let words = format!("{name} = {}", columns.text(&name));
            let mut pairs = QUANTITIES.split_whitespace().filter_map(|pair| pair.split_once('='));
            match pairs.find(|(quantity, _)| *quantity == path) {
                Some((_, column)) => drop(columns.fill(column, value, ValueOrigin::stated(words))),
                None if path.starts_with('$') => {}
                None => told.push((words, path, value)),
            }
        }
    }
    told
}

/// A text that is a whole number is one.
fn number(value: &Value) -> Value {
    let whole = value.as_str().and_then(|text| text.trim().parse::<i64>().ok());
    whole.map_or_else(|| value.clone(), Value::from)
}
