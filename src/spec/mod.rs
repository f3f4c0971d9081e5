//! The JSON files: their exact shape and their validation.
