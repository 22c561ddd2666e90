//! Keeps, resumes and serves the sessions of AI coding agents over the Agent Client Protocol.

pub mod edge;
pub mod store;
