//! What Rethread's own tests are made with. It never ships.

pub mod fault;
