//! All integration tests of the command in one binary, because linking takes most of the build time. Tests that need other
//! installed programs are separate binaries.

mod acp;
mod assistant_program;
mod big_turn;
mod commands;
#[cfg(target_os = "linux")]
mod daemons;
mod durability;
mod example_agent;
mod hosted_terminals;
mod hosts;
mod kill_nine;
mod migration;
mod owners;
mod processes;
mod pseudo_terminal;
mod serving;
mod store_copies;
mod stores;
mod trees;
