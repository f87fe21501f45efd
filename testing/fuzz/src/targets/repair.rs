//! Checksum repairs that targets share.

use staddle_base::checksum::crc32c;

/// Puts the CRC32C of `bytes[..at]` at `at`, if the slice is long enough.
pub(super) fn crc_at(bytes: &mut [u8], at: usize) {
    if let Some((body, rest)) = bytes.split_at_mut_checked(at)
        && let Some(sum) = rest.first_chunk_mut::<4>()
    {
        *sum = crc32c(body).to_le_bytes();
    }
}

/// Gives a JSON file of the store the right checksum line, replacing the one it has.
pub(super) fn json_line(input: &mut Vec<u8>) {
    let body = match input.windows(7).rposition(|window| window == b"crc32c:") {
        Some(at) => at,
        None => input.len(),
    };
    input.truncate(body);
    if input.last() != Some(&b'\n') {
        input.push(b'\n');
    }
    let line = format!("crc32c:{:08x}\n", crc32c(input));
    input.extend_from_slice(line.as_bytes());
}
