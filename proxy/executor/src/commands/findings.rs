//! What the book says of tools that are not as they should be: set aside, or changed since they were pinned. Reads, judges nothing.

use std::collections::{BTreeMap, BTreeSet};

use countersign_book::{Body, BookError, Catalog, Change, Hash, Listing, Order, Reader};

use crate::folder::Folder;

/// How many entries are read at a time, from the newest on.
const PAGE: usize = 4_096;

/// One tool that is not open as the server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The tool, as the book spells it (escaped for a terminal).
    pub tool: String,
    /// Set aside, or changed.
    pub change: Change,
    /// The definition it was found with, or for one set aside a hash of the finding.
    pub hash: Hash,
    /// The reason.
    pub why: String,
}

/// The findings of each server since its list was last shown.
///
/// # Errors
/// What reading the book answers; a book that is not there yet has none.
pub fn findings(
    folder: &Folder,
    servers: BTreeSet<&str>,
) -> Result<BTreeMap<String, Vec<Finding>>, BookError> {
    let reader = match Reader::open(&folder.book()) {
        Ok(reader) => reader,
        Err(BookError::NotABook { .. }) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut open = servers;
    let mut found: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    let mut from = None;
    while !open.is_empty() {
        let page = reader.list(Listing {
            from,
            limit: PAGE,
            order: Order::NewestFirst,
        })?;
        for entry in &page {
            if let Some(Body::Catalog(catalog)) = &entry.body {
                take(catalog, &mut open, &mut found);
            }
        }
        from = page.last().and_then(|oldest| oldest.index.checked_sub(1));
        if from.is_none() {
            break;
        }
    }
    Ok(found)
}

fn take(catalog: &Catalog, open: &mut BTreeSet<&str>, found: &mut BTreeMap<String, Vec<Finding>>) {
    if !open.contains(catalog.server.as_str()) {
        return;
    }
    let Some(tool) = catalog.tool.clone() else {
        open.remove(catalog.server.as_str());
        return;
    };
    let of_server = found.entry(catalog.server.clone()).or_default();
    // The newest word about a tool is the one that counts.
    if of_server.iter().all(|finding| finding.tool != tool) {
        of_server.push(Finding {
            tool,
            change: catalog.change,
            hash: catalog.hash,
            why: catalog.why.clone().unwrap_or_default(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(server: &str, change: Change, tool: Option<&str>) -> Catalog {
        Catalog {
            agent: None,
            change,
            hash: Hash([0; 32]),
            server: server.to_owned(),
            tool: tool.map(str::to_owned),
            tools: None,
            why: Some("a reason".to_owned()),
        }
    }

    #[test]
    fn what_was_found_before_the_last_list_is_over() {
        let mut open = BTreeSet::from(["one", "two"]);
        let mut found = BTreeMap::new();
        // Newest first.
        for catalog in [
            entry("one", Change::SetAside, Some("broken")),
            entry("other", Change::SetAside, Some("elsewhere")),
            entry("one", Change::Changed, Some("broken")),
            entry("one", Change::Shown, None),
            entry("one", Change::SetAside, Some("mended")),
            entry("two", Change::Changed, Some("moved")),
        ] {
            take(&catalog, &mut open, &mut found);
        }
        let names = |server: &str| -> Vec<(String, Change)> {
            found[server]
                .iter()
                .map(|finding: &Finding| (finding.tool.clone(), finding.change))
                .collect()
        };
        assert_eq!(names("one"), [("broken".to_owned(), Change::SetAside)]);
        assert_eq!(names("two"), [("moved".to_owned(), Change::Changed)]);
        assert!(!found.contains_key("other"));
        assert_eq!(open, BTreeSet::from(["two"]));
    }
}
