//! All integration tests of the core in one binary, because linking takes most of the build time.

mod builder;
mod common;
mod decide;
mod fold;
mod laws;
mod lease_model;
mod readable;
