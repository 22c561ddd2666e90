//! Three hosts with one database and its synchronous standby, clients that move between the hosts, and a check of all that happened.

pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod faults;
pub(crate) mod history;
pub(crate) mod traveller;
