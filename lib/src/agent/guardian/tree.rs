//! The processes that an agent has started: who they are, whether any is left, how to signal them all. Knows
//! nothing of when that is done.
//!
//! On Linux the guardian adopts the orphans of the tree, so everything that ever descends from the agent stays
//! a descendant of the guardian, whatever it does about sessions and groups; and "no child left" means that
//! the tree is gone. Elsewhere the agent's process group is all there is to hold on to.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

pub(super) use platform::{adopt_orphans, die_with};

/// Whether a process of the tree is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// At least one.
    Something,
    /// None.
    Nothing,
}

/// An agent and its descendants.
#[derive(Debug)]
pub(super) struct Tree {
    agent: libc::pid_t,
    /// As of the last [`Tree::reap`].
    pub(super) left: Left,
}

impl Tree {
    /// The tree of this child of ours, which leads a group of its own.
    pub(super) fn of(agent: libc::pid_t) -> Tree {
        Tree { agent, left: Left::Something }
    }

    /// The agent's process id.
    pub(super) fn agent(&self) -> libc::pid_t {
        self.agent
    }

    /// Collects all ended children; returns how the agent ended, the one time it is found among them.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        let mut agent = None;
        loop {
            let mut status = 0;
            // SAFETY: `status` is valid for the call. This process has no other use for its children.
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
            // SAFETY: a plain call. One that has just ended is not found, which is what we want.
            unsafe { libc::kill(target, signal) };
        }
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::collections::HashMap;
    use std::io;

    use super::Left;

    /// Clones that signal nothing at their end are children too.
    pub(super) const ANY_CHILD: libc::c_int = libc::__WALL;

    /// Makes orphaned descendants children of this process instead of init's.
    pub(in super::super) fn adopt_orphans() -> io::Result<()> {
        // SAFETY: a plain call with constant arguments.
        if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Called in the agent's process before its program starts: should somebody kill the guardian itself, the
    /// agent goes with it. Async-signal-safe.
    pub(in super::super) fn die_with(guardian: u32) -> io::Result<()> {
        // SAFETY: plain calls with constant arguments.
        let parent = unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::getppid()
        };
        // Gone before it could count.
        if parent as u32 != guardian { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    }

    /// Every orphan would be our child, so there is nobody.
    pub(super) fn left_without_children(_agent: libc::pid_t) -> Left {
        Left::Nothing
    }

    /// All our descendants; the agent's group where nobody tells us who they are.
    pub(super) fn targets(agent: libc::pid_t) -> Vec<libc::pid_t> {
        let guardian = std::process::id() as libc::pid_t;
        // The tree itself first: it is read in microseconds, fast enough to catch a process that forks and exits
        // all the time. The table of all processes takes a hundred times longer, but every kernel has it.
        walked(guardian).or_else(|_| listed(guardian)).unwrap_or_else(|_| vec![-agent])
    }

    /// Descendants by the lists of children that the kernel keeps.
    pub(super) fn walked(root: libc::pid_t) -> io::Result<Vec<libc::pid_t>> {
        let mut found = children(root)?;
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            // One that has ended meanwhile has none; they are our children now, for the next round.
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
                // Ended meanwhile; its children are with another thread or with us.
                Err(_) if !thread.exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Descendants by the parents that all processes name.
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
            // One that has ended meanwhile has no such file.
            let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
            if let Some(parent) = parent_in(&String::from_utf8_lossy(&stat)) {
                by_parent.entry(parent).or_default().push(pid);
            }
        }
        Ok(by_parent)
    }

    /// The parent's id in the text of a `stat` file. The name before it may hold anything, `)` too.
    pub(super) fn parent_in(stat: &str) -> Option<libc::pid_t> {
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;

    use super::Left;

    pub(super) const ANY_CHILD: libc::c_int = 0;

    /// Not to be had here.
    pub(in super::super) fn adopt_orphans() -> io::Result<()> {
        Ok(())
    }

    /// Not to be had here.
    pub(in super::super) fn die_with(_guardian: u32) -> io::Result<()> {
        Ok(())
    }

    /// The agent has been collected, but its group may have other members.
    pub(super) fn left_without_children(agent: libc::pid_t) -> Left {
        // SAFETY: a plain call that only asks.
        if unsafe { libc::kill(-agent, 0) } == 0 { Left::Something } else { Left::Nothing }
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
            // SAFETY: a plain call, for processes that this test has started.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        child.wait().unwrap();
        assert!(listed.unwrap().contains(&grandchild));
        assert!(walked.unwrap().contains(&grandchild));
    }
}
