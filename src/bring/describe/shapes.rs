//! Models that a description may refer to by name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Dimensions of models by name, from a table beside the description.
pub type Shapes = BTreeMap<String, Map<String, Value>>;
