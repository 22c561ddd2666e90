//! Observers: what they see of a session wherever it is open, and what they may not do. That they change nothing for others
//! is in `many_clients::observers`.

mod access;
mod following;
