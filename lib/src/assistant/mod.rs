//! The built-in assistant.

pub mod tools;
