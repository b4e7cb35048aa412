//! An open file and what tells it from every other, so that it can be asked cheaply whether its path still leads to it. Refuses
//! to know what is in it.
#![allow(
    clippy::disallowed_methods,
    reason = "part of the one small module through which the book touches files"
)]

use std::fs::{self, File};
use std::path::Path;

use super::is_absence;
#[cfg(unix)]
use super::number;
#[cfg(not(unix))]
use super::same_file;
use crate::error::BookError;

/// An open file and what tells it from every other, asked of the system once.
#[derive(Debug)]
pub(crate) struct Known {
    file: File,
    #[cfg(unix)]
    number: (u64, u64),
}

impl Known {
    pub(crate) fn new(file: File, path: &Path) -> Result<Self, BookError> {
        #[cfg(unix)]
        let number = {
            let found = file.metadata().map_err(BookError::io("look at", path))?;
            number(&found)
        };
        #[cfg(not(unix))]
        let _ = path;
        Ok(Self {
            file,
            #[cfg(unix)]
            number,
        })
    }

    /// Whether the path still leads to the open file. Answers the file's length.
    ///
    /// # Errors
    /// [`BookError::Gone`] when it leads to nothing or to another file; [`BookError::Io`] when the system does not say.
    pub(crate) fn check_still(&self, path: &Path) -> Result<u64, BookError> {
        let gone = |found| BookError::Gone {
            path: path.to_owned(),
            found,
        };
        let there = match fs::metadata(path) {
            Ok(there) => there,
            Err(error) if is_absence(&error) => {
                return Err(gone(format!("is not there any more ({error})")));
            }
            Err(error) => return Err(BookError::io("look at", path)(error)),
        };
        #[cfg(unix)]
        let same = self.number == number(&there);
        #[cfg(not(unix))]
        let same = {
            let open = self.file.metadata();
            same_file(&open.map_err(BookError::io("look at", path))?, &there)
        };
        if same {
            Ok(there.len())
        } else {
            Err(gone("is another file now".into()))
        }
    }

    /// Whether a flush of one file's device is a flush of the other's; no where the system does not say.
    pub(crate) fn is_on_device_of(&self, other: &Self) -> bool {
        #[cfg(unix)]
        {
            self.number.0 == other.number.0
        }
        #[cfg(not(unix))]
        {
            let _ = other;
            false
        }
    }
}

impl std::ops::Deref for Known {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}
