//! The databases beside the book.

use crate::commands::Context;
use crate::store::{BucketsDb, StateDb};

use super::super::Found;

pub(in crate::doctor) fn state(context: &Context) -> Vec<Found> {
    match StateDb::open(&context.folder).and_then(|state| state.check()) {
        Err(fault) => vec![Found::fail(fault)],
        Ok(()) => vec![Found::ok("whole")],
    }
}

pub(in crate::doctor) fn buckets(context: &Context) -> Vec<Found> {
    match BucketsDb::open(&context.folder) {
        Err(fault) => vec![Found::fail(fault)],
        Ok(_) => vec![Found::ok("whole")],
    }
}
