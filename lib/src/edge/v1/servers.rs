//! Converts MCP server definitions. The canonical form always has a transport type; version 1 omits it for stdio.

use rethread_core::{Fields, Json, ServerNote};

use super::meta::{each, present};

/// Converts a list of v1 servers to canonical form.
#[must_use]
pub fn list_from_v1(servers: &Json) -> Json {
    each(servers, |server| from_v1(server.fields()).json())
}

/// Converts a canonical list of servers to v1.
#[must_use]
pub fn list_to_v1(servers: &Json) -> Json {
    each(servers, |server| to_v1(server.fields()).json())
}

/// Converts one v1 server to canonical form.
#[must_use]
pub fn from_v1(mut server: Fields) -> Fields {
    if present(&server, "type").is_some() {
        return server;
    }
    server.take("type");
    let members = server.iter().map(|(name, value)| (name.to_owned(), value.clone()));
    std::iter::once(("type".to_owned(), Json::of("stdio"))).chain(members).collect()
}

/// Converts one canonical server to v1, which requires even empty lists.
#[must_use]
pub fn to_v1(mut server: Fields) -> Fields {
    match transport_of(&server).as_str() {
        "stdio" => {
            server.take("type");
            fill_empty_lists(&mut server, &["args", "env"]);
        }
        "http" | "sse" => fill_empty_lists(&mut server, &["headers"]),
        _ => {}
    }
    server
}

/// The transport of a server in either form.
#[must_use]
pub fn transport_of(server: &Fields) -> String {
    server.text("type").unwrap_or_else(|| "stdio".to_owned())
}

/// The part of a server definition that may be stored: no secrets.
#[must_use]
pub fn server_note(server: &Fields) -> ServerNote {
    ServerNote { name: server.text("name").unwrap_or_default(), transport: transport_of(server) }
}

fn fill_empty_lists(server: &mut Fields, lists: &[&str]) {
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
    use crate::edge::v1::schema_checks::{json, parses, roundtrips};

    #[test]
    fn v1_servers_round_trip() {
        for server in [
            r#"{"name":"s","command":"/bin/s","args":[],"env":[{"name":"A","value":"1"}],"_meta":{"k":1}}"#,
            r#"{"type":"http","name":"h","url":"https://h","headers":[]}"#,
            r#"{"type":"sse","name":"e","url":"https://e","headers":[{"name":"A","value":"1"}]}"#,
            r#"{"type":"acp","name":"a","serverId":"1"}"#,
        ] {
            let server = json(server);
            roundtrips::<v1::McpServer>(&server);
            let canonical = from_v1(server.fields());
            parses::<v2::McpServer>(&canonical.json());
            assert_eq!(to_v1(canonical).json(), server);
        }
    }

    #[test]
    fn omitted_lists_are_filled_in_for_v1() {
        let list = json(
            r#"[{"type":"stdio","name":"s","command":"/bin/s"},{"type":"http","name":"h","url":"https://h"}]"#,
        );
        parses::<Vec<v2::McpServer>>(&list);
        let shown = list_to_v1(&list);
        roundtrips::<Vec<v1::McpServer>>(&shown);
        roundtrips::<Vec<v2::McpServer>>(&list);
    }

    #[test]
    fn a_server_note_has_no_secrets() {
        let server = json(r#"{"name":"s","command":"/bin/s","args":["--token=1"],"env":[]}"#).fields();
        let noted = server_note(&server);
        assert_eq!((noted.name.as_str(), noted.transport.as_str()), ("s", "stdio"));
        let typed: v2::McpServer = parses(&from_v1(server).json());
        assert!(matches!(typed, v2::McpServer::Stdio(_)));
    }
}
