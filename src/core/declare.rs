//! Declarations that say a fact where it belongs: the name of a variant beside the variant, the default of a field
//! beside the field.

pub use crate::{by_name, defaults, named, summed};

/// An enum with a text behind each variant: `name`, or a function called otherwise, gives the text, and `ALL` has the
/// variants in the order in which they are written.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $visible:vis enum $($rest:tt)*) => {
        $crate::named! { name: $(#[$about])* $visible enum $($rest)* }
    };
    ($text:ident: $(#[$about:meta])* $visible:vis enum $enum:ident {
        $($(#[$of:meta])* $variant:ident = $name:literal),* $(,)?
    }) => {
        $(#[$about])*
        $visible enum $enum { $($(#[$of])* $variant),* }

        impl $enum {
            /// All of them, in the order of reports.
            pub const ALL: [$enum; [$($name),*].len()] = [$($enum::$variant),*];
            /// The text behind it: as a rule its name in files and reports.
            pub const fn $text(self) -> &'static str {
                match self { $($enum::$variant => $name),* }
            }
        }
    };
}

/// A struct with defaults: written behind fields, or taken from their types.
#[macro_export]
macro_rules! defaults {
    (@of) => { Default::default() };
    (@of $default:expr) => { $default };
    ($(#[$about:meta])* $visible:vis struct $struct:ident {
        $($(#[$of:meta])* $seen:vis $field:ident: $type:ty $(= $default:expr)?),* $(,)?
    }) => {
        $(#[$about])*
        $visible struct $struct { $($(#[$of])* $seen $field: $type),* }

        impl Default for $struct {
            fn default() -> $struct {
                $struct { $($field: $crate::defaults!(@of $($default)?)),* }
            }
        }
    };
}

/// A struct of figures that are summed, each with its name in tables: `named` gives them in the order in which they are
/// written, `total` is their sum.
#[macro_export]
macro_rules! summed {
    ($(#[$about:meta])* $visible:vis struct $struct:ident {
        $($(#[$of:meta])* $seen:vis $field:ident: f64 = $name:literal),* $(,)?
    }) => {
        $(#[$about])*
        $visible struct $struct { $($(#[$of])* $seen $field: f64),* }

        impl $struct {
            /// All of them with their names.
            pub fn named(&self) -> [(&'static str, f64); [$($name),*].len()] {
                [$(($name, self.$field)),*]
            }
            /// All of them together.
            pub fn total(&self) -> f64 {
                self.named().iter().map(|part| part.1).sum()
            }
        }
    };
}

/// A type whose values files write by name: `find` knows a name or alias, `all` has the values, `name` says one's,
/// `words` what it is and its aliases. The schema has this title and description.
#[macro_export]
macro_rules! by_name {
    ($type:ident, $title:literal, $about:literal) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
        impl PartialEq for $type {
            fn eq(&self, other: &$type) -> bool {
                self.name() == other.name()
            }
        }
        impl Eq for $type {}
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                static NAMES: std::sync::LazyLock<Vec<&'static str>> =
                    std::sync::LazyLock::new(|| $type::all().map($type::name).collect());
                let name = String::deserialize(deserializer)?;
                $type::find(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, &NAMES))
            }
        }
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $title.into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let word = |name: &str, about: String| {
                    schemars::json_schema!({"type": "string", "const": name, "description": about})
                };
                let words = $type::all().flat_map(|value| {
                    let (name, (about, aliases)) = (value.name(), value.words());
                    let alias = move |alias: &&str| word(alias, format!("The same as `{name}`."));
                    std::iter::once(word(name, about)).chain(aliases.iter().map(alias))
                });
                schemars::json_schema!({"description": $about, "oneOf": words.collect::<Vec<_>>()})
            }
        }
    };
}

/// One, as the default of a field of a file.
pub fn one() -> u32 {
    1
}
/// The same of a long field.
pub fn one_long() -> u64 {
    1
}
