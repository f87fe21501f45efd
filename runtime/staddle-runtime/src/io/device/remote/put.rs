//! Exporting finished files to an object store: whole small ones, large ones in parts.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use object_store::{
    MultipartUpload, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload,
};
use staddle_base::{Error, ErrorKind, Result};

use super::RemoteDevice;
use crate::io::device::File;
use crate::io::net;

/// The size of a part, bytes; also the largest file that goes in one request.
const PART_BYTES: u64 = 8 << 20;
/// Parts a store takes for one object.
const PARTS_MAX: u64 = 10_000;
/// Parts in flight at once: with [`PART_BYTES`] this bounds the memory of an upload.
const PARTS_IN_FLIGHT: usize = 4;

impl RemoteDevice {
    /// Stores `bytes` as the object `path`. With `replace` false an object that exists stays, and the call fails.
    ///
    /// # Errors
    /// `Conflict` when it exists and may not be replaced, `Denied`, `Unavailable`.
    pub fn put(&self, path: &str, bytes: Bytes, replace: bool) -> Result<()> {
        let key = self.key(path)?;
        let store = Arc::clone(&self.link.client()?.store);
        let mode = if replace {
            PutMode::Overwrite
        } else {
            PutMode::Create
        };
        let options = PutOptions::from(mode);
        self.link.run("writing an object", path, async move {
            store
                .put_opts(&key, PutPayload::from_bytes(bytes), options)
                .await
        })?;
        Ok(())
    }

    /// Stores a local file as the object `path`, replacing what is there; `progress` hears the bytes sent so far. Large
    /// files go in parts, several in flight; a failed upload leaves no object. The length is compared at the end.
    ///
    /// # Errors
    /// Those of reading the file; `Denied`, `Unavailable`; `Conflict` when the stored length differs.
    pub fn upload(&self, path: &str, file: &dyn File, progress: &dyn Fn(u64)) -> Result<()> {
        let len = file.len()?;
        if len <= PART_BYTES {
            self.put(path, read_part(file, 0, len)?, true)?;
            progress(len);
        } else {
            self.upload_parts(path, file, len, progress)?;
        }
        let stored = self.head("checking an upload", path)?.size;
        if stored == len {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "the object has {stored} bytes after {len} were sent"
        ))
        .with("uri", self.uri.clone())
        .with("path", path)
        .hint("something else writes to this name"))
    }

    fn upload_parts(
        &self,
        path: &str,
        file: &dyn File,
        len: u64,
        progress: &dyn Fn(u64),
    ) -> Result<()> {
        let key = self.key(path)?;
        let store = Arc::clone(&self.link.client()?.store);
        let upload = self.link.run("starting an upload", path, async move {
            store
                .put_multipart_opts(&key, PutMultipartOptions::default())
                .await
        })?;
        let (upload, sent) = self.send_parts(path, upload, file, len, progress);
        match sent {
            Ok(()) => self.finish(path, upload),
            Err(error) => {
                self.abort(path, upload);
                Err(error)
            }
        }
    }

    /// Sends every part, reading the next ones while earlier ones travel.
    fn send_parts(
        &self,
        path: &str,
        mut upload: Box<dyn MultipartUpload>,
        file: &dyn File,
        len: u64,
        progress: &dyn Fn(u64),
    ) -> (Box<dyn MultipartUpload>, Result<()>) {
        let part_bytes = PART_BYTES.max(len.div_ceil(PARTS_MAX));
        let mut travelling: VecDeque<(u64, crossbeam_channel::Receiver<PartAnswer>)> =
            VecDeque::new();
        let mut at = 0;
        let mut arrived = 0;
        let mut send_all = || -> Result<()> {
            while at < len || !travelling.is_empty() {
                while at < len && travelling.len() < PARTS_IN_FLIGHT {
                    let bytes = read_part(file, at, part_bytes.min(len - at))?;
                    let size = bytes.len() as u64;
                    let part = upload.put_part(PutPayload::from_bytes(bytes));
                    travelling.push_back((size, self.start_part(part)?));
                    at += size;
                }
                let Some((size, answer)) = travelling.pop_front() else {
                    break;
                };
                let answer = answer
                    .recv()
                    .map_err(|_| Error::internal("a network task panicked"))?;
                match answer {
                    Ok(result) => {
                        result.map_err(|e| self.link.target.error("sending a part", path, &e))?
                    }
                    Err(_) => return Err(self.link.too_late("sending a part", path)),
                }
                arrived += size;
                progress(arrived);
            }
            Ok(())
        };
        let result = send_all();
        // Whatever is still travelling must be done before the upload is given up.
        for (_, answer) in travelling {
            let _ = answer.recv();
        }
        (upload, result)
    }

    fn start_part(
        &self,
        part: object_store::UploadPart,
    ) -> Result<crossbeam_channel::Receiver<PartAnswer>> {
        let slots = Arc::clone(&self.link.client()?.slots);
        let deadline = self.link.target.options.deadline;
        let (send, receive) = crossbeam_channel::bounded(1);
        net::spawn(async move {
            let _slot = slots.acquire().await;
            let _ = send.send(tokio::time::timeout(deadline, part).await);
        })?;
        Ok(receive)
    }

    fn finish(&self, path: &str, mut upload: Box<dyn MultipartUpload>) -> Result<()> {
        self.link.run("finishing an upload", path, async move {
            let result = upload.complete().await;
            if result.is_err() {
                let _ = upload.abort().await;
            }
            result
        })?;
        Ok(())
    }

    fn abort(&self, path: &str, mut upload: Box<dyn MultipartUpload>) {
        let aborted = self.link.run(
            "giving up an upload",
            path,
            async move { upload.abort().await },
        );
        if let Err(error) = aborted {
            tracing::warn!("parts of an upload may remain in the store: {error}");
        }
    }

    /// Removes the object `path`; fine if it is gone.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    pub fn delete(&self, path: &str) -> Result<()> {
        let key = self.key(path)?;
        let store = Arc::clone(&self.link.client()?.store);
        let deleted = self.link.run("removing an object", path, async move {
            store.delete(&key).await
        });
        match deleted {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

type PartAnswer = std::result::Result<object_store::Result<()>, tokio::time::error::Elapsed>;

fn read_part(file: &dyn File, offset: u64, len: u64) -> Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(Bytes::from(bytes))
}
