//! The permission.
