//! The writer thread in front of a store.
