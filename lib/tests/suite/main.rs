//! All integration tests of the library in one binary, because linking takes most of the build time. Tests that need other
//! installed programs are separate binaries.

mod agent_hosts;
mod author;
mod capabilities;
mod choices;
mod client;
mod client_view;
mod edge_v1;
mod ladder;
mod library_agent;
mod local_services;
mod many_clients;
mod notices;
mod options;
mod protocol_list;
mod quirks;
mod relays;
mod rules_1_connection;
mod rules_2_new;
mod rules_3_load_resume;
mod rules_4_list_and_ends;
mod rules_5_prompt;
mod rules_6_cancel_permission;
mod rules_7_state;
mod rules_8_updates;
mod scripts;
mod sdk_pairings;
mod searches;
mod session_files;
mod stdio;
mod store;
mod store_contract;
mod store_embedded;
mod tidy;
mod transports;
mod web_page;
