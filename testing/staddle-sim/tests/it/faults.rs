//! Faults: errors by number and rate, syncs that lose, media that rot.

use staddle_base::{ErrorKind, Seed};
use staddle_runtime::io::device::{Device, Open, publish_file};
use staddle_sim::{Fault, On, Op, Rule, SimDisk, Survivors, When};

use crate::toy::{self, Bug, Toy};

fn rule(on: On, when: When, fault: Fault) -> Rule {
    Rule { on, when, fault }
}

#[test]
fn the_nth_call_fails_with_the_errors_kind() {
    for (fault, kind) in [
        (Fault::Io, ErrorKind::Unavailable),
        (Fault::NoSpace, ErrorKind::Exhausted),
        (Fault::Quota, ErrorKind::Exhausted),
    ] {
        let disk = SimDisk::new(Seed(1));
        disk.inject(rule(On::Only(Op::Write), When::Nth(2), fault));
        let file = disk.open("f", Open::Create).unwrap();
        file.write_at(b"a", 0).unwrap();
        assert_eq!(file.write_at(b"b", 1).unwrap_err().kind(), kind);
        file.write_at(b"c", 2).unwrap();
        assert_eq!(disk.faults_struck(), 1);
    }
}

#[test]
fn every_call_can_fail_and_nothing_acknowledged_is_lost() {
    let mut point = 1;
    loop {
        let disk = SimDisk::new(Seed(point));
        let toy = Toy::create(&disk, Bug::None).unwrap();
        disk.inject(rule(On::Mutating, When::Nth(point), Fault::Io));
        let failed = (1..5).find_map(|number| toy.put(number).err());
        for survivors in Survivors::EACH {
            let image = disk.crash_image(survivors, Seed(point));
            assert_eq!(
                toy::check(&image, &toy.promise.lock()),
                None,
                "call {point}, {survivors:?}"
            );
        }
        if failed.is_none() {
            break;
        }
        point += 1;
    }
    assert!(point > 20);
}

#[test]
fn a_failed_sync_loses_its_pages_although_the_next_succeeds() {
    let lost = (0..50).any(|seed| {
        let disk = SimDisk::new(Seed(seed));
        publish_file(&disk, "f", &[0; 4096]).unwrap();
        let file = disk.open("f", Open::Write).unwrap();
        file.write_at(&[1; 4096], 0).unwrap();
        disk.inject(rule(On::Only(Op::Sync), When::Nth(1), Fault::Io));
        file.sync().unwrap_err();
        file.sync().expect("the kernel has forgotten the error");
        assert_eq!(
            disk.read("f").unwrap(),
            [1; 4096],
            "the page cache still shows the bytes"
        );
        disk.crash_image(Survivors::All, Seed(seed))
            .read("f")
            .unwrap()
            != [1; 4096]
    });
    assert!(lost);
}

#[test]
fn a_page_written_again_after_a_failed_sync_is_written_whole() {
    let disk = SimDisk::new(Seed(3));
    publish_file(&disk, "f", &[0; 1024]).unwrap();
    let file = disk.open("f", Open::Write).unwrap();
    file.write_at(&[1; 1024], 0).unwrap();
    disk.inject(rule(On::Only(Op::Sync), When::Nth(1), Fault::Io));
    file.sync().unwrap_err();
    file.write_at(&[2; 1], 0).unwrap();
    file.sync().unwrap();
    let got = disk
        .crash_image(Survivors::None, Seed(1))
        .read("f")
        .unwrap();
    assert_eq!((got[0], &got[1..512]), (2, &[1; 511][..]));
}

#[test]
fn a_retried_sync_is_caught() {
    let mut wrong = 0;
    for seed in 0..40 {
        let disk = SimDisk::new(Seed(seed));
        let toy = Toy::create(&disk, Bug::RetriedSync).unwrap();
        disk.inject(rule(On::Only(Op::Sync), When::Nth(1), Fault::Io));
        toy.put(1).unwrap();
        let image = disk.crash_image(Survivors::All, Seed(seed));
        wrong += usize::from(toy::check(&image, &toy.promise.lock()).is_some());
    }
    assert!(wrong > 0);
}

#[test]
fn a_failed_folder_sync_leaves_names_uncertain() {
    let (mut there, mut gone) = (0, 0);
    for seed in 0..40 {
        let disk = SimDisk::new(Seed(seed));
        let file = disk.open("f", Open::Create).unwrap();
        file.sync().unwrap();
        disk.inject(rule(On::Only(Op::SyncDir), When::Nth(1), Fault::Io));
        disk.sync_dir("").unwrap_err();
        disk.sync_dir("").unwrap();
        match disk.crash_image(Survivors::None, Seed(seed)).read("f") {
            Some(_) => there += 1,
            None => gone += 1,
        }
    }
    assert!(there > 0 && gone > 0);
}

#[test]
fn silent_faults_change_bytes_without_an_error() {
    let disk = SimDisk::new(Seed(5));
    publish_file(&disk, "f", &[0; 2048]).unwrap();
    let file = disk.open("f", Open::Write).unwrap();
    let mut bytes = [0; 2048];

    disk.inject(rule(On::Only(Op::Read), When::Nth(1), Fault::ShortRead));
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 1024);
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 2048);

    disk.inject(rule(On::Only(Op::Read), When::Nth(1), Fault::BitRot));
    for _ in 0..2 {
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(
            bytes.iter().map(|b| b.count_ones()).sum::<u32>(),
            1,
            "rot stays"
        );
    }

    disk.inject(rule(On::Only(Op::Write), When::Nth(1), Fault::Misdirect));
    file.write_at(&[9; 512], 0).unwrap();
    assert_eq!(disk.read("f").unwrap()[512..1024], [9; 512]);

    assert!(disk.flip_bit("f", 8 * 2047) && !disk.flip_bit("f", 8 * 2048));
    assert_eq!(disk.read("f").unwrap()[2047], 1);
    assert!(disk.scribble("f", b"junk", 0) && disk.truncate("f", 4));
    assert_eq!(disk.read("f").unwrap(), b"junk");
    assert_eq!(
        disk.crash_image(Survivors::None, Seed(0))
            .read("f")
            .unwrap(),
        b"junk"
    );
}

#[test]
fn rates_are_drawn_from_the_seed() {
    let count = |seed| {
        let disk = SimDisk::new(Seed(seed));
        disk.inject(rule(On::Any, When::Rate(1, 4), Fault::Io));
        for _ in 0..200 {
            let _ = disk.stat("");
        }
        disk.faults_struck()
    };
    assert_eq!(count(1), count(1));
    assert!((20..90).contains(&count(1)));
    let disk = SimDisk::new(Seed(1));
    disk.inject(rule(On::Any, When::From(3), Fault::Io));
    assert_eq!((0..6).filter(|_| disk.stat("").is_err()).count(), 4);
    disk.clear_faults();
    disk.stat("").unwrap();
}
