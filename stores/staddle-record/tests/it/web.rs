//! A small web server that takes and gives objects, for sets that live behind HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// Objects by path, with the number of the write that made them.
type Objects = Arc<Mutex<BTreeMap<String, (Vec<u8>, usize)>>>;

/// A server; it ends with the process.
pub struct Server {
    pub url: String,
    pub objects: Objects,
    /// Paths in the order in which they were written.
    pub writes: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            objects: Objects::default(),
            writes: Arc::default(),
        };
        let (objects, writes) = (Arc::clone(&server.objects), Arc::clone(&server.writes));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (objects, writes) = (Arc::clone(&objects), Arc::clone(&writes));
                std::thread::spawn(move || serve(stream, &objects, &writes));
            }
        });
        server
    }
}

fn serve(stream: TcpStream, objects: &Objects, writes: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut out = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let mut words = line.split_whitespace();
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim().split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").and_then(|v| v.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        if method == "PUT" {
            let mut writes = writes.lock();
            writes.push(path.clone());
            objects.lock().insert(path, (body, writes.len()));
            out.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
                .ok()?;
            continue;
        }
        let found = objects.lock().get(&path).cloned();
        let Some((bytes, version)) = found else {
            out.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                .ok()?;
            continue;
        };
        let range = headers.get("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            let last: usize = last.parse().unwrap_or(bytes.len());
            Some((first.parse().ok()?, last.min(bytes.len() - 1)))
        });
        let (code, extra, part): (_, _, &[u8]) = match range {
            Some((first, last)) => {
                let extra = format!("Content-Range: bytes {first}-{last}/{}\r\n", bytes.len());
                ("206 Partial Content", extra, &bytes[first..=last])
            }
            None => ("200 OK", String::new(), &bytes),
        };
        write!(
            out,
            "HTTP/1.1 {code}\r\nContent-Length: {}\r\nETag: \"v{version}\"\r\n\
             Last-Modified: Tue, 01 Jul 2025 10:00:00 GMT\r\n{extra}\r\n",
            part.len()
        )
        .ok()?;
        if method != "HEAD" {
            out.write_all(part).ok()?;
        }
    }
}
