//! Rules 1.1 to 1.22: connection, versions, ids, and what the server makes of bad lines. After each bad input the
//! connection still works.

mod answered;
mod bad_lines;
mod messages;
mod stage;
mod taken_back;
mod versions;
