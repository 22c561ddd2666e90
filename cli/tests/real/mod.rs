//! What the test of real agents is made of.

pub(crate) mod agents;
pub(crate) mod imported;
pub(crate) mod killed;
pub(crate) mod speed;
pub(crate) mod stage;
pub(crate) mod translated;
