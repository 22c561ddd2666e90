//! The scripted test agent as a program on stdin and stdout. Its flags are in `rethread_testkit::agent::program`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let status = rethread_testkit::agent::program::run(std::env::args().skip(1).collect()).await?;
    std::process::exit(status)
}
