//! Finds the official conductor, which is measured without proxies in place of rethread. It is not a dependency:
//! `.ci/conductor` installs it, or `RETHREAD_BENCH_CONDUCTOR` names it.

use std::path::PathBuf;

/// The program, if it is installed.
pub(crate) fn find() -> Option<PathBuf> {
    let named = std::env::var_os("RETHREAD_BENCH_CONDUCTOR").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let installed = cache.map(|cache| cache.join("rethread-bench/bin/agent-client-protocol-conductor"));
    named.or(installed).filter(|program| program.is_file())
}
