//! Tar against Python's `tarfile`, against the `tar` crate as an oracle, and against damage.

use std::collections::BTreeMap;

use proptest::prelude::*;
use staddle_base::ErrorKind;

use super::super::tar::{Tar, header};
use super::{check_hostile, damage, damages, golden, scan};

const REFUSING: Tar = Tar {
    skip_special: false,
};

/// What Python's reader said about each archive.
fn members(archive: &str) -> Vec<(Vec<u8>, u64, u64)> {
    let all: BTreeMap<String, Vec<(String, u64, u64)>> =
        serde_json::from_slice(golden!("members.json")).unwrap();
    all[archive]
        .iter()
        .map(|(name, offset, size)| (name.clone().into_bytes(), *offset, *size))
        .collect()
}

#[test]
fn what_tarfile_wrote_is_found_where_tarfile_finds_it() {
    for (name, bytes) in [
        ("gnu.tar", golden!("gnu.tar")),
        ("pax.tar", golden!("pax.tar")),
        ("ustar.tar", golden!("ustar.tar")),
        ("samples.tar", golden!("samples.tar")),
    ] {
        let (found, scanned) = scan(&REFUSING, bytes).unwrap();
        assert_eq!(found, members(name), "{name}");
        assert!(!scanned.unterminated);
        assert!(found.iter().all(|(_, offset, _)| offset % 512 == 0));
    }
}

#[test]
fn links_are_refused_or_skipped_and_counted() {
    let error = scan(&REFUSING, golden!("links.tar")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("`hard` is a hard link"), "{error}");
    let (found, scanned) = scan(&Tar { skip_special: true }, golden!("links.tar")).unwrap();
    assert_eq!(found, members("links.tar"));
    assert_eq!(scanned.skipped, 3);
    assert_eq!(scanned.first_skipped.as_deref(), Some("hard"));
}

#[test]
fn compressed_and_foreign_files_are_named() {
    for (head, kind, word) in [
        (
            &b"\x1f\x8b\x08\0\0\0\0\0"[..],
            ErrorKind::Unsupported,
            "gzip",
        ),
        (b"\x28\xb5\x2f\xfd1234", ErrorKind::Unsupported, "zstd"),
        (b"\xfd7zXZ\0\0\0", ErrorKind::Unsupported, "xz"),
        (b"BZh91AY&", ErrorKind::Unsupported, "bzip2"),
        (b"PK\x03\x04\0\0", ErrorKind::Unsupported, "zip"),
        (b"", ErrorKind::Corrupt, "0 are left"),
        (b"hello", ErrorKind::Corrupt, "5 are left"),
        (&[b'x'; 2048], ErrorKind::Corrupt, "checksum"),
    ] {
        let error = scan(&REFUSING, head).unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.message().contains(word), "{error}");
    }
}

#[test]
fn an_archive_cut_anywhere_is_an_error_or_says_that_it_has_no_end() {
    let whole = golden!("gnu.tar");
    let all = members("gnu.tar");
    let end = all.last().map(|(_, offset, len)| offset + len).unwrap();
    for cut in 0..usize::try_from(end).unwrap() + 1 {
        match scan(&REFUSING, &whole[..cut]) {
            Ok((found, scanned)) => {
                assert!(scanned.unterminated, "cut at {cut}");
                assert!(all.starts_with(&found), "cut at {cut}");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "cut at {cut}: {error}"),
        }
    }
}

/// A member by hand: header with a right checksum, payload, padding.
fn member(name: &str, kind: u8, size_field: &[u8; 12], payload: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..136].copy_from_slice(size_field);
    block[148..156].fill(b' ');
    block[156] = kind;
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut out = block.to_vec();
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn octal(size: usize) -> [u8; 12] {
    format!("{size:011o}\0").into_bytes().try_into().unwrap()
}

#[test]
fn sizes_in_base_256_are_read_and_absurd_ones_refused() {
    let mut binary = [0_u8; 12];
    binary[0] = 0x80;
    binary[11] = 3;
    let (found, _) = scan(&REFUSING, &member("a", b'0', &binary, b"abc")).unwrap();
    assert_eq!(found, [(b"a".to_vec(), 512, 3)]);

    for size in [u64::MAX, u64::MAX - 600, 1 << 40, 1025] {
        binary[4..].copy_from_slice(&size.to_be_bytes());
        let error = scan(&REFUSING, &member("a", b'0', &binary, b"abc")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert_eq!(error.get("member"), Some("a"));
    }
    binary[3] = 1;
    assert!(scan(&REFUSING, &member("a", b'0', &binary, b"")).is_err());
    let error = scan(&REFUSING, &member("a", b'0', b"0000000009x\0", b"")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn pax_replaces_path_and_size_and_refuses_sparse() {
    let with = |pax: &[u8]| {
        let mut file = member("pax", b'x', &octal(pax.len()), pax);
        file.extend(member("short", b'0', &octal(1), b"abcdef"));
        scan(&REFUSING, &file)
    };
    let (found, _) = with(b"10 size=4\n13 path=a/bc\n").unwrap();
    assert_eq!(found, [(b"a/bc".to_vec(), 1536, 4)]);
    for (pax, kind) in [
        (&b"22 GNU.sparse.major=1\n"[..], ErrorKind::Unsupported),
        (b"10 size=-\n", ErrorKind::Corrupt),
        (b"10 size=9x\n", ErrorKind::Corrupt),
        (b"99 path=a\n", ErrorKind::Corrupt),
        (b"0 path=a\n", ErrorKind::Corrupt),
        (b"18446744073709551616 path=a\n", ErrorKind::Corrupt),
        (b"10 path=a?", ErrorKind::Corrupt),
        (b"8 path=\n", ErrorKind::Corrupt),
        (b"7 nope\n", ErrorKind::Corrupt),
        (b"29 size=18446744073709551615\n", ErrorKind::Corrupt),
    ] {
        let error = with(pax).unwrap_err();
        assert_eq!(error.kind(), kind, "{}: {error:?}", pax.escape_ascii());
    }
    let mut alone = member("pax", b'x', &octal(12), b"12 path=abc\n");
    alone.extend([0; 1024]);
    assert_eq!(
        scan(&REFUSING, &alone).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    let global = member("pax", b'g', &octal(12), b"12 path=abc\n");
    assert_eq!(
        scan(&REFUSING, &global).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn members_without_bytes_in_place_are_refused() {
    for kind in [b'S', b'M', b'A', 0xff] {
        let error = scan(&REFUSING, &member("a", kind, &octal(3), b"abc")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    }
    let long = member("long", b'L', b"77777777777\0", b"");
    assert_eq!(
        scan(&REFUSING, &long).unwrap_err().kind(),
        ErrorKind::Exhausted
    );
}

#[test]
fn a_second_archive_after_the_end_is_not_dropped_silently() {
    let mut twice = golden!("ustar.tar").to_vec();
    twice.extend_from_slice(golden!("ustar.tar"));
    let error = scan(&REFUSING, &twice).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let mut signed = golden!("ustar.tar").to_vec();
    signed.extend_from_slice(b"a signature, say");
    assert_eq!(scan(&REFUSING, &signed).unwrap().0, members("ustar.tar"));
}

#[test]
fn a_signed_checksum_is_accepted() {
    let mut block = member("\u{e9}", b'0', &octal(0), b"");
    let signed: i64 = block[..512]
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            i64::from(
                if (148..156).contains(&at) {
                    b' '
                } else {
                    *byte
                }
                .cast_signed(),
            )
        })
        .sum();
    block[148..155].copy_from_slice(format!("{signed:06o}\0").as_bytes());
    assert!(header::checksum_is_right(
        block[..512].first_chunk().unwrap()
    ));
    assert_eq!(scan(&REFUSING, &block).unwrap().0.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn agrees_with_the_tar_crate(
        members in prop::collection::vec(("[a-z]{1,300}(/[a-z.]{1,20}[a-z])?", prop::collection::vec(any::<u8>(), 0..1500)), 0..8)
    ) {
        let mut builder = ::tar::Builder::new(Vec::new());
        for (name, data) in &members {
            let mut header = ::tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, data.as_slice()).unwrap();
        }
        let bytes = builder.into_inner().unwrap();
        let (found, _) = scan(&REFUSING, &bytes).unwrap();
        let oracle: Vec<_> = ::tar::Archive::new(bytes.as_slice())
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.path_bytes().into_owned(), entry.raw_file_position(), entry.size())
            })
            .collect();
        prop_assert_eq!(found, oracle);
    }

    #[test]
    fn damage_never_leads_outside(damages in damages(), which in 0..3_usize) {
        let whole = [golden!("gnu.tar"), golden!("pax.tar"), golden!("links.tar")][which];
        let bytes = damage(whole, &damages);
        check_hostile(&Tar { skip_special: true }, &bytes, bytes.len() as u64);
    }

    #[test]
    fn damage_with_repaired_checksums_never_leads_outside(at in 0..40_usize, field in 0..512_usize, value in any::<[u8; 12]>()) {
        let mut bytes = golden!("gnu.tar").to_vec();
        let start = (at * 512) % bytes.len();
        let end = (field + 12).min(512);
        bytes[start + field..start + end].copy_from_slice(&value[..end - field]);
        let block = &mut bytes[start..start + 512];
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        check_hostile(&Tar { skip_special: true }, &bytes, bytes.len() as u64);
    }
}
