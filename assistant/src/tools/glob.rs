//! Glob patterns for paths, with the syntax of ignore files: a pattern without a slash matches names at any depth.

use std::path::Path;

use ignore::overrides::{Override, OverrideBuilder};

use super::arguments::Arguments;
use super::error::ToolError;

/// A pattern for paths below a directory.
#[derive(Clone, Debug)]
pub(super) struct Glob(String);

/// A pattern bound to a directory.
pub(super) struct RootedGlob(Override);

impl Glob {
    /// Decodes an argument that is a pattern.
    pub(super) fn read(arguments: &Arguments<'_>, name: &str) -> Result<Option<Self>, ToolError> {
        let Some(pattern) = arguments.optional_text(name)? else { return Ok(None) };
        let glob = Self(pattern.to_owned());
        // A negated pattern would match everything else.
        let built =
            if pattern.is_empty() || pattern.starts_with('!') { None } else { glob.build(Path::new("/")) };
        match built {
            Some(_) => Ok(Some(glob)),
            None => {
                let hint = "`*` is for part of a name, `**` for any directories, `{a,b}` for one of several";
                Err(arguments.wrong(name, "a pattern such as *.rs or src/**/*.rs", Some(hint.to_owned())))
            }
        }
    }

    /// The pattern as it was sent.
    pub(super) fn pattern(&self) -> &str {
        &self.0
    }

    /// The pattern for paths below this directory.
    pub(super) fn at(&self, directory: &Path) -> RootedGlob {
        RootedGlob(self.build(directory).unwrap_or_else(Override::empty))
    }

    fn build(&self, directory: &Path) -> Option<Override> {
        OverrideBuilder::new(directory).add(&self.0).ok()?.build().ok()
    }
}

impl RootedGlob {
    /// Whether the pattern matches a path.
    pub(super) fn matches(&self, path: &Path, is_directory: bool) -> bool {
        self.0.matched(path, is_directory).is_whitelist()
    }
}
