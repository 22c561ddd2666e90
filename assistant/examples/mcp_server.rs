//! The MCP server of the tests as a program, on stdin and stdout. Its words are in `testkit/src/mcp/server.rs`.

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(rethread_testkit::mcp::program::run(&words)?);
}
