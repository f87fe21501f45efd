//! A batch, packed after it was gathered, and what can be said about a set at a glance.

use staddle_base::ErrorKind;
use staddle_record::{CodecChoice, Options};

use crate::common::OnDisk;

#[test]
fn a_batch_packs_to_the_same_bytes_as_a_packed_gather() {
    for codec in [CodecChoice::None, CodecChoice::Zstd] {
        let disk = OnDisk::new();
        let set = disk.create(Options {
            codec,
            ..Options::default()
        });
        let records: Vec<Vec<u8>> = (0..50_u8).map(|i| vec![i; usize::from(i) * 7]).collect();
        set.extend(&records).unwrap();
        set.tombstone(9).unwrap();
        let indices = [3, 9, 3, 49, 0];
        let (later, direct) = (
            set.gather(&indices).unwrap().pack().unwrap(),
            set.gather_packed(&indices).unwrap(),
        );
        assert_eq!(later.offsets, direct.offsets);
        assert_eq!(&later.data[..], &direct.data[..]);
        assert_eq!(later.present, direct.present);
        assert_eq!(later.present, Some(vec![true, false, true, true, true]));
    }
}

#[test]
fn a_glance_counts_own_unflushed_records_and_knows_when_the_set_is_closed() {
    let disk = OnDisk::new();
    let set = disk.create(Options::default());
    set.append(b"one").unwrap();
    assert_eq!(set.glance().records, 1);
    set.flush().unwrap();
    let glance = set.glance();
    assert_eq!(
        (glance.records, glance.live_bytes, glance.chunks),
        (1, 3, 1)
    );
    assert!(!glance.closed);
    set.close().unwrap();
    assert!(set.glance().closed);
}

#[test]
fn verify_stops_when_it_is_told_to() {
    let disk = OnDisk::new();
    let set = disk.create(Options::default());
    set.extend(&vec![b"x"; 1000]).unwrap();
    set.flush().unwrap();
    let error = set.verify_while(|done, _| done > 500).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(set.verify_while(|_, _| true).unwrap().records, 1000);
}
