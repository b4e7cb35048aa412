//! Reads a whole book and names the first bad place. Writes nothing, needs no secret.

use std::path::Path;

use crate::error::{BookError, Damage};
use crate::files;
use crate::finding::{Finding, FindingKind, Verdict};
use crate::journal::chain::Chain;
use crate::journal::layout::{BookFile, Layout};
use crate::journal::recover::{begin, link};
use crate::journal::scan::{Scan, Which};
use crate::key::VaultKey;
use crate::note::Vkey;
use crate::origin::Origin;
use crate::pin::Pin;
use crate::tree::Hash;
use crate::verify_parts::{held, settle, start};
use crate::witnessed::Witnessed;

/// Whether the vault is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadCheck {
    /// Every object an entry refers to must be present.
    Present,
    /// Not looked at: the journal alone was handed over.
    Skip,
}

/// How to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// A verifier key known from elsewhere. Without it the one in `BOOK` is used and the report says that there is no
    /// independent reference.
    pub pinned: Option<Vkey>,
    /// Whether the vault is looked into.
    pub payloads: PayloadCheck,
    /// The vault's key. With it every object is opened and its commitment recomputed. Without it the check is of head,
    /// names, length and presence only: nothing but the key tells whether the encrypted bytes are those that were stored.
    pub vault: Option<VaultKey>,
    /// The head that is remembered outside of the book, read before verification begins. Without one a cut end is found only by
    /// comparing with a copy.
    pub pin: Option<Pin>,
    /// Threads that check signatures, at least 1.
    pub threads: usize,
}

/// Where the key came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Handed in by the verifier.
    Pinned,
    /// From the book itself: no independent reference.
    None,
}

/// What verification found. A record proves what the recorder saw, not what was true.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which book.
    pub origin: Origin,
    /// The key it was verified with.
    pub vkey: String,
    /// Where the key came from.
    pub reference: Reference,
    /// The first entry that can be read; more than 0 when entries before were pruned.
    pub first: u64,
    /// Entries under a verified checkpoint, with those that were pruned.
    /// Entries of the head that is remembered, where one was handed in.
    pub pin: Option<u64>,
    /// Entries under a verified checkpoint.
    pub size: u64,
    /// Their root.
    pub root: Hash,
    /// Checkpoints verified.
    pub checkpoints: u64,
    /// Segments read.
    pub segments: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Calls without an outcome.
    pub open_calls: u64,
    /// Entries whose version or kind is not understood.
    pub not_understood: u64,
    /// Payload objects found.
    pub payloads: u64,
    /// Payload objects opened with the vault's key and found to be what the entries commit to.
    pub opened: u64,
    /// Findings, the first bad place first; at most 1,000 of them, the rest counted in `more`.
    pub findings: Vec<Finding>,
    /// Findings beyond those listed.
    pub more: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            pinned: None,
            payloads: PayloadCheck::Present,
            vault: None,
            pin: None,
            threads: 2,
        }
    }
}

impl Report {
    /// The worst of the findings.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        // FORMAT.md, section 6, states this order.
        let has = |kind| self.findings.iter().any(|finding| finding.kind == kind);
        for (kind, verdict) in [
            (FindingKind::Replaced, Verdict::Replaced),
            (FindingKind::Rewritten, Verdict::Rewritten),
            (FindingKind::Truncated, Verdict::Truncated),
            (FindingKind::Changed, Verdict::Changed),
            (FindingKind::Removed, Verdict::Changed),
            (FindingKind::KeyRange, Verdict::KeyRange),
            (FindingKind::Unverifiable, Verdict::Unverifiable),
            (FindingKind::PayloadChanged, Verdict::PayloadChanged),
            (FindingKind::PayloadMissing, Verdict::PayloadMissing),
            (FindingKind::UnsignedTail, Verdict::UnsignedTail),
        ] {
            if has(kind) {
                return verdict;
            }
        }
        Verdict::Ok
    }

    /// The verdict as a sentence for a person.
    #[must_use]
    pub fn sentence(&self) -> String {
        let entries = match self.size {
            1 => "1 entry".to_owned(),
            n => format!("{n} entries"),
        };
        let reference = match (self.reference, self.pin) {
            (Reference::Pinned, Some(_)) => "against the pinned key and the remembered head",
            (Reference::Pinned, None) => "against the pinned key",
            (Reference::None, Some(_)) => {
                "against the remembered head; the key is the book's own word"
            }
            (Reference::None, None) => {
                "but there is no independent reference: the key is the book's own word, and a cut end is only found by \
                 comparing with a copy"
            }
        };
        match self.verdict() {
            Verdict::Ok => format!(
                "{entries}, whole and signed, {reference}{}",
                self.unopened()
            ),
            Verdict::UnsignedTail => {
                format!(
                    "{entries}, whole and signed, {reference}; after them lies something that nobody signed"
                )
            }
            Verdict::PayloadMissing => {
                format!(
                    "{entries}, whole and signed, {reference}; stored payloads are missing and no entry says why"
                )
            }
            Verdict::PayloadChanged => {
                format!(
                    "{entries}, whole and signed, {reference}; stored payloads are not those the entries commit to"
                )
            }
            Verdict::Changed => {
                format!(
                    "the book was changed after it was signed; the first {entries} are as they were signed"
                )
            }
            Verdict::KeyRange => format!(
                "a key signed what it may not sign; the first {entries} are signed by the keys in force then"
            ),
            Verdict::Truncated => format!(
                "{entries}, whole and signed, but there were {}: an old backup was put back, or the end was cut off",
                self.pin.unwrap_or_default()
            ),
            Verdict::Rewritten => format!(
                "{entries}, whole and signed, but they are not the ones that were signed when the head was remembered"
            ),
            Verdict::Replaced => "this is not the book of the pinned key or head".to_owned(),
            Verdict::Unverifiable => {
                format!("the book can't be verified by this version beyond its first {entries}")
            }
        }
    }

    /// What was not checked, as the end of a sentence.
    #[must_use]
    pub fn unopened(&self) -> String {
        match self.payloads - self.opened.min(self.payloads) {
            0 => String::new(),
            n => format!(
                "; {n} stored payloads are in their places, but whether their encrypted bytes were changed is not \
                 checked: that needs the vault's key"
            ),
        }
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding)
        } else {
            self.more += 1
        }
    }
}

/// Verifies the book in `dir`, or in its subfolder `book/`. Streams: memory grows with the calls left open, not with the
/// book. Takes no lock; a batch that is being written meanwhile is waited for.
///
/// # Errors
/// [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Io`]. What is wrong with the record itself is in the report.
pub fn verify(dir: &Path, options: &VerifyOptions) -> Result<Report, BookError> {
    let layout = Layout::find(dir);
    let book = BookFile::read(&layout.dir)?;
    let (vkey, reference) = match &options.pinned {
        Some(pinned) => (pinned.clone(), Reference::Pinned),
        None => (book.vkey.clone(), Reference::None),
    };
    let mut report = Report {
        origin: book.origin.clone(),
        vkey: vkey.to_string(),
        reference,
        first: 0,
        pin: options.pin.as_ref().map(|pin| pin.size),
        size: 0,
        root: Hash::of(b""),
        checkpoints: 0,
        segments: 0,
        bytes: 0,
        open_calls: 0,
        not_understood: 0,
        payloads: 0,
        opened: 0,
        findings: Vec::new(),
        more: 0,
    };
    let mut chain = Chain::new(book.origin.clone(), book.vkey.clone());
    let mut seen = Witnessed::new(&layout, &book, options);
    let end = read_all(&layout, options, &mut chain, &mut seen, &mut report)?;
    report.size = chain.size();
    report.root = chain.head.range.root();
    report.open_calls = chain.open.len() as u64;
    report.checkpoints = seen.checkpoints;
    report.not_understood = seen.not_understood;
    report.payloads = seen.payloads;
    report.opened = seen.opened;
    // The first bad place first: what else is found may only follow from it.
    if let Some(finding) = &end {
        report.find(finding.clone());
    }
    if let Some(finding) = held(&layout, &vkey, &chain, end.as_ref()) {
        report.find(finding);
    }
    if let Some(finding) = start(&layout, &report, &seen, end.as_ref()) {
        report.find(finding);
    }
    if let Some(pin) = &options.pin {
        let compared = pin.compare(&layout, &chain, end.as_ref())?;
        compared.into_iter().for_each(|one| report.find(one));
    }
    let (findings, more) = seen.findings(end.as_ref());
    findings
        .into_iter()
        .for_each(|finding| report.find(finding));
    report.more += more;
    Ok(report)
}

const MAX_FINDINGS: usize = 1000;

/// Reads segment after segment. Answers the first bad place.
fn read_all(
    layout: &Layout,
    options: &VerifyOptions,
    chain: &mut Chain,
    seen: &mut Witnessed<'_>,
    report: &mut Report,
) -> Result<Option<Finding>, BookError> {
    let finding = |kind, file: &Path, line, index, what: String| Finding {
        kind,
        file: file.to_owned(),
        line,
        index,
        what,
    };
    let kept = layout.segments()?.first().copied().unwrap_or(0);
    loop {
        let begins = report.segments == 0;
        let first = if begins { kept } else { chain.size() };
        let path = layout.segment(first);
        let Some(file) = files::open_if_there(&path)? else {
            let later = layout.segments()?.into_iter().find(|other| *other > first);
            let what = match later {
                Some(next) => format!(
                    "the segment with the entries {first} to {} is not there",
                    next - 1
                ),
                None => "the first segment is not there".to_owned(),
            };
            return Ok(Some(finding(FindingKind::Removed, &path, 0, first, what)));
        };
        report.segments += 1;
        let scan = Scan {
            file: &file,
            path: &path,
            threads: options.threads,
            signatures: Which::All,
        };
        let place = if begins && first > 0 {
            report.first = first;
            begin(&file, &path, first, chain).inspect(|_| seen.begin(chain))
        } else {
            link(&file, &path, first, chain)
        };
        let named =
            |kind, damage: Damage| finding(kind, &path, damage.line, damage.index, damage.what);
        let read = place.and_then(|place| settle(layout, &scan, chain, place, seen));
        let tail = match read {
            Ok((place, tail)) => {
                report.bytes += place.offset;
                tail.map(|tail| (place, tail))
            }
            Err(BookError::Damaged(damage)) => {
                return Ok(Some(named(FindingKind::Changed, damage)));
            }
            Err(BookError::KeyRange(damage)) => {
                return Ok(Some(named(FindingKind::KeyRange, damage)));
            }
            Err(BookError::Newer { found, .. }) => {
                return Ok(Some(finding(
                    FindingKind::Unverifiable,
                    &path,
                    0,
                    chain.size(),
                    found,
                )));
            }
            Err(error) => return Err(error),
        };
        let others = layout.segments()?;
        let last = others.last().is_none_or(|last| *last <= first);
        // A book is made with its first batch in place.
        if last && chain.size() == 0 {
            let what = "the first entry is not there under a checkpoint".to_owned();
            return Ok(Some(finding(FindingKind::Changed, &path, 2, 0, what)));
        }
        if let Some((place, tail)) = tail {
            let bytes = tail.end - tail.start;
            let (kind, what) = if last {
                (
                    FindingKind::UnsignedTail,
                    format!("{bytes} bytes after the last checkpoint are not signed"),
                )
            } else {
                (
                    FindingKind::Changed,
                    format!("{bytes} bytes follow the last checkpoint of a segment that was ended"),
                )
            };
            return Ok(Some(finding(
                kind,
                &path,
                place.line + 1,
                chain.size(),
                what,
            )));
        }
        if last {
            return Ok(None);
        }
        if chain.size() == first {
            return Ok(Some(finding(
                FindingKind::Changed,
                &path,
                0,
                first,
                "the segment holds no entry".into(),
            )));
        }
        // A segment whose name is no index at which one ended does not belong to the book.
        if let Some(stray) = others
            .iter()
            .find(|other| (first + 1..chain.size()).contains(*other))
        {
            let what = "a segment begins inside another".to_owned();
            return Ok(Some(finding(
                FindingKind::Changed,
                &layout.segment(*stray),
                0,
                *stray,
                what,
            )));
        }
    }
}
