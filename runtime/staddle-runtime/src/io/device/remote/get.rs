//! Reading ranges of an object: merged where that pays, many in flight, every answer checked.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _};
use staddle_base::{Error, Result};

use super::RemoteFile;
use crate::io::coalesce::{Policy, REMOTE_FEW, REMOTE_MANY, plan};
use crate::io::device::Range;
use crate::io::net;

/// The most that one request asks for, bytes; longer runs become several.
const REQUEST_BYTES_MAX: u64 = 8 << 20;
/// Answers that broke off in the middle are asked for again so often; errors before the answer are retried below.
const BROKEN_ANSWERS_MAX: u32 = 4;

/// What an object looked like when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) len: u64,
    etag: Option<String>,
    modified_ns: i64,
}

impl Version {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        Self {
            len: meta.size,
            etag: meta.e_tag.clone(),
            modified_ns: meta.last_modified.timestamp_nanos_opt().unwrap_or(0),
        }
    }

    /// The tag for `If-Match`, which only strong tags satisfy.
    fn if_match(&self) -> Option<String> {
        self.etag.clone().filter(|tag| !tag.starts_with("W/"))
    }

    /// Whether an answer is about the same version: by tag where both have one, else by length and time.
    fn matches(&self, other: &Self) -> bool {
        match (&self.etag, &other.etag) {
            (Some(a), Some(b)) => a == b && self.len == other.len,
            _ => self.len == other.len && self.modified_ns == other.modified_ns,
        }
    }
}

/// Why a request gave no bytes.
enum Failure {
    Store(object_store::Error),
    Changed(Version),
    Broken { got: usize, wanted: u64 },
    TooLate,
    Panicked,
}

/// Asks once for `offset..offset + len`.
async fn ask(
    store: &dyn ObjectStore,
    key: &object_store::path::Path,
    version: &Version,
    (offset, len): (u64, u64),
) -> Result<Bytes, Failure> {
    let options = GetOptions {
        range: Some(GetRange::Bounded(offset..offset + len)),
        if_match: version.if_match(),
        ..GetOptions::default()
    };
    let answer = store.get_opts(key, options).await.map_err(Failure::Store)?;
    let found = Version::of(&answer.meta);
    if !version.matches(&found) {
        return Err(Failure::Changed(found));
    }
    if answer.range != (offset..offset + len) {
        return Err(Failure::Broken {
            got: 0,
            wanted: len,
        });
    }
    let bytes = answer.bytes().await.map_err(Failure::Store)?;
    if bytes.len() as u64 != len {
        return Err(Failure::Broken {
            got: bytes.len(),
            wanted: len,
        });
    }
    Ok(bytes)
}

/// Whether the server refused the range itself, as it does when an object has become shorter.
fn is_about_the_range(error: &object_store::Error) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    text.contains("416") || text.contains("range")
}

/// Whether asking again may help.
fn is_broken(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Broken { .. } | Failure::Store(object_store::Error::Generic { .. })
    )
}

impl RemoteFile {
    /// Reads ranges that lie inside the object.
    pub(super) fn get(&self, ranges: &mut [Range<'_>]) -> Result<()> {
        ranges.sort_unstable_by_key(|range| range.offset);
        let spans: Vec<(u64, u64)> = ranges
            .iter()
            .map(|range| (range.offset, range.into.len() as u64))
            .filter(|(_, len)| *len > 0)
            .collect();
        let pieces = pieces(&spans, self.link.target.requests);
        let limit = self.link.target.requests;
        let (send, receive) = crossbeam_channel::unbounded();
        let (mut asked, mut answered) = (0, 0);
        while answered < pieces.len() {
            // Answers hold memory until they are copied out, so no more are asked for than may be in flight.
            while let Some(piece) = pieces.get(asked).filter(|_| asked - answered < limit) {
                self.start(*piece, send.clone())?;
                asked += 1;
            }
            let (piece, answer) = receive
                .recv()
                .map_err(|_| Error::internal("a network task panicked"))?;
            let bytes = answer.map_err(|failure| self.failed(piece, failure))?;
            scatter(ranges, piece.0, &bytes);
            answered += 1;
        }
        Ok(())
    }

    /// Starts the request for one piece; its answer arrives on `send`.
    fn start(&self, piece: (u64, u64), send: crossbeam_channel::Sender<Answer>) -> Result<()> {
        let client = self.link.client()?;
        let (store, slots) = (Arc::clone(&client.store), Arc::clone(&client.slots));
        let (key, version) = (self.key.clone(), self.version.clone());
        let deadline = self.link.target.options.deadline;
        net::spawn(async move {
            let _slot = slots.acquire().await;
            let work = async {
                let mut tries = 0;
                loop {
                    let answer = ask(&*store, &key, &version, piece).await;
                    tries += 1;
                    match answer {
                        Err(failure) if is_broken(&failure) && tries < BROKEN_ANSWERS_MAX => {
                            tokio::time::sleep(Duration::from_millis(50 << tries)).await;
                        }
                        other => return other,
                    }
                }
            };
            // The time counts from when the request has its slot.
            let work = AssertUnwindSafe(tokio::time::timeout(deadline, work)).catch_unwind();
            let answer = match work.await {
                Ok(in_time) => in_time.unwrap_or(Err(Failure::TooLate)),
                Err(_) => Err(Failure::Panicked),
            };
            // The receiver is gone when another piece failed; then nobody wants the answer.
            let _ = send.send((piece, answer));
        })
    }

    /// What became of the object, when a range of it suddenly does not exist.
    fn version_now(&self) -> Option<Version> {
        let store = Arc::clone(&self.link.client().ok()?.store);
        let key = self.key.clone();
        let head = async move { store.head(&key).await };
        let meta = self.link.run("looking at a file", &self.path, head).ok()?;
        Some(Version::of(&meta))
    }

    #[cold]
    fn failed(&self, (offset, len): (u64, u64), failure: Failure) -> Error {
        let failure = match failure {
            Failure::Store(error) if is_about_the_range(&error) => match self.version_now() {
                Some(found) if !self.version.matches(&found) => Failure::Changed(found),
                _ => Failure::Store(error),
            },
            other => other,
        };
        let action = "reading a file";
        let error = match failure {
            Failure::Store(error) => self.link.target.error(action, &self.path, &error),
            Failure::Changed(found) => {
                Error::conflict(format!("{action}: it has changed since it was opened"))
                    .with("opened", describe(&self.version))
                    .with("found", describe(&found))
                    .hint("open it again")
            }
            Failure::Broken { got, wanted } => {
                Error::corrupt(format!("{action}: the server sent {got} of {wanted} bytes"))
                    .hint("the server or something on the way cuts answers short")
            }
            Failure::TooLate => self.link.too_late(action, &self.path),
            Failure::Panicked => Error::internal(format!("{action}: a network task panicked")),
        };
        error
            .with("path", &self.path)
            .with("offset", offset)
            .with("bytes", len)
    }
}

type Answer = ((u64, u64), Result<Bytes, Failure>);

fn describe(version: &Version) -> String {
    match &version.etag {
        Some(etag) => format!("{} bytes, etag {etag}", version.len),
        None => format!("{} bytes, no etag", version.len),
    }
}

/// The requests to make: merged while there are enough of them, split where one is long.
fn pieces(spans: &[(u64, u64)], requests: usize) -> Vec<(u64, u64)> {
    let policy: Policy = if spans.len() <= requests {
        REMOTE_FEW
    } else {
        REMOTE_MANY
    };
    let mut pieces = Vec::new();
    for run in plan(spans, policy, false) {
        let end = run.offset.saturating_add(run.len);
        let mut at = run.offset;
        while at < end {
            let len = (end - at).min(REQUEST_BYTES_MAX);
            pieces.push((at, len));
            at += len;
        }
    }
    pieces
}

/// Copies an answer into every range it belongs to; ranges are sorted by offset.
fn scatter(ranges: &mut [Range<'_>], offset: u64, bytes: &[u8]) {
    let end = offset.saturating_add(bytes.len() as u64);
    for range in ranges {
        if range.offset >= end {
            break;
        }
        let first = range.offset.max(offset);
        let last = range
            .offset
            .saturating_add(range.into.len() as u64)
            .min(end);
        let place = |at: u64, base: u64| usize::try_from(at - base).unwrap_or(usize::MAX);
        if first < last
            && let Some(into) = range
                .into
                .get_mut(place(first, range.offset)..place(last, range.offset))
            && let Some(from) = bytes.get(place(first, offset)..place(last, offset))
        {
            into.copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_are_split_and_near_ones_merged() {
        let mb = 1 << 20;
        assert_eq!(
            pieces(&[(0, 20 * mb)], 4),
            [(0, 8 * mb), (8 * mb, 8 * mb), (16 * mb, 4 * mb)]
        );
        assert_eq!(
            pieces(&[(0, 10), (500_000, 10)], 4),
            [(0, 10), (500_000, 10)]
        );
        assert_eq!(pieces(&[(0, 10), (500_000, 10)], 1), [(0, 500_010)]);
        assert_eq!(pieces(&[], 1), []);
    }

    #[test]
    fn an_answer_fills_every_range_it_touches() {
        let (mut a, mut b, mut c) = ([0; 4], [0; 4], [0; 4]);
        let mut ranges = [
            Range {
                offset: 0,
                into: &mut a,
            },
            Range {
                offset: 2,
                into: &mut b,
            },
            Range {
                offset: 9,
                into: &mut c,
            },
        ];
        scatter(&mut ranges, 1, &[1, 2, 3, 4]);
        scatter(&mut ranges, 5, &[5, 6]);
        assert_eq!((a, b, c), ([0, 1, 2, 3], [2, 3, 4, 5], [0; 4]));
    }
}
