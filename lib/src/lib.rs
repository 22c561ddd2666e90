//! Keeps, resumes and serves the sessions of AI coding agents over the Agent Client Protocol.

pub mod agent;
pub mod store;
pub mod transport;
