//! Finds, signals and reaps the processes that an agent has started.
//!
//! On Linux the guardian is a subreaper: orphans of the tree become its children, so every descendant of the agent
//! stays its descendant whatever its session or group, and "no child left" means that the tree has ended. On other
//! systems only the agent's process group is known.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

pub(super) use platform::{adopt_orphans, die_with};

/// Whether a process of the tree is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaining {
    Some,
    None,
}

/// An agent and its descendants.
#[derive(Debug)]
pub(super) struct Tree {
    agent: libc::pid_t,
    /// As of the last [`Tree::reap`].
    pub(super) left: Remaining,
}

impl Tree {
    /// The tree of this child, which leads its own process group.
    pub(super) fn of(agent: libc::pid_t) -> Tree {
        Tree { agent, left: Remaining::Some }
    }

    /// The agent's process id.
    pub(super) fn agent(&self) -> libc::pid_t {
        self.agent
    }

    /// Reaps all exited children; returns the agent's exit status once.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        let mut agent = None;
        loop {
            let mut status = 0;
            // SAFETY: `status` is valid for the call. This process does not use its children otherwise.
            match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | platform::ANY_CHILD) } {
                0 => return agent,
                pid if pid == self.agent => agent = Some(ExitStatus::from_raw(status)),
                pid if pid > 0 => {}
                _ => {
                    self.left = platform::left_without_children(self.agent);
                    return agent;
                }
            }
        }
    }

    /// Sends a signal to every process of the tree.
    pub(super) fn signal(&self, signal: libc::c_int) {
        for target in platform::targets(self.agent) {
            // SAFETY: a plain call. A process that has just exited is not found, which is fine.
            unsafe { libc::kill(target, signal) };
        }
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::collections::HashMap;
    use std::io;

    use super::Remaining;

    /// Includes clones that send no signal when they exit.
    pub(super) const ANY_CHILD: libc::c_int = libc::__WALL;

    /// Makes orphaned descendants children of this process.
    pub(in super::super) fn adopt_orphans() -> io::Result<()> {
        // SAFETY: a plain call with constant arguments.
        if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Called in the agent's process before its program starts: makes the agent die if the guardian is killed.
    /// Async-signal-safe.
    pub(in super::super) fn die_with(guardian: u32) -> io::Result<()> {
        // SAFETY: plain calls with constant arguments.
        let parent = unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::getppid()
        };
        // The guardian died before this took effect.
        if parent as u32 != guardian { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    }

    /// Every orphan would be our child, so none is left.
    pub(super) fn left_without_children(_agent: libc::pid_t) -> Remaining {
        Remaining::None
    }

    /// All our descendants; the agent's group if they cannot be determined.
    pub(super) fn targets(agent: libc::pid_t) -> Vec<libc::pid_t> {
        let guardian = std::process::id() as libc::pid_t;
        // The lists of children are read in microseconds, fast enough to catch a process that forks and exits all the
        // time. The process table takes a hundred times longer, but every kernel has it.
        walked(guardian).or_else(|_| listed(guardian)).unwrap_or_else(|_| vec![-agent])
    }

    /// Finds descendants by the kernel's lists of children.
    pub(super) fn walked(root: libc::pid_t) -> io::Result<Vec<libc::pid_t>> {
        let mut found = children(root)?;
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            // A process that has exited meanwhile has none; its children are ours now, for the next round.
            found.extend(children(*parent).unwrap_or_default());
            next += 1;
        }
        Ok(found)
    }

    fn children(parent: libc::pid_t) -> io::Result<Vec<libc::pid_t>> {
        let mut found: Vec<libc::pid_t> = Vec::new();
        for thread in std::fs::read_dir(format!("/proc/{parent}/task"))? {
            let thread = thread?.path();
            match std::fs::read_to_string(thread.join("children")) {
                Ok(text) => found
                    .extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<libc::pid_t>().ok())),
                // Exited meanwhile; its children moved to another thread or to us.
                Err(_) if !thread.exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Finds descendants by the parent ids of all processes.
    pub(super) fn listed(root: libc::pid_t) -> io::Result<Vec<libc::pid_t>> {
        let mut by_parent = by_parent()?;
        let mut found = by_parent.remove(&root).unwrap_or_default();
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            found.extend(by_parent.remove(parent).unwrap_or_default());
            next += 1;
        }
        Ok(found)
    }

    fn by_parent() -> io::Result<HashMap<libc::pid_t, Vec<libc::pid_t>>> {
        let mut by_parent: HashMap<libc::pid_t, Vec<libc::pid_t>> = HashMap::new();
        for entry in std::fs::read_dir("/proc")? {
            let Ok(entry) = entry else { continue };
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process that has exited meanwhile has no such file.
            let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
            if let Some(parent) = parent_in(&String::from_utf8_lossy(&stat)) {
                by_parent.entry(parent).or_default().push(pid);
            }
        }
        Ok(by_parent)
    }

    /// The parent id in a `stat` file. The name before it may contain anything, including `)`.
    pub(super) fn parent_in(stat: &str) -> Option<libc::pid_t> {
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;

    use super::Remaining;

    pub(super) const ANY_CHILD: libc::c_int = 0;

    /// Not available on this system.
    pub(in super::super) fn adopt_orphans() -> io::Result<()> {
        Ok(())
    }

    /// Not available on this system.
    pub(in super::super) fn die_with(_guardian: u32) -> io::Result<()> {
        Ok(())
    }

    /// The agent has been reaped, but its group may have other members.
    pub(super) fn left_without_children(agent: libc::pid_t) -> Remaining {
        // SAFETY: a plain call that only checks for existence.
        if unsafe { libc::kill(-agent, 0) } == 0 { Remaining::Some } else { Remaining::None }
    }

    pub(super) fn targets(agent: libc::pid_t) -> Vec<libc::pid_t> {
        vec![-agent]
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::platform::{listed, parent_in, walked};

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("12 (sh) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent_in("12 (a) b (c)) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent_in("12 (sh"), None);
    }

    #[test]
    fn a_grandchild_is_found_either_way() {
        let script = "sh -c 'sleep 10 & echo $!; wait' & wait";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let grandchild: i32 = line.trim().parse().unwrap();
        let root = child.id() as i32;
        let (listed, walked) = (listed(root), walked(root));
        for pid in walked.as_ref().unwrap().iter().copied().chain([root]) {
            // SAFETY: a plain call, for processes that this test started.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        child.wait().unwrap();
        assert!(listed.unwrap().contains(&grandchild));
        assert!(walked.unwrap().contains(&grandchild));
    }
}
