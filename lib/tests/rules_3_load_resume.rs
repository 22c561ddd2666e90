//! Rules 3.1 to 3.23: `session/load`, `session/resume` and replay. After each bad input the connection still works.

#[path = "rules_3_load_resume/load.rs"]
mod load;
#[path = "rules_3_load_resume/params.rs"]
mod params;
#[path = "rules_3_load_resume/resume.rs"]
mod resume;
#[path = "rules_3_load_resume/stage.rs"]
mod stage;
