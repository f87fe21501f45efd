//! Tar archives, adopted in place.
//!
//! Strategy: mutate archives with plain, GNU long and pax names, links and holes; repair the checksum of every block
//! that looks like a header.
//! Invariants: every member's payload lies inside the file; each window size sees the same; grouping members into
//! samples gives columns of equal length.

use staddle_record::adopt::samples::Samples;
use staddle_record::adopt::window::Reach;
use staddle_record::adopt::{Adopter, Window, tar::Tar};

use super::scan;
use crate::target::{Signal, Target};

pub(super) const TARGET: Target = Target {
    name: "tar",
    run,
    seeds,
    fix: Some(|input| fix(input)),
    words: &[
        b"ustar\x0000",
        b"ustar  \0",
        b"././@LongLink",
        b"PaxHeader",
        b"18 path=../evil\n",
        b"16 size=99999999\n",
        b"30 size=18446744073709551615\n",
        b"22 GNU.sparse.major=1\n",
        b"\x80\0\0\0\0\0\0\0\xff\xff\xff\xff",
        b"77777777777",
        b"a.jpg",
        b".cls",
    ],
};

const BLOCK: usize = 512;

fn run(input: &[u8]) -> Signal {
    let size = input.len() as u64;
    let strict = scan::check(
        &Tar {
            skip_special: false,
        },
        input,
        size,
    );
    let lax = scan::check(&Tar { skip_special: true }, input, size);
    let mut samples = Samples::default();
    let source = input.to_vec();
    let grouped = Tar { skip_special: true }
        .scan(&mut Window::new(&source, Reach::LOCAL), &mut |item| {
            samples.add(&item)
        });
    if grouped.is_ok() {
        let names: Vec<String> = samples.names().map(str::to_owned).collect();
        for name in &names {
            assert_eq!(samples.column(name).len(), samples.len());
        }
        assert_eq!(samples.keys().len(), samples.len());
    }
    Signal::of(&[strict.as_number(), lax.as_number(), samples.len() as u64])
}

/// One header block.
fn header(name: &[u8], size: usize, kind: u8, gnu: bool) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name[..name.len().min(100)]);
    put(100, b"0000644\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(156, &[kind]);
    put(257, if gnu { b"ustar  \0" } else { b"ustar\x0000" });
    sum(&mut block);
    block
}

/// Puts the checksum of a header block.
fn sum(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn member(out: &mut Vec<u8>, name: &[u8], payload: &[u8], kind: u8, gnu: bool) {
    out.extend(header(name, payload.len(), kind, gnu));
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

fn seeds() -> Vec<Vec<u8>> {
    let long = b"a/very/long/folder/".repeat(8);
    let mut plain = Vec::new();
    for key in ["000", "001", "002"] {
        member(
            &mut plain,
            format!("{key}.jpg").as_bytes(),
            &[0xff; 700],
            b'0',
            false,
        );
        member(
            &mut plain,
            format!("{key}.cls").as_bytes(),
            b"7",
            b'0',
            false,
        );
    }
    let mut gnu = Vec::new();
    member(&mut gnu, b"././@LongLink", &long, b'L', true);
    member(&mut gnu, b"a/very", b"payload", b'0', true);
    member(&mut gnu, b"link", b"", b'2', true);
    member(&mut gnu, b"dir/", b"", b'5', true);
    let mut pax = Vec::new();
    let body = format!(
        "{} path={}\n",
        long.len() + 10,
        String::from_utf8_lossy(&long)
    );
    member(&mut pax, b"PaxHeader/x", body.as_bytes(), b'x', false);
    member(&mut pax, b"x", &[1; 513], b'0', false);
    member(&mut pax, b"pax_global_header", b"10 gid=10\n", b'g', false);
    member(&mut pax, b"sized", b"12 size=100\n", b'x', false);
    member(&mut pax, b"y", &[2; 100], b'0', false);
    let mut archives = vec![plain, gnu, pax];
    for archive in &mut archives {
        archive.resize(archive.len() + 2 * BLOCK, 0);
    }
    archives
}

fn fix(input: &mut [u8]) {
    for block in input.chunks_exact_mut(BLOCK) {
        if block[257..262] == *b"ustar" {
            sum(block);
        }
    }
}
