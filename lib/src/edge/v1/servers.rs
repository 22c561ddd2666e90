//! MCP servers as a client names them. The canonical shape tags each with its transport; the first version
//! leaves the tag of stdio out. Starting or judging a server is elsewhere.

use rethread_core::{Fields, Json, ServerNote};

use super::meta::{each, present};

/// The canonical list of servers.
#[must_use]
pub fn list_from_v1(servers: &Json) -> Json {
    each(servers, |server| from_v1(server.fields()).json())
}

/// The list of servers of the first version.
#[must_use]
pub fn list_to_v1(servers: &Json) -> Json {
    each(servers, |server| to_v1(server.fields()).json())
}

/// The canonical form of one server.
#[must_use]
pub fn from_v1(mut server: Fields) -> Fields {
    if present(&server, "type").is_some() {
        return server;
    }
    server.take("type");
    let members = server.iter().map(|(name, value)| (name.to_owned(), value.clone()));
    std::iter::once(("type".to_owned(), Json::of("stdio"))).chain(members).collect()
}

/// The form of one server in the first version, which wants even empty lists to be there.
#[must_use]
pub fn to_v1(mut server: Fields) -> Fields {
    match transport_of(&server).as_str() {
        "stdio" => {
            server.take("type");
            fill(&mut server, &["args", "env"]);
        }
        "http" | "sse" => fill(&mut server, &["headers"]),
        _ => {}
    }
    server
}

/// The transport of a server in either form.
#[must_use]
pub fn transport_of(server: &Fields) -> String {
    server.text("type").unwrap_or_else(|| "stdio".to_owned())
}

/// What of a server may be written down.
#[must_use]
pub fn note(server: &Fields) -> ServerNote {
    ServerNote { name: server.text("name").unwrap_or_default(), transport: transport_of(server) }
}

fn fill(server: &mut Fields, lists: &[&str]) {
    for list in lists {
        if present(server, list).is_none() {
            server.set(list, Json::of::<[Json]>(&[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};

    use super::*;
    use crate::edge::v1::typed::{holds, json, parses};

    #[test]
    fn servers_of_the_first_version_go_and_return() {
        for server in [
            r#"{"name":"s","command":"/bin/s","args":[],"env":[{"name":"A","value":"1"}],"_meta":{"k":1}}"#,
            r#"{"type":"http","name":"h","url":"https://h","headers":[]}"#,
            r#"{"type":"sse","name":"e","url":"https://e","headers":[{"name":"A","value":"1"}]}"#,
            r#"{"type":"acp","name":"a","serverId":"1"}"#,
        ] {
            let server = json(server);
            holds::<v1::McpServer>(&server);
            let canonical = from_v1(server.fields());
            parses::<v2::McpServer>(&canonical.json());
            assert_eq!(to_v1(canonical).json(), server);
        }
    }

    #[test]
    fn lists_that_the_second_version_leaves_out_are_filled_in() {
        let list = json(
            r#"[{"type":"stdio","name":"s","command":"/bin/s"},{"type":"http","name":"h","url":"https://h"}]"#,
        );
        parses::<Vec<v2::McpServer>>(&list);
        let shown = list_to_v1(&list);
        holds::<Vec<v1::McpServer>>(&shown);
        holds::<Vec<v2::McpServer>>(&list);
    }

    #[test]
    fn a_note_has_no_secrets() {
        let server = json(r#"{"name":"s","command":"/bin/s","args":["--token=1"],"env":[]}"#).fields();
        let noted = note(&server);
        assert_eq!((noted.name.as_str(), noted.transport.as_str()), ("s", "stdio"));
        let typed: v2::McpServer = parses(&from_v1(server).json());
        assert!(matches!(typed, v2::McpServer::Stdio(_)));
    }
}
