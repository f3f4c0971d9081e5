//! Declarations that say a fact where it belongs: the name of a variant beside the variant, the default of a field beside the
//! field.

/// An enum with a text behind each variant: `name`, or a function called otherwise, gives the text, and `ALL` has the variants
/// in the order in which they are written.
macro_rules! named {
    ($(#[$about:meta])* $visible:vis enum $($rest:tt)*) => {
        $crate::core::declare::named! { name: $(#[$about])* $visible enum $($rest)* }
    };
    ($text:ident: $(#[$about:meta])* $visible:vis enum $enum:ident {
        $($(#[$of:meta])* $variant:ident = $name:literal),* $(,)?
    }) => {
        $(#[$about])*
        $visible enum $enum { $($(#[$of])* $variant),* }

        impl $enum {
            /// All of them, in the order of reports.
            pub const ALL: [$enum; [$($name),*].len()] = [$($enum::$variant),*];
            /// What stands behind it: as a rule its name in files and reports.
            pub const fn $text(self) -> &'static str {
                match self { $($enum::$variant => $name),* }
            }
        }
    };
}
pub(crate) use named;

/// A struct with defaults: those written behind fields, and those of their types.
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
                $struct { $($field: $crate::core::declare::defaults!(@of $($default)?)),* }
            }
        }
    };
}
pub(crate) use defaults;
