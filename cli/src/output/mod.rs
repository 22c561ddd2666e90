//! Printing for people and programs: escaping hostile text, widths, tables, ages, sizes, colours, JSON, the pager.

pub(crate) mod age;
pub(crate) mod escape;
pub(crate) mod ids;
pub(crate) mod json;
pub(crate) mod paragraph;
pub(crate) mod size;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod width;
