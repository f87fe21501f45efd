//! A small web server that can misbehave: slow, busy, short, changed, without ranges.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the next requests are answered; each is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// `503 Service Unavailable`.
    Busy,
    /// Half of the body, then the connection ends.
    Short,
    /// No answer for so many milliseconds.
    Late(u64),
    /// Every request from now on is forbidden.
    Forbidden,
}

#[derive(Default)]
pub(crate) struct Site {
    pub(crate) files: Mutex<BTreeMap<String, (Vec<u8>, String)>>,
    pub(crate) troubles: Mutex<Vec<Trouble>>,
    /// Whether the server looks at `If-Match` (otherwise the client must compare).
    pub(crate) ignores_if_match: bool,
    /// Whether the server sends whole files whatever range is asked for.
    pub(crate) ignores_ranges: bool,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) at_once: AtomicUsize,
    pub(crate) most_at_once: AtomicUsize,
    /// Every answer waits so long, so that requests overlap.
    pub(crate) pause: Duration,
}

pub(crate) struct Server {
    pub(crate) site: Arc<Site>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(site: Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let site = Arc::new(site);
        let shared = Arc::clone(&site);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let _ = serve(&site, stream);
                });
            }
        });
        Self { site, url }
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8], etag: &str) {
        let entry = (bytes.to_vec(), etag.to_owned());
        self.site
            .files
            .lock()
            .unwrap()
            .insert(path.to_owned(), entry);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.site.requests.load(Ordering::SeqCst)
    }
}

fn serve(site: &Site, stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let (method, path) = (
            words.next().unwrap_or("").to_owned(),
            words.next().unwrap_or("").to_owned(),
        );
        let mut headers = BTreeMap::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            match header.trim().split_once(':') {
                Some((name, value)) => {
                    headers.insert(name.to_ascii_lowercase(), value.trim().to_owned())
                }
                None => break,
            };
        }
        let len = headers
            .get("content-length")
            .and_then(|v| v.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; len];
        reader.read_exact(&mut body)?;
        site.requests.fetch_add(1, Ordering::SeqCst);
        let now = site.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        site.most_at_once.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(site.pause);
        let keep = answer(site, &mut out, &method, &path, &headers, body);
        site.at_once.fetch_sub(1, Ordering::SeqCst);
        if !keep? {
            return Ok(());
        }
    }
}

fn answer(
    site: &Site,
    out: &mut TcpStream,
    method: &str,
    path: &str,
    headers: &BTreeMap<String, String>,
    body: Vec<u8>,
) -> std::io::Result<bool> {
    let trouble = {
        let mut troubles = site.troubles.lock().unwrap();
        match troubles.last() {
            Some(Trouble::Forbidden) => Some(Trouble::Forbidden),
            _ => troubles.pop(),
        }
    };
    match trouble {
        Some(Trouble::Busy) => return status(out, "503 Service Unavailable"),
        Some(Trouble::Forbidden) => return status(out, "403 Forbidden"),
        Some(Trouble::Late(ms)) => std::thread::sleep(Duration::from_millis(ms)),
        Some(Trouble::Short) | None => {}
    }
    if method == "PUT" {
        let mut files = site.files.lock().unwrap();
        files.insert(path.to_owned(), (body, "\"put\"".to_owned()));
        return status(out, "201 Created");
    }
    let found = site.files.lock().unwrap().get(path).cloned();
    let Some((bytes, etag)) = found else {
        return status(out, "404 Not Found");
    };
    if method != "GET" && method != "HEAD" {
        return status(out, "405 Method Not Allowed");
    }
    if !site.ignores_if_match && headers.get("if-match").is_some_and(|tag| *tag != etag) {
        return status(out, "412 Precondition Failed");
    }
    let range = headers
        .get("range")
        .filter(|_| !site.ignores_ranges)
        .and_then(|r| r.strip_prefix("bytes=")?.split_once('-'));
    let total = bytes.len();
    let (code, extra, part) = match range {
        Some((first, last)) => {
            let first: usize = first.parse().unwrap_or(0);
            if first >= total {
                return status(out, "416 Range Not Satisfiable");
            }
            let last = last.parse().unwrap_or(total).min(total.saturating_sub(1));
            let part = bytes.get(first..=last).unwrap_or_default().to_vec();
            (
                "206 Partial Content",
                format!("Content-Range: bytes {first}-{last}/{total}\r\n"),
                part,
            )
        }
        None => ("200 OK", String::new(), bytes),
    };
    write!(
        out,
        "HTTP/1.1 {code}\r\nContent-Length: {}\r\nETag: {etag}\r\nLast-Modified: Tue, 01 Jul 2025 10:00:00 GMT\r\n{extra}\r\n",
        part.len()
    )?;
    if method == "HEAD" {
        return Ok(true);
    }
    if trouble == Some(Trouble::Short) {
        out.write_all(&part[..part.len() / 2])?;
        return Ok(false);
    }
    site.bytes.fetch_add(part.len() as u64, Ordering::SeqCst);
    out.write_all(&part)?;
    Ok(true)
}

fn status(out: &mut TcpStream, code: &str) -> std::io::Result<bool> {
    write!(out, "HTTP/1.1 {code}\r\nContent-Length: 0\r\n\r\n")?;
    Ok(true)
}
