//! The classes of kernels, told by their names. The names are data (`classes.json`), and a user's file goes before
//! them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stepsim_located::from_text;
use stepsim_spec::SpecError;
use stepsim_spec::glob::fits;

/// The resource that a device event takes: compute units, links, or the memory of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// A kernel that computes.
    Compute,
    /// A collective or a message, be it of NCCL or a kernel of one's own.
    Communication,
    /// A copy or a fill by the driver.
    Memory,
}

/// The tables of names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassTables {
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default)]
    classes: Vec<KernelRule>,
    #[serde(default)]
    copies: Vec<CopyRule>,
    #[serde(default)]
    collectives: Vec<CollectiveRule>,
}

/// A class of kernels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelRule {
    class: String,
    family: Family,
    #[serde(default)]
    work: String,
    patterns: Vec<NamePattern>,
}

/// A class of copies and fills.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CopyRule {
    class: String,
    patterns: Vec<NamePattern>,
}

/// A kind of communication.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CollectiveRule {
    kind: String,
    patterns: Vec<NamePattern>,
}

/// Part of a name, as a pattern of the whole one in lower case.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
struct NamePattern(String);

impl TryFrom<String> for NamePattern {
    type Error = String;
    fn try_from(text: String) -> Result<NamePattern, String> {
        let lower = text.to_ascii_lowercase();
        if lower == "^" {
            return Err("`^` alone matches nothing in particular; give the start of a name".to_string());
        }
        let from = lower.strip_prefix('^').map_or_else(|| format!("*{lower}"), str::to_owned);
        Ok(NamePattern(from.strip_suffix('$').map_or_else(|| format!("{from}*"), str::to_owned)))
    }
}

fn any(patterns: &[NamePattern], name: &str) -> bool {
    patterns.iter().any(|pattern| fits(&pattern.0, name))
}

/// The class of a device event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventClass {
    /// The library or the purpose: `cuBLAS`, `FlashAttention`, `memset`.
    pub class: String,
    /// The resource that it takes.
    pub family: Family,
    /// The kind of work: `gemm`, `attention`, `memory-bound`, …; empty where it is not said.
    pub work: String,
}

impl ClassTables {
    /// The tables that the program carries.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn shipped() -> ClassTables {
        serde_json::from_str(include_str!("classes.json")).expect("the shipped classes are well formed")
    }

    /// The shipped tables with a file's before them. `file` is its name for messages.
    ///
    /// # Errors
    /// The text is no such table.
    pub fn with(text: &str, file: &str) -> Result<ClassTables, SpecError> {
        let mut own: ClassTables = from_text(text).map_err(|e| {
            SpecError::at(e.path, e.problem)
                .in_file(file)
                .allowed(
                    "{\"classes\": [{\"class\": \"mine\", \"family\": \"compute\", \"patterns\": [\"my_kernel\"]}]}; \
                     family: compute or communication",
                )
                .hint("lists `copies` and `collectives` may stand beside `classes`")
        })?;
        if let Some(at) = own.classes.iter().position(|c| c.family == Family::Memory) {
            return Err(SpecError::at(format!("classes[{at}].family"), "memory is not allowed")
                .in_file(file)
                .allowed("compute or communication")
                .hint(
                    "copies and fills are told by the profiler's category; their names stand under `copies`",
                ));
        }
        let shipped = ClassTables::shipped();
        own.classes.extend(shipped.classes);
        own.copies.extend(shipped.copies);
        own.collectives.extend(shipped.collectives);
        Ok(own)
    }

    /// The class of a kernel, or (`copy`) of a copy or fill of the driver. An event named as communication is
    /// communication, whichever of the two it is.
    pub fn of(&self, name: &str, copy: bool) -> EventClass {
        let name = name.to_ascii_lowercase();
        let communication = self.classes.iter().filter(|c| c.family == Family::Communication);
        let compute = self.classes.iter().filter(|c| c.family == Family::Compute && !copy);
        if let Some(c) = communication.chain(compute).find(|c| any(&c.patterns, &name)) {
            return EventClass { class: c.class.clone(), family: c.family, work: c.work.clone() };
        }
        let class = match copy {
            true => self.copies.iter().find(|c| any(&c.patterns, &name)).map_or("memcpy", |c| &c.class),
            false => "other",
        };
        let family = if copy { Family::Memory } else { Family::Compute };
        EventClass { class: class.to_string(), family, work: String::new() }
    }

    /// The kind of communication that a collective's or a kernel's name tells: `all-reduce`, …, else `other`.
    pub fn kind(&self, name: &str) -> &str {
        let name = name.to_ascii_lowercase();
        self.collectives.iter().find(|c| any(&c.patterns, &name)).map_or("other", |c| &c.kind)
    }
}
