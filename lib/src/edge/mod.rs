//! The wire forms of a session, one module per protocol version. Pure conversions between a version's JSON
//! and the canonical shape; connections, ids in flight and journals are elsewhere.

pub mod v1;
