//! Models over each protocol, against the loopback model server: what is said, what is asked, and what fails.
#![cfg(feature = "assistant")]

#[path = "models/asked.rs"]
mod asked;
#[path = "models/failed.rs"]
mod failed;
#[path = "models/listed.rs"]
mod listed;
#[path = "models/said.rs"]
mod said;
#[path = "models/stage.rs"]
mod stage;
