//! What is encoded comes back; what is damaged is an error.

use proptest::prelude::*;

use super::*;

fn text(len: usize) -> Vec<u8> {
    b"the quick brown fox jumps over the lazy dog; "
        .iter()
        .copied()
        .cycle()
        .take(len)
        .collect()
}

fn round_trip(codec: Codec, record: &[u8], dictionary: Option<Arc<Dictionary>>) {
    let mut encoder = Encoder::new(codec, 3, dictionary.as_ref()).unwrap();
    let (payload, used, slot) = encoder.encode(record).unwrap();
    let mut out = vec![0; record.len()];
    let dictionary = dictionary.as_ref().filter(|_| slot != 0);
    Decoder::default()
        .decode(used, payload, dictionary, &mut out)
        .unwrap();
    assert_eq!(out, record);
}

proptest! {
    #[test]
    fn every_codec_gives_back_what_it_took(record in proptest::collection::vec(any::<u8>(), 0..5000), repeat in 1usize..4) {
        let record = record.repeat(repeat);
        for codec in [Codec::None, Codec::Deflate, Codec::Lz4, Codec::Zstd] {
            round_trip(codec, &record, None);
        }
    }

    #[test]
    fn damage_is_an_error_or_harmless(at in 0usize..2000, with in 1u8..) {
        let record = text(4000);
        for codec in [Codec::Deflate, Codec::Lz4, Codec::Zstd] {
            let mut encoder = Encoder::new(codec, 3, None).unwrap();
            let (payload, used, _) = encoder.encode(&record).unwrap();
            prop_assert_eq!(used, codec);
            let mut bad = payload.to_vec();
            let at = at % bad.len();
            bad[at] ^= with;
            let mut out = vec![0; record.len()];
            // Codecs carry no checksum, the frame does: the only promise here is an answer without a panic.
            let _ = Decoder::default().decode(used, &bad, None, &mut out);
        }
    }
}

#[test]
fn text_shrinks_and_noise_stays_raw() {
    let mut noise = vec![0; 4096];
    staddle_base::Seed(3).stream("noise").fill(&mut noise);
    for codec in [Codec::Deflate, Codec::Lz4, Codec::Zstd] {
        let mut encoder = Encoder::new(codec, 3, None).unwrap();
        assert_eq!(encoder.encode(&text(4096)).unwrap().1, codec);
        assert_eq!(encoder.encode(&noise).unwrap().1, Codec::None);
    }
}

#[test]
fn a_wrong_raw_length_is_corrupt() {
    for codec in [Codec::Deflate, Codec::Lz4, Codec::Zstd] {
        let record = text(1000);
        let mut encoder = Encoder::new(codec, 3, None).unwrap();
        let (payload, used, _) = encoder.encode(&record).unwrap();
        for wrong in [0, 999, 1001] {
            let mut out = vec![0; wrong];
            let error = Decoder::default()
                .decode(used, payload, None, &mut out)
                .unwrap_err();
            assert_eq!(
                error.kind(),
                staddle_base::ErrorKind::Corrupt,
                "{codec:?} {wrong}"
            );
        }
    }
}

#[test]
fn a_trained_dictionary_helps_small_records() {
    let records: Vec<Vec<u8>> = (0..2000u32)
        .map(|i| format!("{{\"user\": {i}, \"country\": \"se\", \"device\": \"phone-{}\", \"clicked\": true}}", i % 7).into_bytes())
        .collect();
    let samples: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let dictionary = Arc::new(Dictionary::new(
        1,
        Dictionary::train(&samples, 16 << 10).unwrap(),
    ));
    let total = |dictionary: Option<&Arc<Dictionary>>| -> usize {
        let mut encoder = Encoder::new(Codec::Zstd, 3, dictionary).unwrap();
        records
            .iter()
            .map(|r| encoder.encode(r).unwrap().0.len())
            .sum()
    };
    let (without, with) = (total(None), total(Some(&dictionary)));
    assert!(with * 2 < without, "{with} against {without}");
    round_trip(Codec::Zstd, &records[5], Some(dictionary));
}
