//! Models over each protocol, against the loopback model server: what is said, what is asked, and what fails.

mod asked;
mod failed;
mod listed;
mod said;
mod stage;
