//! The scripted agent of the tests as a program, on stdin and stdout. `rethread_testkit::agent::program` has its flags.

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let status = rethread_testkit::agent::program::run(std::env::args().skip(1).collect()).await?;
    std::process::exit(status)
}
