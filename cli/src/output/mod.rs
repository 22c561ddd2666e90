//! Printing for people and programs: escaping hostile text, widths, tables, passages, ages, names of agents, sizes, colours, JSON,
//! progress bars, the pager.

pub(crate) mod age;
pub(crate) mod agent_name;
pub(crate) mod escape;
pub(crate) mod ids;
pub(crate) mod json;
pub(crate) mod paragraph;
pub(crate) mod passage;
pub(crate) mod progress;
pub(crate) mod size;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod width;
