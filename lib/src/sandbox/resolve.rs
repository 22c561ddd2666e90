//! Resolves paths inside the roots of a session. A path is walked one name at a time, each opened relative to the
//! previous directory, and symbolic links are followed explicitly. So nothing outside the roots is opened, even if
//! files are swapped meanwhile. Reads and writes no files.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use super::at;

/// The maximum number of symbolic links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The roots of a session that exist.
#[derive(Clone, Debug)]
pub struct Roots(Vec<Root>);

/// A root as it was named, and its real path.
#[derive(Clone, Debug)]
struct Root {
    named: PathBuf,
    real: PathBuf,
}

/// A name in an open directory. The name may not exist; if it does, it is not a symbolic link.
#[derive(Debug)]
pub struct SandboxPath {
    /// The open directory.
    pub directory: OwnedFd,
    /// The name in the directory.
    pub name: OsString,
    /// The path of the name.
    pub at: ResolvedPath,
}

/// A resolved path in two forms. Below the root neither contains links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    /// With the root as it was named, for display.
    pub shown: PathBuf,
    /// With the real path of the root, to open it again.
    pub real: PathBuf,
}

/// What a path resolves to.
#[derive(Debug)]
pub enum PathTarget {
    /// A name in an open directory.
    Entry(SandboxPath),
    /// An open directory: a root, or the target of `..`.
    Directory(OwnedFd, ResolvedPath),
    /// A path through directories that do not exist.
    Missing(ResolvedPath),
}

/// What to do about missing directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingDirs {
    /// Return an error.
    Fail,
    /// Create them.
    Create,
    /// Return the path.
    Report,
}

/// What to do about symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Follow them as long as they stay inside the roots.
    Follow,
    /// Refuse them: the path was resolved before.
    Refuse,
}

/// Why a path cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The path leads outside the roots.
    #[error("the path is outside the session's roots")]
    Outside,
    /// A symbolic link was created since the path was resolved.
    #[error("a symbolic link has taken the place of part of the path")]
    Linked,
    /// The system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Roots {
    /// Returns the roots that exist.
    pub fn find(paths: &[impl AsRef<Path>]) -> Self {
        let real = |path: &Path| Some(Root { named: path.into(), real: std::fs::canonicalize(path).ok()? });
        Self(paths.iter().filter_map(|path| real(path.as_ref())).collect())
    }

    /// The roots that are not inside another one, as they were named.
    pub fn outermost(&self) -> Vec<&Path> {
        let mut found: Vec<&Root> = Vec::new();
        for root in &self.0 {
            let inner =
                self.0.iter().any(|other| other.real != root.real && root.real.starts_with(&other.real));
            if !inner && !found.iter().any(|other| other.real == root.real) {
                found.push(root);
            }
        }
        found.into_iter().map(|root| root.named.as_path()).collect()
    }

    /// Resolves an absolute path to a name in an open directory.
    pub fn resolve(&self, path: &Path, missing: MissingDirs) -> Result<SandboxPath, PathError> {
        self.resolve_with(path, missing, LinkPolicy::Follow)
    }

    /// Resolves with an explicit policy for links.
    pub fn resolve_with(
        &self,
        path: &Path,
        missing: MissingDirs,
        links: LinkPolicy,
    ) -> Result<SandboxPath, PathError> {
        match self.target(path, missing, links)? {
            PathTarget::Entry(place) => Ok(place),
            PathTarget::Directory(..) => Err(io::Error::from_raw_os_error(libc::EISDIR).into()),
            PathTarget::Missing(_) => Err(io::Error::from_raw_os_error(libc::ENOENT).into()),
        }
    }

    /// Resolves an absolute path to a name or a directory.
    pub fn target(
        &self,
        path: &Path,
        missing: MissingDirs,
        links: LinkPolicy,
    ) -> Result<PathTarget, PathError> {
        self.walk(path, WalkOptions { missing, links, last: LastName::Name })
    }

    /// Opens the directory that an absolute path names.
    pub fn directory(&self, path: &Path) -> Result<OwnedFd, PathError> {
        Ok(self.directory_at(path)?.0)
    }

    /// Opens the directory that an absolute path names, and returns its resolved path.
    pub fn directory_at(&self, path: &Path) -> Result<(OwnedFd, ResolvedPath), PathError> {
        let options =
            WalkOptions { missing: MissingDirs::Fail, links: LinkPolicy::Follow, last: LastName::Directory };
        match self.walk(path, options)? {
            PathTarget::Directory(directory, at) => Ok((directory, at)),
            PathTarget::Entry(_) | PathTarget::Missing(_) => {
                Err(io::Error::from_raw_os_error(libc::ENOTDIR).into())
            }
        }
    }

    fn walk(&self, path: &Path, options: WalkOptions) -> Result<PathTarget, PathError> {
        let mut walk = PathWalk::start(self, path)?;
        while let Some(name) = walk.names.pop_front() {
            if name == ".." {
                walk.up()?;
                continue;
            }
            let is_last = walk.names.is_empty() && options.last == LastName::Name;
            match at::read_link(walk.here().as_fd(), &name) {
                Ok(Some(_)) if options.links == LinkPolicy::Refuse => return Err(PathError::Linked),
                Ok(Some(target)) => walk.follow(Path::new(&target))?,
                Ok(None) if is_last => return Ok(walk.end_at(name)),
                Ok(None) => walk.enter(name)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => match (is_last, options.missing) {
                    (true, _) => return Ok(walk.end_at(name)),
                    (false, MissingDirs::Create) => walk.make(name)?,
                    (false, MissingDirs::Report) => return walk.end_missing(name),
                    (false, MissingDirs::Fail) => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(walk.end_here())
    }

    /// Finds the outermost root that contains a path, and the names below it.
    fn locate(&self, path: &Path) -> Result<(&Root, VecDeque<OsString>), PathError> {
        let inside = |root: &'_ Root| {
            let below = path.strip_prefix(&root.named).or_else(|_| path.strip_prefix(&root.real)).ok();
            below.map(names)
        };
        let found = self.0.iter().filter_map(|root| Some((root, inside(root)?)));
        found.min_by_key(|(root, _)| root.real.components().count()).ok_or(PathError::Outside)
    }
}

/// The policies of a walk.
#[derive(Clone, Copy)]
struct WalkOptions {
    missing: MissingDirs,
    links: LinkPolicy,
    last: LastName,
}

/// Whether the last name must be a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastName {
    Name,
    Directory,
}

/// The state of walking along a path.
struct PathWalk<'a> {
    roots: &'a Roots,
    root: &'a Root,
    /// The root and every directory entered below it; the last one is current.
    above: Vec<OwnedFd>,
    /// The names of those directories below the root.
    entered: Vec<OsString>,
    names: VecDeque<OsString>,
    links: usize,
}

impl<'a> PathWalk<'a> {
    fn start(roots: &'a Roots, path: &Path) -> Result<Self, PathError> {
        let (root, names) = roots.locate(path)?;
        let above = vec![at::open_root(&root.real)?];
        Ok(Self { roots, root, above, entered: Vec::new(), names, links: 0 })
    }

    fn here(&self) -> &OwnedFd {
        self.above.last().expect("a walk is always somewhere")
    }

    fn enter(&mut self, name: OsString) -> Result<(), PathError> {
        let entered = at::open_directory(self.here().as_fd(), &name)?;
        self.above.push(entered);
        self.entered.push(name);
        Ok(())
    }

    fn make(&mut self, name: OsString) -> Result<(), PathError> {
        match at::make_directory(self.here().as_fd(), &name) {
            // Another process may have created a link; entering it follows none.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            Ok(()) | Err(_) => self.enter(name),
        }
    }

    /// Goes to the parent directory, which may be outside this root and inside another.
    fn up(&mut self) -> Result<(), PathError> {
        if self.above.len() > 1 {
            self.above.pop();
            self.entered.pop();
            return Ok(());
        }
        let parent = self.root.real.parent().unwrap_or(&self.root.real).to_owned();
        self.jump(&parent)
    }

    fn follow(&mut self, target: &Path) -> Result<(), PathError> {
        if target.is_absolute() {
            return self.jump(target);
        }
        self.count()?;
        for name in names(target).into_iter().rev() {
            self.names.push_front(name);
        }
        Ok(())
    }

    /// Continues at an absolute path, if it is inside a root.
    fn jump(&mut self, to: &Path) -> Result<(), PathError> {
        self.count()?;
        let whole: PathBuf = std::iter::once(to.as_os_str()).chain(self.names.iter().map(|n| &**n)).collect();
        let (root, names) = self.roots.locate(&whole)?;
        self.above = vec![at::open_root(&root.real)?];
        self.entered.clear();
        (self.root, self.names) = (root, names);
        Ok(())
    }

    fn count(&mut self) -> Result<(), PathError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
        }
        Ok(())
    }

    /// The resolved path of the current directory plus names.
    fn at<'n>(&'n self, names: impl Iterator<Item = &'n OsString>) -> ResolvedPath {
        let below: Vec<&OsString> = self.entered.iter().chain(names).collect();
        let whole = |root: &Path| below.iter().fold(root.to_owned(), |path, name| path.join(name));
        ResolvedPath { shown: whole(&self.root.named), real: whole(&self.root.real) }
    }

    fn end_at(mut self, name: OsString) -> PathTarget {
        let at = self.at(std::iter::once(&name));
        let directory = self.above.pop().expect("a walk is always somewhere");
        PathTarget::Entry(SandboxPath { directory, name, at })
    }

    fn end_here(mut self) -> PathTarget {
        let at = self.at(std::iter::empty());
        PathTarget::Directory(self.above.pop().expect("a walk is always somewhere"), at)
    }

    /// Ends the walk at a missing directory.
    fn end_missing(self, name: OsString) -> Result<PathTarget, PathError> {
        if self.names.iter().any(|name| name == "..") {
            return Err(io::Error::from_raw_os_error(libc::ENOENT).into());
        }
        Ok(PathTarget::Missing(self.at(std::iter::once(&name).chain(&self.names))))
    }
}

/// The names of a path in order.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}
