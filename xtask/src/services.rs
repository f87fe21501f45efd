//! Real services for tests: today S3, spoken by moto_server on a free local port, its state in a scratch folder.
//!
//! `cargo x services up` leaves it running and writes where it is to `target/x/services/s3.json`; `down` ends it by its process
//! id. `cargo x test` starts one of its own, tells tests through `STADDLE_TEST_S3`, and ends it with the run.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cmd::Cmd;
use crate::place::Place;
use crate::python::{Needs, Venv};
use crate::step::{Failure, Result, step};

/// The variable that names the endpoint to tests.
pub(crate) const S3: &str = "STADDLE_TEST_S3";

/// The bucket that is there when a test starts. Any key pair opens it.
pub(crate) const BUCKET: &str = "staddle-test";

/// How long moto_server may take to answer; it imports a few hundred modules first.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn services(place: &Place, args: &[String]) -> Result {
    match args {
        [word] if word == "up" => up(place),
        [word] if word == "down" => down(place),
        _ => Err(Failure::usage(
            "`cargo x services` takes one word: up or down",
        )),
    }
}

/// A running moto_server, ended when this value goes away.
pub(crate) struct S3Server {
    child: Child,
    port: u16,
}

impl S3Server {
    /// Starts the server, waits until it answers, and creates the bucket.
    pub(crate) fn start(place: &Place, venv: &Venv) -> Result<Self> {
        let folder = folder(place)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let child = venv
            .command("moto_server")
            .args(["-H", "127.0.0.1", "-p"])
            .arg(port.to_string())
            .dir(&folder)
            .detached(&folder.join("s3.log"))?;
        let mut server = Self { child, port };
        let start = Instant::now();
        loop {
            if server.create_bucket().is_ok() {
                return Ok(server);
            }
            let ended = server.child.try_wait()?.is_some();
            if ended || start.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(folder.join("s3.log")).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                return Err(Failure::new(format!(
                    "moto_server {}: {}",
                    if ended {
                        "ended at once"
                    } else {
                        "does not answer"
                    },
                    last.into_iter().rev().collect::<Vec<_>>().join(" | ")
                )));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// One plain HTTP request; moto does not check signatures.
    fn create_bucket(&self) -> Result {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(
            stream,
            "PUT /{BUCKET} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\n\r\n",
            self.port
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if answer
            .lines()
            .next()
            .is_some_and(|line| line.contains(" 200 "))
        {
            return Ok(());
        }
        Err(Failure::new(format!(
            "no bucket: {}",
            answer.lines().next().unwrap_or("no answer")
        )))
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}

fn up(place: &Place) -> Result {
    if let Some((pid, endpoint)) = running(place)? {
        println!("{S3}={endpoint}");
        eprintln!("S3 has been up since before (process {pid})");
        return Ok(());
    }
    let venv = Venv::ready(place, "venv", &Needs::All)?;
    let server = step("S3 (moto_server)", || S3Server::start(place, &venv))?;
    let (pid, endpoint) = (server.child.id(), server.endpoint());
    let _running = std::mem::ManuallyDrop::new(server); // it outlives us: that is what `up` is for
    std::fs::write(
        note(place)?,
        json!({"pid": pid, "endpoint": endpoint, "bucket": BUCKET}).to_string(),
    )?;
    println!("{S3}={endpoint}");
    eprintln!("   bucket {BUCKET}, any key pair; end it with `cargo x services down`");
    Ok(())
}

fn down(place: &Place) -> Result {
    match running(place)? {
        Some((pid, _)) => {
            Cmd::new("sh")
                .args(["-c", "kill \"$0\""])
                .arg(pid.to_string())
                .output()?;
            eprintln!("S3 ended (process {pid})");
        }
        None => eprintln!("nothing is up"),
    }
    let _ = std::fs::remove_file(note(place)?); // absent when nothing was up
    Ok(())
}

/// The noted server, if that process is still the one we started: ids are reused.
fn running(place: &Place) -> Result<Option<(u64, String)>> {
    let Ok(text) = std::fs::read_to_string(note(place)?) else {
        return Ok(None);
    };
    let Ok(note) = serde_json::from_str::<Value>(&text) else {
        return Ok(None);
    };
    let (Some(pid), Some(endpoint)) = (note["pid"].as_u64(), note["endpoint"].as_str()) else {
        return Ok(None);
    };
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let ours = String::from_utf8_lossy(&line).contains("moto_server");
    Ok(ours.then(|| (pid, endpoint.to_owned())))
}

fn folder(place: &Place) -> Result<PathBuf> {
    let folder = place.x.join("services");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn note(place: &Place) -> Result<PathBuf> {
    Ok(folder(place)?.join("s3.json"))
}
