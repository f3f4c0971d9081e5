//! Nothing: see the features in its Cargo.toml.
