//! World builder.
