//! Resolves paths inside the roots of a session. A path is walked one name at a time, each opened inside the directory
//! before it, and symbolic links are followed by hand: whatever another process swaps meanwhile, nothing outside the roots
//! is ever opened. Reads and writes no file itself.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use super::at;

/// How many links one path may lead through, as everywhere.
const MOST_LINKS: usize = 40;

/// The existing root directories of a session.
#[derive(Clone, Debug)]
pub struct Roots(Vec<Root>);

/// A root as it was named, and where it really is.
#[derive(Clone, Debug)]
struct Root {
    named: PathBuf,
    real: PathBuf,
}

/// A name in an open directory. A file of that name need not exist; if one does, it was no link when it was resolved.
#[derive(Debug)]
pub struct Place {
    /// The directory that contains the name.
    pub directory: OwnedFd,
    /// The name in the directory.
    pub name: OsString,
    /// The path of the name.
    pub at: Whereabouts,
}

/// A resolved path, in two forms. Neither has symbolic links below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The path below the root as the session names it, for display.
    pub shown: PathBuf,
    /// The path below the canonical root, for resolving it again.
    pub real: PathBuf,
}

/// What a path resolves to.
#[derive(Debug)]
pub enum Spot {
    /// A name in an open directory.
    Place(Place),
    /// An open directory and its path: a root, or a path that ends in `..`.
    Directory(OwnedFd, Whereabouts),
    /// A path through directories that do not exist, with [`Missing::Tell`].
    Nowhere(Whereabouts),
}

/// What to do about missing directories on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Fail with `ENOENT`.
    Fail,
    /// Create them.
    Make,
    /// Return [`Spot::Nowhere`].
    Tell,
}

/// What to do about symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Follow those that stay inside the roots.
    Follow,
    /// Fail with [`PathError::Linked`]: the path was resolved before, so it has none unless somebody changed it.
    Refuse,
}

/// Why a path was not resolved.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The path leads out of the roots.
    #[error("the path is outside the session's roots")]
    Outside,
    /// A part of a path that was resolved before is a symbolic link now.
    #[error("a symbolic link has taken the place of part of the path")]
    Linked,
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Roots {
    /// Takes those of the paths that exist.
    pub fn find(paths: &[impl AsRef<Path>]) -> Self {
        let real = |path: &Path| Some(Root { named: path.into(), real: std::fs::canonicalize(path).ok()? });
        Self(paths.iter().filter_map(|path| real(path.as_ref())).collect())
    }

    /// The roots that lie in no other root, as the session names them.
    #[must_use]
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

    /// Resolves an absolute path to a name in a directory. Links are followed.
    ///
    /// # Errors
    /// If the path leads out of the roots, is a root itself, or cannot be resolved.
    pub fn place(&self, path: &Path, missing: Missing) -> Result<Place, PathError> {
        self.place_by(path, missing, Links::Follow)
    }

    /// Resolves an absolute path to a name in a directory, and follows or refuses links.
    ///
    /// # Errors
    /// If the path leads out of the roots, is a root itself, has a link that is refused, or cannot be resolved.
    pub fn place_by(&self, path: &Path, missing: Missing, links: Links) -> Result<Place, PathError> {
        match self.spot(path, missing, links)? {
            Spot::Place(place) => Ok(place),
            Spot::Directory(..) => Err(io::Error::from_raw_os_error(libc::EISDIR).into()),
            Spot::Nowhere(_) => Err(io::Error::from_raw_os_error(libc::ENOENT).into()),
        }
    }

    /// Resolves an absolute path to whatever it leads to.
    ///
    /// # Errors
    /// If the path leads out of the roots, has a link that is refused, or cannot be resolved.
    pub fn spot(&self, path: &Path, missing: Missing, links: Links) -> Result<Spot, PathError> {
        self.walk(path, How { missing, links, last: Last::Name })
    }

    /// Opens the directory that an absolute path leads to.
    ///
    /// # Errors
    /// If the path leads out of the roots or to anything but a directory.
    pub fn directory(&self, path: &Path) -> Result<OwnedFd, PathError> {
        Ok(self.directory_at(path)?.0)
    }

    /// Opens the directory that an absolute path leads to, and returns its resolved path too.
    ///
    /// # Errors
    /// If the path leads out of the roots or to anything but a directory.
    pub fn directory_at(&self, path: &Path) -> Result<(OwnedFd, Whereabouts), PathError> {
        let how = How { missing: Missing::Fail, links: Links::Follow, last: Last::Directory };
        match self.walk(path, how)? {
            Spot::Directory(directory, at) => Ok((directory, at)),
            Spot::Place(_) | Spot::Nowhere(_) => Err(io::Error::from_raw_os_error(libc::ENOTDIR).into()),
        }
    }

    fn walk(&self, path: &Path, how: How) -> Result<Spot, PathError> {
        let mut walk = Walk::start(self, path)?;
        while let Some(name) = walk.names.pop_front() {
            if name == ".." {
                walk.up()?;
                continue;
            }
            let is_last = walk.names.is_empty() && how.last == Last::Name;
            match at::read_link(walk.here().as_fd(), &name) {
                Ok(Some(_)) if how.links == Links::Refuse => return Err(PathError::Linked),
                Ok(Some(target)) => walk.follow(Path::new(&target))?,
                Ok(None) if is_last => return Ok(walk.end_at(name)),
                Ok(None) => walk.enter(name)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => match (is_last, how.missing) {
                    (true, _) => return Ok(walk.end_at(name)),
                    (false, Missing::Make) => walk.make(name)?,
                    (false, Missing::Tell) => return walk.end_nowhere(name),
                    (false, Missing::Fail) => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(walk.end_here())
    }

    /// The outermost root that a path lies in, and the names from there on.
    fn locate(&self, path: &Path) -> Result<(&Root, VecDeque<OsString>), PathError> {
        let inside = |root: &'_ Root| {
            let below = path.strip_prefix(&root.named).or_else(|_| path.strip_prefix(&root.real)).ok();
            below.map(names)
        };
        let found = self.0.iter().filter_map(|root| Some((root, inside(root)?)));
        found.min_by_key(|(root, _)| root.real.components().count()).ok_or(PathError::Outside)
    }
}

/// What a walk does about this and that.
#[derive(Clone, Copy)]
struct How {
    missing: Missing,
    links: Links,
    last: Last,
}

/// Whether the last name of a path has to be a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Name,
    Directory,
}

/// Where a walk is, and what is still before it.
struct Walk<'a> {
    roots: &'a Roots,
    root: &'a Root,
    /// The root and every directory below it that was entered; the last is where the walk is.
    above: Vec<OwnedFd>,
    /// The names of those directories below the root.
    entered: Vec<OsString>,
    names: VecDeque<OsString>,
    links: usize,
}

impl<'a> Walk<'a> {
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
            // Whoever was faster may have made a link; entering follows none.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            Ok(()) | Err(_) => self.enter(name),
        }
    }

    /// Back to the directory that was passed before, or out of this root and perhaps into another.
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

    /// Goes on from an absolute path, if what is before the walk then lies in a root.
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
        if self.links > MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
        }
        Ok(())
    }

    /// Where the walk is, with more names behind.
    fn at<'n>(&'n self, names: impl Iterator<Item = &'n OsString>) -> Whereabouts {
        let below: Vec<&OsString> = self.entered.iter().chain(names).collect();
        let whole = |root: &Path| below.iter().fold(root.to_owned(), |path, name| path.join(name));
        Whereabouts { shown: whole(&self.root.named), real: whole(&self.root.real) }
    }

    fn end_at(mut self, name: OsString) -> Spot {
        let at = self.at(std::iter::once(&name));
        let directory = self.above.pop().expect("a walk is always somewhere");
        Spot::Place(Place { directory, name, at })
    }

    fn end_here(mut self) -> Spot {
        let at = self.at(std::iter::empty());
        Spot::Directory(self.above.pop().expect("a walk is always somewhere"), at)
    }

    /// Where it would be if the directories were there.
    fn end_nowhere(self, name: OsString) -> Result<Spot, PathError> {
        if self.names.iter().any(|name| name == "..") {
            return Err(io::Error::from_raw_os_error(libc::ENOENT).into());
        }
        Ok(Spot::Nowhere(self.at(std::iter::once(&name).chain(&self.names))))
    }
}

/// The names of a path, each to be gone to from the one before.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}
