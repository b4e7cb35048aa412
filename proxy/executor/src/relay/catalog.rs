//! The server's `tools/list`, read to its end before any of it is shown or any of its tools is called. A hidden page is an unvetted page.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use countersign_gate::json::{Change, decode, edit, elements, member};

use super::gatekeeper::Gatekeeper;
use super::link::{Asked, Link, Lost};
use crate::frame::emit::quote;

/// Most pages of one list.
const MAX_PAGES: usize = 64;
/// Most tools of one list.
const MAX_TOOLS: usize = 10_000;
/// How often a list that changes while it is read is read anew.
const MAX_ATTEMPTS: usize = 3;

/// One page as the server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawPage {
    /// The decoded cursor it was asked for with; `None` for the first.
    pub cursor: Option<String>,
    /// The raw `result`.
    pub result: Bytes,
}

/// Why a list could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListError {
    /// The server's own error, to be passed on.
    Server(Bytes),
    /// No answer.
    Lost(Lost),
    /// The list has no end within the bounds, or a page is no page. For the log and the person.
    Bad(String),
}

/// What is known of the server's tools.
pub(super) struct Catalog {
    state: Mutex<State>,
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Counts everything that makes known pages stale.
    epoch: u64,
    pages: Option<Arc<Vec<RawPage>>>,
}

impl Catalog {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State::default()),
            reading: tokio::sync::Mutex::new(()),
        }
    }

    /// What is known no longer holds: the server said so, or is another process.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.epoch += 1;
        state.pages = None;
    }

    /// The pages as last read.
    pub(super) fn known(&self) -> Option<Arc<Vec<RawPage>>> {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pages
            .clone()
    }

    /// Whether a known tool of that name has an `outputSchema`.
    pub(super) fn declares_output(&self, tool: &str) -> bool {
        let pages = self.known().unwrap_or_default();
        let mut items = pages
            .iter()
            .filter_map(|page| member(&page.result, "tools"))
            .flat_map(elements);
        items.any(|item| {
            member(item, "outputSchema").is_some_and(|schema| schema.first() == Some(&b'{'))
                && member(item, "name").and_then(decode).as_deref() == Some(tool)
        })
    }

    /// Makes sure the list is known and learnt. A server without tools has an empty list.
    pub(super) async fn ensure(
        &self,
        link: &Link,
        gatekeeper: &dyn Gatekeeper,
        params: Option<&[u8]>,
    ) -> Result<(), ListError> {
        if self.known().is_some() {
            return Ok(());
        }
        let _reading = self.reading.lock().await;
        if self.known().is_some() {
            return Ok(());
        }
        match self.read_locked(link, gatekeeper, params).await {
            Err(ListError::Server(_)) => {
                gatekeeper.learn(&[]);
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    /// Reads the whole list anew, and has it learnt.
    pub(super) async fn read(
        &self,
        link: &Link,
        gatekeeper: &dyn Gatekeeper,
        params: Option<&[u8]>,
    ) -> Result<Arc<Vec<RawPage>>, ListError> {
        let _reading = self.reading.lock().await;
        self.read_locked(link, gatekeeper, params).await
    }

    async fn read_locked(
        &self,
        link: &Link,
        gatekeeper: &dyn Gatekeeper,
        params: Option<&[u8]>,
    ) -> Result<Arc<Vec<RawPage>>, ListError> {
        let mut attempt = 1;
        loop {
            let epoch = self
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .epoch;
            let pages = Arc::new(all_pages(link, params).await?);
            let raw: Vec<Bytes> = pages.iter().map(|page| page.result.clone()).collect();
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let current = state.epoch == epoch;
            if current || attempt == MAX_ATTEMPTS {
                gatekeeper.learn(&raw);
                // A list that changed again while it was read is good for this answer only.
                state.pages = current.then(|| pages.clone());
                return Ok(pages);
            }
            attempt += 1;
        }
    }
}

/// One page, asked for with the client's params and a cursor in the place of its own.
pub(super) async fn one_page(
    link: &Link,
    params: Option<&[u8]>,
    cursor: Option<&str>,
) -> Result<RawPage, ListError> {
    let asked = match (params, cursor) {
        (Some(params), Some(cursor)) => Some(edit(
            params,
            &[Change::Set("cursor", quote(cursor).as_bytes())],
        )),
        (Some(params), None) => Some(edit(params, &[Change::Remove("cursor")])),
        (None, Some(cursor)) => Some(format!("{{\"cursor\":{}}}", quote(cursor)).into_bytes()),
        (None, None) => None,
    };
    match link.ask("tools/list", asked).await {
        Asked::Result(result) => Ok(RawPage {
            cursor: cursor.map(str::to_owned),
            result,
        }),
        Asked::Error(error) => Err(ListError::Server(error)),
        Asked::Lost(lost) => Err(ListError::Lost(lost)),
    }
}

async fn all_pages(link: &Link, params: Option<&[u8]>) -> Result<Vec<RawPage>, ListError> {
    let mut pages: Vec<RawPage> = Vec::new();
    let mut tools = 0;
    let mut cursor = None;
    loop {
        let page = one_page(link, params, cursor.as_deref()).await?;
        tools += member(&page.result, "tools").map_or(0, |tools| elements(tools).count());
        let next = super::lifecycle::text(Some(&page.result), "nextCursor");
        pages.push(page);
        let Some(next) = next else { return Ok(pages) };
        if tools > MAX_TOOLS || pages.len() == MAX_PAGES {
            return Err(ListError::Bad(format!(
                "its list of tools is longer than {MAX_PAGES} pages or {MAX_TOOLS} tools"
            )));
        }
        if pages.iter().any(|page| page.cursor.as_ref() == Some(&next)) {
            return Err(ListError::Bad(
                "its list of tools repeats a cursor".to_owned(),
            ));
        }
        cursor = Some(next);
    }
}
