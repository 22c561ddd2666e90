//! Rules 1.1 to 1.22: connection, versions, ids, and what the server makes of bad lines. After each bad input the
//! connection still works.

#[path = "rules_1_connection/answered.rs"]
mod answered;
#[path = "rules_1_connection/bad_lines.rs"]
mod bad_lines;
#[path = "rules_1_connection/messages.rs"]
mod messages;
#[path = "rules_1_connection/stage.rs"]
mod stage;
#[path = "rules_1_connection/taken_back.rs"]
mod taken_back;
#[path = "rules_1_connection/versions.rs"]
mod versions;
