//! Rows of `measured/steps.jsonl`: one published step time each.

use serde_json::Value;

/// One published measurement, with whatever its source says.
#[derive(Clone, Debug)]
pub struct Row(pub Value);

impl Row {
    /// The rows of a file of JSON lines.
    pub fn read(path: &std::path::Path) -> Result<Vec<Row>, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let parsed = text.lines().filter(|l| !l.trim().is_empty()).enumerate().map(|(i, line)| {
            serde_json::from_str(line).map(Row).map_err(|e| format!("{} line {}: {e}", path.display(), i + 1))
        });
        parsed.collect()
    }
    /// A text field; empty where the source does not say.
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }
    /// A number above zero.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.0[key].as_f64().filter(|x| *x > 0.0)
    }
    /// A count of at least one.
    pub fn count(&self, key: &str) -> Option<u64> {
        self.number(key).map(|x| x as u64)
    }
    /// A count that the row must give.
    pub fn needs(&self, key: &str) -> Result<u64, String> {
        self.count(key).ok_or_else(|| format!("no {key}"))
    }
    /// A degree of parallelism, 1 where the source does not say.
    pub fn degree(&self, key: &str) -> u64 {
        self.count(key).unwrap_or(1)
    }
    /// Its name.
    pub fn id(&self) -> &str {
        self.text("id")
    }
    /// Where it was published.
    pub fn source(&self) -> &str {
        self.text("source")
    }
    /// Whether this is a whole step (and not one layer).
    pub fn is_step(&self) -> bool {
        self.text("kind") == "step"
    }
}

/// The folder of measurements, where there is one.
pub fn folder() -> Option<std::path::PathBuf> {
    let given = std::env::var("STEPSIM_SHARED").ok().map(std::path::PathBuf::from);
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = given.into_iter().chain([here.join("../shared"), here.join("../../shared")]);
    places.map(|p| p.join("measured")).find(|p| p.join("steps.jsonl").exists())
}
