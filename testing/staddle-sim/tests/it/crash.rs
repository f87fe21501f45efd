//! Crash images: a correct writer survives all of them, each seeded mistake is caught by some.

use std::sync::Arc;

use parking_lot::Mutex;
use staddle_base::{ErrorKind, Result, Seed};
use staddle_runtime::io::device::{Device, Open, publish_file};
use staddle_sim::{SimDisk, Survivors};

use crate::toy::{self, Bug, Toy};

/// Runs the toy and looks at images of every crash point; returns how many there were and what was wrong.
fn images(bug: Bug, seeds: std::ops::Range<u64>) -> (usize, Vec<String>) {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for seed in seeds {
        let disk = SimDisk::new(Seed(seed));
        let toy = Toy::create(&disk, bug).unwrap();
        let found = Arc::new(Mutex::new((0, Vec::new())));
        let (promise, sink) = (Arc::clone(&toy.promise), Arc::clone(&found));
        // The first commit, made by `create`, is taken as given: its mistakes need a full set of images as well.
        disk.sync_dir("").unwrap();
        toy.put(1).unwrap();
        disk.watch(move |moment| {
            for survivors in Survivors::EACH {
                let image = moment.image(survivors, Seed(seed));
                let mut sink = sink.lock();
                sink.0 += 1;
                if let Some(what) = toy::check(&image, &promise.lock()) {
                    sink.1
                        .push(format!("{} with {survivors:?}: {what}", moment.call()));
                }
            }
        });
        for number in 2..6 {
            toy.put(number).unwrap();
        }
        disk.unwatch();
        let mut found = found.lock();
        // After the last acknowledgement nothing may be lost either.
        for survivors in Survivors::EACH {
            let image = disk.crash_image(survivors, Seed(seed));
            found.0 += 1;
            found.1.extend(toy::check(&image, &toy.promise.lock()));
        }
        seen += found.0;
        wrong.append(&mut found.1);
    }
    (seen, wrong)
}

#[test]
fn a_correct_writer_never_loses() {
    let (seen, wrong) = images(Bug::None, 0..60);
    assert!(seen > 5000, "{seen} images");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn an_early_acknowledgement_is_caught() {
    assert!(!images(Bug::EarlyAck, 0..3).1.is_empty());
}

#[test]
fn a_missing_folder_sync_is_caught() {
    assert!(!images(Bug::NoDirSync, 0..3).1.is_empty());
}

#[test]
fn a_rename_before_the_sync_is_caught() {
    assert!(!images(Bug::RenameBeforeSync, 0..3).1.is_empty());
}

#[test]
fn a_pointer_published_before_its_data_is_caught() {
    assert!(!images(Bug::PointerBeforeData, 0..3).1.is_empty());
}

#[test]
fn a_pointer_rewritten_in_place_is_caught_torn() {
    let (_, wrong) = images(Bug::InPlace, 0..3);
    assert!(wrong.iter().any(|what| what.contains("torn")), "{wrong:?}");
}

#[test]
fn the_writer_unwinds_when_the_power_goes_at_any_call() {
    let mut point = 1;
    loop {
        let disk = SimDisk::new(Seed(point));
        disk.power_off_at(point);
        let run = || -> Result<Toy> {
            let toy = Toy::create(&disk, Bug::None)?;
            (1..4).try_for_each(|number| toy.put(number))?;
            Ok(toy)
        };
        match run() {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        assert!(disk.is_off());
        assert_eq!(disk.stat("").unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(!disk.crash_image(Survivors::Random, Seed(point)).is_off());
        point += 1;
    }
    assert!(point > 30);
}

#[test]
fn a_file_without_a_durable_name_is_gone_however_synced() {
    let disk = SimDisk::new(Seed(1));
    disk.create_dir("d").unwrap();
    let file = disk.open("d/f", Open::Create).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir("d").unwrap();
    assert!(
        disk.crash_image(Survivors::None, Seed(1))
            .files()
            .is_empty(),
        "`d` itself has no durable name"
    );
    disk.sync_dir("").unwrap();
    assert_eq!(
        disk.crash_image(Survivors::None, Seed(1))
            .read("d/f")
            .unwrap(),
        b"x"
    );
}

#[test]
fn a_removed_file_may_come_back_until_the_folder_is_synced() {
    let disk = SimDisk::new(Seed(1));
    publish_file(&disk, "f", b"x").unwrap();
    disk.remove("f").unwrap();
    assert_eq!(
        disk.crash_image(Survivors::None, Seed(1))
            .read("f")
            .unwrap(),
        b"x"
    );
    assert!(
        disk.crash_image(Survivors::All, Seed(1))
            .read("f")
            .is_none()
    );
    disk.sync_dir("").unwrap();
    assert!(
        disk.crash_image(Survivors::None, Seed(1))
            .read("f")
            .is_none()
    );
}

#[test]
fn length_and_bytes_arrive_apart_and_order_is_not_kept() {
    let disk = SimDisk::new(Seed(1));
    publish_file(&disk, "f", b"").unwrap();
    publish_file(&disk, "g", b"").unwrap();
    disk.open("f", Open::Write)
        .unwrap()
        .write_at(&[1; 2048], 0)
        .unwrap();
    disk.open("g", Open::Write)
        .unwrap()
        .write_at(&[2; 2048], 0)
        .unwrap();
    let (mut zeros, mut reordered, mut shorter) = (false, false, false);
    for seed in 0..300 {
        let image = disk.crash_image(Survivors::Random, Seed(seed));
        let (f, g) = (image.read("f").unwrap(), image.read("g").unwrap());
        zeros |= f.len() == 2048 && f[..512] == [0; 512];
        reordered |= f.is_empty() && g == [2; 2048];
        shorter |= f.is_empty();
    }
    assert!(zeros && reordered && shorter);
}

#[test]
fn torn_sectors_harm_only_the_bytes_that_change() {
    let disk = SimDisk::new(Seed(1));
    publish_file(&disk, "f", &[1; 600]).unwrap();
    let file = disk.open("f", Open::Write).unwrap();
    // Rewrites the first half with what is there and changes the rest of the sector.
    let mut sector = [1; 512];
    sector[256..].fill(2);
    file.write_at(&sector, 0).unwrap();
    let (mut garbage, mut mixed) = (false, false);
    for seed in 0..400 {
        let got = disk
            .crash_image(Survivors::Random, Seed(seed))
            .read("f")
            .unwrap();
        assert!(got[..256].iter().chain(&got[512..]).all(|b| *b == 1));
        let changed = &got[256..512];
        garbage |= changed.iter().any(|b| *b != 1 && *b != 2);
        mixed |= changed.contains(&1) && changed.contains(&2);
    }
    assert!(garbage && mixed);
}

#[test]
fn images_leave_the_disk_alone() {
    let disk = SimDisk::new(Seed(1));
    let toy = Toy::create(&disk, Bug::None).unwrap();
    toy.put(1).unwrap();
    let image = disk.crash_image(Survivors::All, Seed(1));
    image
        .open("data", Open::Write)
        .unwrap()
        .write_at(b"other", 0)
        .unwrap();
    image.remove("pointer").unwrap();
    assert_eq!(toy::read(&disk), Ok(1));
}
