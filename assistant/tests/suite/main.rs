//! All integration tests of the assistant in one binary, because linking takes most of the build time. Tests that need
//! other installed programs are separate binaries.

mod assistant;
mod mcp;
mod models;
mod tools;
