//! What programs see while the power is on.

use staddle_base::{ErrorKind, Seed};
use staddle_runtime::io::device::{Device, LockKind, Open, publish_file, read_file};
use staddle_sim::{SimDisk, Survivors};

fn disk() -> SimDisk {
    SimDisk::new(Seed(1))
}

#[test]
fn files_read_back_and_names_behave() {
    let disk = disk();
    disk.create_dir("a/b").unwrap();
    let file = disk.open("a/b/f", Open::Create).unwrap();
    file.write_at(b"hello", 3).unwrap();
    assert_eq!(read_file(&disk, "a/b/f", 100).unwrap(), b"\0\0\0hello");
    assert_eq!(
        disk.open("a/b/f", Open::Create).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    assert_eq!(
        disk.open("a/x", Open::Read).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        disk.open("no/x", Open::Create).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        disk.open("../x", Open::Read).unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(disk.list("a").unwrap(), ["b"]);
    assert_eq!(disk.list("").unwrap(), ["a"]);
    assert_eq!(
        disk.remove_dir("a/b").unwrap_err().kind(),
        ErrorKind::Conflict
    );
    assert!(disk.stat("a").unwrap().unwrap().dir);
    assert_eq!(disk.stat("a/b/f").unwrap().unwrap().len, 8);
    assert_eq!(disk.stat("zzz").unwrap(), None);
}

#[test]
fn rename_replaces_and_open_files_outlive_their_names() {
    let disk = disk();
    publish_file(&disk, "f", b"old").unwrap();
    let old = disk.open("f", Open::Read).unwrap();
    publish_file(&disk, "f", b"new").unwrap();
    let mut bytes = [0; 3];
    old.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"old");
    assert_eq!(disk.read("f").unwrap(), b"new");
    disk.remove("f").unwrap();
    disk.remove("f").unwrap();
    disk.sync_dir("").unwrap();
    old.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"old");
    assert!(disk.files().is_empty());
}

#[test]
fn a_file_opened_for_reading_cannot_be_written() {
    let disk = disk();
    publish_file(&disk, "f", b"x").unwrap();
    let file = disk.open("f", Open::Read).unwrap();
    assert_eq!(
        file.write_at(b"y", 0).unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(file.set_len(0).unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn copies_are_independent() {
    let disk = disk();
    publish_file(&disk, "a", &[7; 5000]).unwrap();
    disk.copy("a", "b").unwrap();
    disk.open("a", Open::Write)
        .unwrap()
        .write_at(b"x", 0)
        .unwrap();
    assert_eq!(disk.read("b").unwrap(), vec![7; 5000]);
    assert_eq!(disk.copy("a", "b").unwrap_err().kind(), ErrorKind::Conflict);
    // A copy is a new file: not durable before its own sync and its folder's.
    assert!(
        disk.crash_image(Survivors::None, Seed(0))
            .read("b")
            .is_none()
    );
    disk.sync_dir("").unwrap();
    assert_eq!(
        disk.crash_image(Survivors::None, Seed(0))
            .read("b")
            .unwrap(),
        b""
    );
    disk.open("b", Open::Write).unwrap().sync().unwrap();
    assert_eq!(
        disk.crash_image(Survivors::None, Seed(0))
            .read("b")
            .unwrap(),
        vec![7; 5000]
    );
}

#[test]
fn locks_belong_to_open_files() {
    let disk = disk();
    publish_file(&disk, "LOCK", b"").unwrap();
    let (a, b) = (
        disk.open("LOCK", Open::Write).unwrap(),
        disk.open("LOCK", Open::Write).unwrap(),
    );
    assert!(a.try_lock(0, 1, LockKind::Exclusive).unwrap());
    assert!(!b.try_lock(0, 1, LockKind::Shared).unwrap());
    assert!(b.try_lock(1, 10, LockKind::Shared).unwrap());
    assert!(a.try_lock(5, 1, LockKind::Shared).unwrap());
    assert!(!a.try_lock(5, 1, LockKind::Exclusive).unwrap());
    assert!(b.is_locked(0, 1, LockKind::Shared).unwrap());
    assert!(
        !a.is_locked(0, 1, LockKind::Shared).unwrap(),
        "one's own lock does not count"
    );
    b.unlock(5, 1).unwrap();
    assert!(a.try_lock(5, 1, LockKind::Exclusive).unwrap());
    assert!(
        !a.try_lock(4, 1, LockKind::Exclusive).unwrap(),
        "the rest of a split lock stays"
    );
    drop(a);
    assert!(b.try_lock(0, 1, LockKind::Exclusive).unwrap());
    let without = SimDisk::without_locks(Seed(1));
    assert!(!without.capabilities().lock);
    let file = without.open("f", Open::Create).unwrap();
    assert_eq!(
        file.try_lock(0, 1, LockKind::Shared).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn a_full_disk_refuses_and_room_comes_back() {
    let disk = SimDisk::with_capacity(Seed(1), 64 << 10);
    let file = disk.open("a", Open::Create).unwrap();
    file.allocate(0, 48 << 10).unwrap();
    assert_eq!((file.len().unwrap(), disk.used_bytes()), (0, 48 << 10));
    let other = disk.open("b", Open::Create).unwrap();
    assert_eq!(
        other.allocate(0, 17 << 10).unwrap_err().kind(),
        ErrorKind::Exhausted
    );
    assert_eq!(
        other.write_at(&[1; 32 << 10], 0).unwrap_err().kind(),
        ErrorKind::Exhausted
    );
    file.write_at(&[2; 48 << 10], 0)
        .expect("allocated space can be written on a full disk");
    drop(other);
    disk.remove("b").unwrap();
    disk.open("c", Open::Create)
        .unwrap()
        .write_at(&[3; 16 << 10], 0)
        .unwrap();
    assert_eq!(
        disk.copy("c", "d").unwrap_err().kind(),
        ErrorKind::Exhausted
    );
    file.set_len(0).unwrap();
    disk.copy("c", "d").unwrap();
}

#[test]
fn an_image_keeps_the_capacity() {
    let disk = SimDisk::with_capacity(Seed(1), 16 << 10);
    publish_file(&disk, "f", &[1; 12 << 10]).unwrap();
    let image = disk.crash_image(Survivors::All, Seed(2));
    assert_eq!(image.used_bytes(), 12 << 10);
    let file = image.open("g", Open::Create).unwrap();
    assert_eq!(
        file.write_at(&[1; 8 << 10], 0).unwrap_err().kind(),
        ErrorKind::Exhausted
    );
}
