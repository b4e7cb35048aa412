//! One raw page of `tools/list`, filtered: hidden items gone, open ones byte for byte but for their `inputSchema`; every unknown
//! member, `nextCursor` included, kept.

use bytes::Bytes;

use crate::json::Fault;
use crate::serve::Open;

/// One raw page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The raw `result` member of the server's answer.
    pub result: &'a [u8],
    /// The server it came from.
    pub server: &'a str,
    /// Raw items to append after its own (the executor's tools, on the last page).
    pub append: &'a [&'a str],
}

/// A page that cannot be filtered: nothing of it is shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Not strict JSON.
    #[error("the page is not strict JSON: {0}")]
    Json(#[from] Fault),
    /// No object with a list `tools`.
    #[error("the page has no list `tools`")]
    NoTools,
}

/// The raw items of a page, as slices of it.
///
/// # Errors
/// When the page is not strict JSON with a list `tools`.
pub fn items(result: &Bytes) -> Result<Vec<Bytes>, PageError> {
    let _ = result;
    Err(PageError::NoTools)
}

/// The page as the caller may see it: a raw `result` member. An item is kept when `open` has a tool of its name with the same
/// definition, the first time it appears. A modern page (one with `resultType`, `ttlMs` or `cacheScope`) gets `cacheScope: "private"`
/// and `ttlMs` of at most [`MAX_TTL_MS`].
///
/// # Errors
/// When the page is not strict JSON with a list `tools`.
pub fn page(page: Page<'_>, open: &Open) -> Result<Vec<u8>, PageError> {
    let _ = (page, open);
    Err(PageError::NoTools)
}

/// Joins the raw pages of one list into one raw page for clients that read only the first: members of the last page, without
/// `nextCursor`, with the items of all.
///
/// # Errors
/// When a page is not strict JSON with a list `tools`, or there is none.
pub fn join(pages: &[Bytes]) -> Result<Bytes, PageError> {
    let _ = pages;
    Err(PageError::NoTools)
}

/// The longest a client may keep a filtered list, in milliseconds.
pub const MAX_TTL_MS: u64 = 60_000;
