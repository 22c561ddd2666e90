//! The built-in assistant.

pub mod model;
pub mod tools;
