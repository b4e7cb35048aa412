//! The only module that opens, makes, renames and syncs files.
