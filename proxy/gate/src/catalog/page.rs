//! One raw page of `tools/list`, filtered: hidden items gone, open ones byte for byte but for their `inputSchema`; every unknown
//! member, `nextCursor` included, kept.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::definition::hash_checked;
use super::tool::name_of;
use crate::json::{self, Change, Fault};
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

/// The longest a client may keep a filtered list, in milliseconds.
pub const MAX_TTL_MS: u64 = 60_000;

/// The raw items of a page, as slices of it.
///
/// # Errors
/// When the page is not strict JSON with a list `tools`.
pub fn items(result: &Bytes) -> Result<Vec<Bytes>, PageError> {
    Ok(json::elements(tools_of(result)?)
        .map(|item| result.slice_ref(item))
        .collect())
}

/// The page as the caller may see it: a raw `result` member on one line. An item is kept when `open` has a tool of its name with the
/// same definition, the first time it appears. A modern page (one with `resultType`, `ttlMs` or `cacheScope`) gets
/// `cacheScope: "private"`, and a `ttlMs` of at most [`MAX_TTL_MS`].
///
/// # Errors
/// When the page is not strict JSON with a list `tools`.
pub fn page(page: Page<'_>, open: &Open) -> Result<Vec<u8>, PageError> {
    let tools = tools_of(page.result)?;
    let mut kept: Vec<u8> = Vec::with_capacity(tools.len() + 1024);
    let here = open
        .tools
        .iter()
        .filter(|tool| *tool.server == *page.server);
    let by_name: HashMap<&str, _> = here.map(|tool| (&*tool.name, tool)).collect();
    let mut seen = HashSet::new();
    kept.push(b'[');
    let mut push = |item: &[u8]| {
        if kept.len() > 1 {
            kept.push(b',');
        }
        kept.extend_from_slice(item);
    };
    for item in json::elements(tools) {
        let Ok(name) = name_of(item) else { continue };
        let Some(tool) = by_name.get(&*name) else {
            continue;
        };
        if tool.definition == hash_checked(item) && seen.insert(name) {
            push(&json::edit(
                item,
                &[Change::Set("inputSchema", tool.schema.text())],
            ));
        }
    }
    page.append.iter().for_each(|item| push(item.as_bytes()));
    kept.push(b']');
    let mut changes = vec![Change::Set("tools", &kept)];
    let ttl = MAX_TTL_MS.to_string();
    changes.extend(cache_changes(page.result, &ttl));
    Ok(json::one_line(&json::edit(page.result, &changes)).into_owned())
}

/// Joins the raw pages of one list into one raw page for clients that read only the first: members of the last page, without
/// `nextCursor`, with the items of all.
///
/// # Errors
/// When a page is not strict JSON with a list `tools`, or there is none.
pub fn join(pages: &[Bytes]) -> Result<Bytes, PageError> {
    let last = pages.last().ok_or(PageError::NoTools)?;
    let mut all = vec![b'['];
    for page in pages {
        for item in json::elements(tools_of(page)?) {
            if all.len() > 1 {
                all.push(b',');
            }
            all.extend_from_slice(item);
        }
    }
    all.push(b']');
    Ok(json::edit(
        last,
        &[Change::Set("tools", &all), Change::Remove("nextCursor")],
    )
    .into())
}

fn tools_of(result: &[u8]) -> Result<&[u8], PageError> {
    json::check(result, json::MAX_DEPTH)?;
    json::member(result, "tools")
        .filter(|tools| tools.starts_with(b"["))
        .ok_or(PageError::NoTools)
}

fn cache_changes<'a>(result: &[u8], ttl: &'a str) -> Vec<Change<'a>> {
    let has = |name| json::member(result, name);
    if ["resultType", "ttlMs", "cacheScope"]
        .iter()
        .all(|name| has(name).is_none())
    {
        return Vec::new();
    }
    let mut changes = vec![Change::Set("cacheScope", b"\"private\"")];
    let within = |text: &[u8]| {
        std::str::from_utf8(text)
            .ok()?
            .parse::<u64>()
            .ok()
            .filter(|ms| *ms <= MAX_TTL_MS)
    };
    if has("ttlMs").is_some_and(|declared| within(declared).is_none()) {
        changes.push(Change::Set("ttlMs", ttl.as_bytes()));
    }
    changes
}
