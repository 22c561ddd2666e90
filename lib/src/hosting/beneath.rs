//! Paths inside the roots of a session. A path is walked one name at a time, each opened inside the directory
//! before it, and symbolic links are followed by hand: whatever somebody swaps meanwhile, nothing outside the
//! roots is ever opened. Reads and writes no file itself.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use super::at;

/// How many links one path may lead through, as everywhere.
const MOST_LINKS: usize = 40;

/// The roots of a session that are there.
#[derive(Clone, Debug)]
pub(super) struct Roots(Vec<Root>);

/// A root as it was named, and where it really is.
#[derive(Clone, Debug)]
struct Root {
    named: PathBuf,
    real: PathBuf,
}

/// A name in a directory that is open. What has the name may not be there, but it was no link.
#[derive(Debug)]
pub(super) struct Place {
    /// The directory.
    pub(super) directory: OwnedFd,
    /// The name in it.
    pub(super) name: OsString,
}

/// What is done about directories that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is an error.
    Fail,
    /// They are made.
    Make,
}

/// Why a path leads nowhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum PathError {
    /// It leads out.
    #[error("the path leads out of the session's roots")]
    Outside,
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Where a walk ends.
enum End {
    Place(Place),
    Directory(OwnedFd),
}

impl Roots {
    /// The roots among these paths that are there.
    pub(super) fn find(paths: &[String]) -> Self {
        let real = |path: &String| Some(Root { named: path.into(), real: std::fs::canonicalize(path).ok()? });
        Self(paths.iter().filter_map(real).collect())
    }

    /// The place that an absolute path names.
    pub(super) fn place(&self, path: &Path, missing: Missing) -> Result<Place, PathError> {
        match self.walk(path, missing, Last::Name)? {
            End::Place(place) => Ok(place),
            End::Directory(_) => Err(io::Error::from_raw_os_error(libc::EISDIR).into()),
        }
    }

    /// The directory that an absolute path names.
    pub(super) fn directory(&self, path: &Path) -> Result<OwnedFd, PathError> {
        match self.walk(path, Missing::Fail, Last::Directory)? {
            End::Directory(directory) => Ok(directory),
            End::Place(_) => Err(io::Error::from_raw_os_error(libc::ENOTDIR).into()),
        }
    }

    fn walk(&self, path: &Path, missing: Missing, last: Last) -> Result<End, PathError> {
        let mut walk = Walk::start(self, path)?;
        while let Some(name) = walk.names.pop_front() {
            if name == ".." {
                walk.up()?;
                continue;
            }
            let is_last = walk.names.is_empty() && last == Last::Name;
            match at::read_link(walk.here().as_fd(), &name) {
                Ok(Some(target)) => walk.follow(Path::new(&target))?,
                Ok(None) if is_last => return Ok(walk.end_at(name)),
                Ok(None) => walk.enter(&name)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => match (is_last, missing) {
                    (true, _) => return Ok(walk.end_at(name)),
                    (false, Missing::Make) => walk.make(&name)?,
                    (false, Missing::Fail) => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(End::Directory(walk.above.pop().expect("a walk is always somewhere")))
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
    names: VecDeque<OsString>,
    links: usize,
}

impl<'a> Walk<'a> {
    fn start(roots: &'a Roots, path: &Path) -> Result<Self, PathError> {
        let (root, names) = roots.locate(path)?;
        Ok(Self { roots, root, above: vec![at::open_root(&root.real)?], names, links: 0 })
    }

    fn here(&self) -> &OwnedFd {
        self.above.last().expect("a walk is always somewhere")
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), PathError> {
        let entered = at::open_directory(self.here().as_fd(), name)?;
        self.above.push(entered);
        Ok(())
    }

    fn make(&mut self, name: &OsStr) -> Result<(), PathError> {
        match at::make_directory(self.here().as_fd(), name) {
            // Whoever was faster may have made a link; entering follows none.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            Ok(()) | Err(_) => self.enter(name),
        }
    }

    /// Back to the directory that was passed before, or out of this root and perhaps into another.
    fn up(&mut self) -> Result<(), PathError> {
        if self.above.len() > 1 {
            self.above.pop();
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

    fn end_at(mut self, name: OsString) -> End {
        let directory = self.above.pop().expect("a walk is always somewhere");
        End::Place(Place { directory, name })
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
