//! The scripted agent of the tests as a program, on stdin and stdout: `--protocol 1|2|both`, `--bare`.

use rethread::transport::stdio;
use rethread_testkit::agent::{AgentConfig, End, ScriptedAgent, Speaks};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let protocol = words.iter().position(|word| word == "--protocol").and_then(|at| words.get(at + 1));
    let speaks = match protocol.map(String::as_str) {
        Some("1") => Speaks::One,
        Some("2") => Speaks::Two,
        Some(_) | None => Speaks::Both,
    };
    let bare = words.iter().any(|word| word == "--bare");
    let config = if bare { AgentConfig::bare(speaks) } else { AgentConfig::able(speaks) };
    let agent = ScriptedAgent::new(config);
    if agent.run(stdio::open()?.into()).await == End::Crashed {
        eprintln!("the scripted agent crashes, as it was told to");
        std::process::exit(3);
    }
    Ok(())
}
