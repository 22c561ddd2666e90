//! The name of an agent in a narrow column.

/// The name without the scope of an npm package, which many agents have in theirs and which says nothing in a column.
pub(crate) fn short_agent(name: &str) -> &str {
    let package = name.strip_prefix('@').and_then(|scoped| scoped.split_once('/'));
    package.map_or(name, |(_, package)| package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_scope_is_left_out() {
        assert_eq!(short_agent("@agentclientprotocol/claude-agent-acp"), "claude-agent-acp");
        assert_eq!(short_agent("OpenCode"), "OpenCode");
        assert_eq!(short_agent("a/b @c"), "a/b @c");
    }
}
