//! Object stores and web servers: ranges, versions, retries, secrets, exports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use staddle_base::{ErrorKind, Seed};
use staddle_runtime::io::Read;
use staddle_runtime::io::device::{Device, LocalDevice, LockKind, Open, Range, read_file};
use staddle_runtime::{Options, Runtime};

use super::httpd::{Server, Site, Trouble};

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect()
}

fn web(site: Site) -> (Server, Runtime, Arc<dyn Device>, Vec<u8>) {
    let server = Server::start(site);
    let mut data = vec![0; 3_000_000];
    Seed(5).stream("remote").fill(&mut data);
    server.put("/set/a.bin", &data, "\"v1\"");
    let runtime = Runtime::new(Options::default()).unwrap();
    let uri = format!("{}/set/", server.url);
    let device = runtime
        .io()
        .device(
            &uri,
            &options(&[("allow_http", "true"), ("deadline", "10")]),
        )
        .unwrap();
    (server, runtime, device, data)
}

#[test]
fn a_file_is_read_by_ranges() {
    let (server, runtime, device, data) = web(Site::default());
    assert!(device.capabilities().remote && !device.capabilities().write);
    assert_eq!(server.requests(), 0, "nothing is asked before it is needed");
    let stat = device.stat("a.bin").unwrap().unwrap();
    assert_eq!(
        (stat.len, stat.etag.as_deref(), stat.dir),
        (3_000_000, Some("\"v1\""), false)
    );
    assert!(stat.mtime_ns > 1_700_000_000_000_000_000);
    assert!(device.stat("none").unwrap().is_none());

    let file = device.open("a.bin", Open::Read).unwrap();
    let mut part = vec![0; 1000];
    file.read_exact_at(&mut part, 1_234_567).unwrap();
    assert!(part[..] == data[1_234_567..1_235_567]);
    assert_eq!(file.read_at(&mut part, 2_999_990).unwrap(), 10);
    assert_eq!(file.read_at(&mut part, 3_000_000).unwrap(), 0);
    assert_eq!(file.read_at(&mut part, u64::MAX).unwrap(), 0);
    let error = file.read_exact_at(&mut part, 2_999_990).unwrap_err();
    assert_eq!(
        (error.kind(), error.get("size")),
        (ErrorKind::Corrupt, Some("3000000"))
    );
    let before = server.requests();
    let mut beyond = Range {
        offset: 2_999_990,
        into: &mut part,
    };
    let error = file
        .read_ranges(std::slice::from_mut(&mut beyond))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(
        server.requests(),
        before,
        "a range past the end is refused without asking"
    );

    let mut rng = Seed(6).stream("ranges");
    let plan: Vec<(usize, usize)> = (0..200)
        .map(|_| (rng.index(2_990_000), rng.index(9000)))
        .collect();
    let mut buffers: Vec<Vec<u8>> = plan.iter().map(|(_, len)| vec![0; *len]).collect();
    let mut reads: Vec<Read<'_>> = plan
        .iter()
        .zip(&mut buffers)
        .map(|((offset, _), into)| Read {
            file: &*file,
            offset: *offset as u64,
            into,
        })
        .collect();
    runtime.io().read_many(&mut reads).unwrap();
    for ((offset, len), buffer) in plan.iter().zip(&buffers) {
        assert!(buffer[..] == data[*offset..offset + len]);
    }
    assert!(
        server.requests() < before + 20,
        "200 ranges were merged: {}",
        server.requests() - before
    );
}

#[test]
fn many_requests_are_in_flight_but_no_more_than_allowed() {
    let (server, runtime, device, data) = web(Site {
        pause: Duration::from_millis(30),
        ..Site::default()
    });
    let file = device.open("a.bin", Open::Read).unwrap();
    let mut buffers = vec![[0; 100]; 12];
    let mut reads: Vec<Read<'_>> = buffers
        .iter_mut()
        .enumerate()
        .map(|(n, into)| Read {
            file: &*file,
            offset: n as u64 * 200_000,
            into,
        })
        .collect();
    runtime.io().read_many(&mut reads).unwrap();
    for (n, buffer) in buffers.iter().enumerate() {
        assert!(buffer[..] == data[n * 200_000..n * 200_000 + 100]);
    }
    let most = server.site.most_at_once.load(Ordering::SeqCst);
    assert!((2..=16).contains(&most), "{most} at once");
}

#[test]
fn a_replaced_object_is_a_conflict_never_a_mix() {
    for ignores_if_match in [false, true] {
        let (server, _runtime, device, data) = web(Site {
            ignores_if_match,
            ..Site::default()
        });
        let file = device.open("a.bin", Open::Read).unwrap();
        let mut part = [0; 10];
        file.read_exact_at(&mut part, 0).unwrap();
        let mut other = data.clone();
        other[5] ^= 1;
        server.put("/set/a.bin", &other, "\"v2\"");
        let error = file.read_exact_at(&mut part, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
        assert!(
            error.message().contains("changed since it was opened"),
            "{error}"
        );
        device
            .open("a.bin", Open::Read)
            .unwrap()
            .read_exact_at(&mut part, 0)
            .unwrap();
    }
    // No tags at all: length and time must do.
    let (server, _runtime, device, data) = web(Site::default());
    server.put("/set/a.bin", &data, "W/\"weak\"");
    let file = device.open("a.bin", Open::Read).unwrap();
    server.put("/set/a.bin", &data[1..], "W/\"weak\"");
    assert_eq!(
        file.read_exact_at(&mut [0; 4], 0).unwrap_err().kind(),
        ErrorKind::Conflict
    );
}

#[test]
fn an_object_that_became_shorter_is_a_conflict_too() {
    for ignores_if_match in [false, true] {
        let (server, _runtime, device, data) = web(Site {
            ignores_if_match,
            ..Site::default()
        });
        let file = device.open("a.bin", Open::Read).unwrap();
        for len in [1000, 2_999_999] {
            server.put("/set/a.bin", &data[..len], "\"short\"");
            let error = file.read_exact_at(&mut [0; 10], 2_999_990).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
        }
        server.site.files.lock().unwrap().clear();
        let error = file.read_exact_at(&mut [0; 10], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    }
}

#[test]
fn a_server_without_ranges_is_unsupported() {
    let (_server, _runtime, device, _data) = web(Site {
        ignores_ranges: true,
        ..Site::default()
    });
    let file = device.open("a.bin", Open::Read).unwrap();
    let error = file.read_exact_at(&mut [0; 10], 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
}

#[test]
fn busy_and_broken_answers_are_retried() {
    let (server, _runtime, device, data) = web(Site::default());
    let file = device.open("a.bin", Open::Read).unwrap();
    *server.site.troubles.lock().unwrap() =
        vec![Trouble::Short, Trouble::Busy, Trouble::Short, Trouble::Busy];
    let mut part = vec![0; 5000];
    file.read_exact_at(&mut part, 77).unwrap();
    assert!(part[..] == data[77..5077]);
    assert!(server.site.troubles.lock().unwrap().is_empty());
}

#[test]
fn a_server_that_never_answers_is_unavailable_at_the_deadline() {
    let (server, runtime, _device, _data) = web(Site::default());
    let pairs = options(&[("allow_http", "true"), ("deadline", "0.2s")]);
    let device = runtime
        .io()
        .device(&format!("{}/set", server.url), &pairs)
        .unwrap();
    let file = device.open("a.bin", Open::Read).unwrap();
    *server.site.troubles.lock().unwrap() = vec![Trouble::Late(3000); 4];
    let error = file.read_exact_at(&mut [0; 10], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("0.2 s"), "{error}");
    let error = device.open("a.bin", Open::Read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[test]
fn nobody_listening_and_forbidden_are_told_apart() {
    let runtime = Runtime::new(Options::default()).unwrap();
    let pairs = options(&[("allow_http", "true"), ("deadline", "0.5")]);
    let device = runtime.io().device("http://127.0.0.1:9/x", &pairs).unwrap();
    assert_eq!(
        device.open("y", Open::Read).unwrap_err().kind(),
        ErrorKind::Unavailable
    );

    let (server, _runtime, device, _data) = web(Site::default());
    server
        .site
        .troubles
        .lock()
        .unwrap()
        .push(Trouble::Forbidden);
    let error = device.open("a.bin", Open::Read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert_eq!(device.stat("a.bin").unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn what_cannot_be_done_is_unsupported() {
    let (_server, _runtime, device, _data) = web(Site::default());
    let file = device.open("a.bin", Open::Read).unwrap();
    for result in [
        device.open("b", Open::Create).map(drop),
        device.open("a.bin", Open::Write).map(drop),
        device.create_dir("d"),
        device.rename("a.bin", "b"),
        device.remove("a.bin"),
        device.remove_dir("d"),
        device.sync_dir(""),
        device.copy("a.bin", "b"),
        file.write_at(b"x", 0),
        file.set_len(0),
        file.sync(),
        file.map(1).map(drop),
        file.try_lock(0, 1, LockKind::Shared).map(drop),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert_eq!(
        device.open("../a", Open::Read).unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert!(file.fd().is_none());
}

#[test]
fn a_wrong_uri_is_refused_without_quoting_its_secrets() {
    let runtime = Runtime::new(Options::default()).unwrap();
    for uri in [
        "s3://key:hunter22@bucket/x",
        "https://host/x?sig=hunter22",
        "s3://bucket/x#hunter22",
    ] {
        let error = runtime.io().device(uri, &BTreeMap::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(!format!("{error:?}").contains("hunter22"), "{error:?}");
    }
    let error = runtime
        .io()
        .device("s4://bucket", &BTreeMap::new())
        .unwrap_err();
    assert!(error.to_string().contains("did you mean `s3`"), "{error}");
    assert!(runtime.io().remote("/local", &BTreeMap::new()).is_err());
}

#[test]
fn plain_http_needs_permission() {
    let (server, runtime, _device, _data) = web(Site::default());
    let refused = [
        runtime.io().device(&server.url, &BTreeMap::new()).unwrap(),
        runtime
            .io()
            .device(
                "s3://bucket/x",
                &options(&[("endpoint", &server.url), ("key", "k"), ("secret", "s")]),
            )
            .unwrap(),
    ];
    let before = server.requests();
    for device in refused {
        let error = device.open("a.bin", Open::Read).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.to_string().contains("allow_http"), "{error}");
    }
    assert_eq!(server.requests(), before, "no byte was sent");
}

#[test]
fn secrets_appear_nowhere() {
    let server = Server::start(Site::default());
    let runtime = Runtime::new(Options::default()).unwrap();
    let pairs = options(&[
        ("endpoint_url", &server.url),
        ("access_key_id", "visible"),
        ("secret_access_key", "hunter22secret"),
        ("session_token", "hunter22token"),
        ("allow_http", "true"),
        ("region", "eu-west-1"),
        ("deadline", "1"),
    ]);
    let device = runtime.io().device("s3://bucket/folder", &pairs).unwrap();
    server
        .site
        .troubles
        .lock()
        .unwrap()
        .push(Trouble::Forbidden);
    let error = device.open("x", Open::Read).unwrap_err();
    for text in [
        format!("{device:?}"),
        device.uri().to_owned(),
        error.to_string(),
        format!("{error:?}"),
    ] {
        assert!(!text.contains("hunter22"), "{text}");
    }
    assert_eq!(device.uri(), "s3://bucket/folder");
    assert_eq!(device.parent().unwrap().uri(), "s3://bucket");
    assert!(device.parent().unwrap().parent().is_none());
}

#[test]
fn a_child_connects_anew() {
    let (_server, _runtime, device, data) = web(Site::default());
    let file = device.open("a.bin", Open::Read).unwrap();
    let read = || {
        let mut part = [0; 100];
        file.read_exact_at(&mut part, 4321).unwrap();
        part[..] == data[4321..4421]
    };
    assert!(read());
    for _ in 0..3 {
        assert_eq!(super::forks::in_child(|| i32::from(!read())), 0);
    }
    assert!(read());
}

#[test]
fn small_objects_are_put() {
    let (server, runtime, _device, _data) = web(Site::default());
    let pairs = options(&[("allow_http", "true")]);
    let remote = runtime
        .io()
        .remote(&format!("{}/out", server.url), &pairs)
        .unwrap();
    remote
        .put("new/a", bytes::Bytes::from_static(b"hello"), true)
        .unwrap();
    assert_eq!(read_file(&remote, "new/a", 10).unwrap(), b"hello");
    let dir = tempfile::tempdir().unwrap();
    let local = LocalDevice::new(dir.path()).unwrap();
    let file = local.open("f", Open::Create).unwrap();
    file.write_at(&[7; 100_000], 0).unwrap();
    let sent = std::cell::Cell::new(0);
    remote
        .upload("f", &*file, &|bytes| sent.set(bytes))
        .unwrap();
    assert_eq!(sent.get(), 100_000);
    assert!(read_file(&remote, "f", 1 << 20).unwrap() == vec![7; 100_000]);
}

/// Against a real S3 protocol server, which `cargo x test` starts.
#[test]
fn an_s3_store_works_end_to_end() {
    let Ok(endpoint) = std::env::var("STADDLE_TEST_S3") else {
        eprintln!(
            "SKIPPED: S3 tests need STADDLE_TEST_S3=http://127.0.0.1:PORT, which `cargo x test` sets"
        );
        return;
    };
    let runtime = Runtime::new(Options::default()).unwrap();
    let name = format!("staddle-{}", std::process::id());
    let auth = [
        ("key", "testing"),
        ("secret", "testing"),
        ("region", "us-east-1"),
        ("allow_http", "true"),
    ];
    let pairs = options(&[&auth[..], &[("endpoint_url", &endpoint)]].concat());
    // A bucket is made by a plain PUT, which the test server takes without a signature.
    let web = runtime
        .io()
        .remote(&endpoint, &options(&[("allow_http", "true")]))
        .unwrap();
    web.put(&name, bytes::Bytes::new(), true).unwrap();

    let remote = runtime
        .io()
        .remote(&format!("s3://{name}/deep/er"), &pairs)
        .unwrap();
    assert!(remote.stat("").unwrap().is_none());
    assert_eq!(remote.list("").unwrap_err().kind(), ErrorKind::NotFound);
    remote
        .put("small", bytes::Bytes::from_static(b"hello"), false)
        .unwrap();
    let error = remote
        .put("small", bytes::Bytes::from_static(b"again"), false)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");

    let dir = tempfile::tempdir().unwrap();
    let local = LocalDevice::new(dir.path()).unwrap();
    let mut data = vec![0; (20 << 20) + 5];
    Seed(1).stream("upload").fill(&mut data);
    let file = local.open("large", Open::Create).unwrap();
    file.write_at(&data, 0).unwrap();
    let heard = std::cell::RefCell::new(Vec::new());
    remote
        .upload("sub/large", &*file, &|bytes| heard.borrow_mut().push(bytes))
        .unwrap();
    assert_eq!(heard.borrow().last(), Some(&(data.len() as u64)));
    assert_eq!(heard.borrow().len(), 3, "three parts");

    assert_eq!(remote.list("").unwrap(), ["small", "sub"]);
    assert_eq!(remote.list("sub").unwrap(), ["large"]);
    assert!(remote.stat("").unwrap().unwrap().dir && remote.stat("sub").unwrap().unwrap().dir);
    let file = remote.open("sub/large", Open::Read).unwrap();
    assert_eq!(file.len().unwrap(), data.len() as u64);
    let mut whole = vec![0; data.len()];
    file.read_exact_at(&mut whole, 0).unwrap();
    assert!(whole == data);
    let mut buffers = vec![[0; 64]; 100];
    let mut reads: Vec<Read<'_>> = buffers
        .iter_mut()
        .enumerate()
        .map(|(n, into)| Read {
            file: &*file,
            offset: n as u64 * 200_001,
            into,
        })
        .collect();
    runtime.io().read_many(&mut reads).unwrap();
    for (n, buffer) in buffers.iter().enumerate() {
        assert!(buffer[..] == data[n * 200_001..n * 200_001 + 64]);
    }

    remote
        .put("sub/large", bytes::Bytes::from_static(b"other"), true)
        .unwrap();
    assert_eq!(
        file.read_exact_at(&mut [0; 5], 0).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    assert_eq!(
        remote.open("none", Open::Read).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    remote.delete("small").unwrap();
    remote.delete("small").unwrap();
    assert!(remote.stat("small").unwrap().is_none());
    assert_eq!(
        super::forks::in_child(|| i32::from(
            read_file(&remote, "sub/large", 9).unwrap() != b"other"
        )),
        0
    );
}
