//! Why a store can't be used, in words with a remedy.

use std::path::PathBuf;

use crate::folder::FolderError;
use crate::problem::Problem;

/// Why a store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    /// It is not there.
    #[error("`{}` is missing", .0.display())]
    Missing(PathBuf),
    /// It is no database, or a broken one.
    #[error("`{}` is damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the database says.
        detail: String,
    },
    /// A newer program wrote it.
    #[error("`{}` was written by a newer version of countersign (format {version})", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: i64,
    },
    /// Other processes held it too long.
    #[error("`{}` is held by another process for too long", .0.display())]
    Busy(PathBuf),
    /// Anything else.
    #[error("`{}` can't be used: {detail}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What the database or the system says.
        detail: String,
    },
    /// The file isn't safely ours.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl StoreFault {
    /// The stable word for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            StoreFault::Missing(_) => "state_missing",
            StoreFault::Damaged { .. } => "state_damaged",
            StoreFault::Newer { .. } => "restart_required",
            StoreFault::Busy(_) => "state_busy",
            StoreFault::Failed { .. } | StoreFault::Folder(_) => "state",
        }
    }

    /// The reason as a sentence part, without paths.
    pub fn why(&self) -> &'static str {
        match self {
            StoreFault::Missing(_) => "its file is missing",
            StoreFault::Damaged { .. } => "its file is damaged",
            StoreFault::Newer { .. } => {
                "a newer version of countersign wrote it; restart with that"
            }
            StoreFault::Busy(_) => "another process holds it for too long",
            // The database's own words for its code SQLITE_FULL.
            StoreFault::Failed { detail, .. } if detail.contains("database or disk is full") => {
                "no space is left on the disk"
            }
            StoreFault::Failed { .. } => "the disk reports an error, or it may not be written",
            StoreFault::Folder(_) => "its folder can't be used",
        }
    }

    /// What a person does about it.
    pub fn remedy(&self) -> String {
        match self {
            StoreFault::Missing(_) | StoreFault::Damaged { .. } => {
                "restore it from a copy; without it no agent's key is known, so nothing is open. Without a copy, begin a new executor in \
                 another folder; this one's book stays readable"
                    .to_owned()
            }
            StoreFault::Newer { .. } => "use the newer version of countersign, and restart what runs the older one".to_owned(),
            StoreFault::Busy(_) => "try again; if it stays, look which program holds the file".to_owned(),
            StoreFault::Failed { .. } => "look at the disk and the folder's rights".to_owned(),
            StoreFault::Folder(error) => error.remedy(),
        }
    }
}

impl From<StoreFault> for Problem {
    fn from(fault: StoreFault) -> Problem {
        Problem::new(fault.code(), fault.to_string(), fault.remedy())
    }
}
