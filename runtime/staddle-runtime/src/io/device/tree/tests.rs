//! Trees with names, links and pipes of every kind.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use staddle_base::ErrorKind;

use super::{Leaf, Tree};
use crate::io::device::{Device, FolderDevice, MemoryDevice, Open};

fn leaf(path: &[u8], len: u64) -> Leaf {
    let path = path.to_vec();
    Leaf { path, len }
}

fn write(root: &Path, name: &[u8], bytes: &[u8]) {
    let path = root.join(OsStr::from_bytes(name));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn finds_files_of_any_name_and_follows_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    write(&root, b"b/2", b"two");
    write(&root, b"b.txt", b"");
    write(&root, b"\xff\xfe/\x80.bin", b"odd");
    write(&root, b"skipped/x", b"x");
    write(dir.path(), b"outside/secret", b"s");
    symlink(dir.path().join("outside"), root.join("link")).unwrap();
    symlink("b.txt", root.join("file-link")).unwrap();
    symlink(&root, root.join("loop")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), fifo, mode, 0).unwrap();

    let tree = Tree::local(&root).unwrap();
    let walk = tree.walk(&|path| path != b"skipped").unwrap();
    let expected = [
        leaf(b"b.txt", 0),
        leaf(b"b/2", 3),
        leaf(b"\xff\xfe/\x80.bin", 3),
    ];
    assert_eq!(walk.files, expected);
    assert_eq!((walk.links, walk.special, walk.unreadable), (3, 1, 0));
    assert_eq!(tree.read(b"\xff\xfe/\x80.bin", 100).unwrap(), b"odd");
    for (path, kind) in [
        (&b"link/secret"[..], ErrorKind::Denied),
        (b"file-link", ErrorKind::Denied),
        (b"pipe", ErrorKind::Denied),
        (b"b", ErrorKind::Denied),
        (b"nothing", ErrorKind::NotFound),
    ] {
        assert_eq!(tree.read(path, 100).unwrap_err().kind(), kind);
    }
    assert_eq!(
        tree.read(b"b/2", 2).unwrap_err().kind(),
        ErrorKind::Exhausted
    );
}

#[test]
fn a_root_may_be_a_link_or_a_file() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), b"real/one", b"1");
    symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
    let walk = |path: &str| {
        let tree = Tree::local(&dir.path().join(path)).unwrap();
        tree.walk(&|_| true).unwrap().files
    };
    assert_eq!(walk("link"), [leaf(b"one", 1)]);
    assert_eq!(walk("real/one"), [leaf(b"one", 1)]);
    let missing = Tree::local(&dir.path().join("none")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_device_has_trees_folders_and_parents_too() {
    let memory: Arc<dyn Device> = Arc::new(MemoryDevice::new("memory://"));
    let folder = FolderDevice::new(Arc::clone(&memory), "a/b").unwrap();
    folder.create_dir("c").unwrap();
    let file = folder.open("c/x", Open::Create).unwrap();
    file.write_at(b"abc", 0).unwrap();
    let tree = Tree::on(Arc::clone(&memory));
    assert_eq!(tree.walk(&|_| true).unwrap().files, [leaf(b"a/b/c/x", 3)]);
    assert_eq!(tree.read(b"a/b/c/x", 3).unwrap(), b"abc");
    let above = folder.parent().unwrap();
    assert!(above.stat("b/c/x").unwrap().is_some());
    assert!(above.parent().unwrap().stat("a/b").unwrap().is_some());
    assert!(FolderDevice::new(Arc::clone(&memory), "../a").is_err());

    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), b"set/x", b"1");
    let set = crate::io::device::LocalDevice::new(&dir.path().join("set")).unwrap();
    assert!(set.parent().unwrap().stat("set/x").unwrap().is_some());
}
