//! The built-in assistant.

pub mod model;
