//! What path resolution needs to know of the disk, as a trait: one look at one name, never through a link. Implemented by the
//! executor over the real disk, in memory by tests. What a path means to a rule is not known here.

/// How this disk's paths are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `/a/b`; a backslash is a character like any other.
    Unix,
    /// `C:\a\b`, `/` is a separator too.
    Windows,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A folder.
    Folder,
    /// A plain file.
    File,
    /// A link by name, with its target as written. On Windows also a second spelling of a name (`PROGRA~1`), whose target is the
    /// name as it is stored.
    Link {
        /// The target, absolute or relative to the link's own folder.
        target: String,
    },
    /// A socket, a device, a pipe.
    Other,
}

/// Identity of a file on this machine: two names with one identity are one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The disk.
    pub device: u64,
    /// The file on it.
    pub file: u64,
}

/// One look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// What it is.
    pub found: Found,
    /// Its identity, where the system tells one.
    pub id: Option<FileId>,
    /// How many names (hard links) it has; 1 where the system does not tell.
    pub names: u64,
}

/// Why a look showed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookError {
    /// Nothing of that name is there.
    #[error("not there")]
    Missing,
    /// It cannot be told, with the system's words.
    #[error("cannot be looked at: {0}")]
    Unreadable(String),
}

/// Everything below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// Names from the folder on, and what stands there. Links are listed, never followed.
    pub entries: Vec<(Vec<String>, Look)>,
    /// `false` where there was more than asked for, or a part could not be read.
    pub whole: bool,
}

/// The disk. Every call is short and is made where it is needed.
pub trait Files: Send + Sync {
    /// How its paths are spelled.
    fn style(&self) -> Style;

    /// The home folder `~` stands for, absolute; `None` where there is none.
    fn home(&self) -> Option<&str>;

    /// Looks at an absolute path whose folders hold no link, without following the last name.
    ///
    /// # Errors
    /// [`LookError::Missing`] where a name is absent, too long to exist, or below a plain file; [`LookError::Unreadable`] for everything
    /// else, a link whose target is no text included.
    fn look(&self, path: &str) -> Result<Look, LookError>;

    /// Everything below a folder, at most `at_most` entries.
    fn below(&self, folder: &str, at_most: usize) -> Below;
}
