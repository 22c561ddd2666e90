//! Rules 3.1 to 3.23: `session/load`, `session/resume` and replay. After each bad input the connection still works.

mod load;
mod params;
mod resume;
mod stage;
