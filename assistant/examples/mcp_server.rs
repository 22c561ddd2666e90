//! The MCP test server as a program on stdin and stdout. Its arguments are in `testkit/src/mcp/server.rs`.

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(rethread_testkit::mcp::program::run(&words)?);
}
