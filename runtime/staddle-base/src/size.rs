//! Sizes as people write them: `"8GB"`, `"64 MiB"`, `4096`.

use crate::error::{Error, Result};

/// Parses a size in bytes: a number, optionally with a fraction, then `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000) or
/// `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024). Case does not matter.
///
/// # Errors
/// `Invalid` names the text and the accepted units.
pub fn parse(text: &str) -> Result<u64> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number = number.replace('_', "");
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(bad(text)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || fraction.len() > 18 {
        return Err(bad(text));
    }
    let whole: u64 = whole.parse().map_err(|_| bad(text))?;
    let mut bytes = u128::from(whole) * u128::from(factor);
    if !fraction.is_empty() {
        let digits: u64 = fraction.parse().map_err(|_| bad(text))?;
        let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(18));
        bytes += u128::from(digits) * u128::from(factor) / scale;
    }
    u64::try_from(bytes).map_err(|_| bad(text))
}

#[cold]
fn bad(text: &str) -> Error {
    Error::invalid(format!("`{text}` is not a size"))
        .hint("write for example 4096, \"64MiB\" or \"1.5GB\"")
}

/// Formats bytes with three significant digits and decimal units, as in `138 GB`.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for name in UNITS {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = name;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {unit}")
}

/// Formats a count with thousands separators, as in `1,281,167`.
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        for (text, bytes) in [
            ("4096", 4096),
            ("8GB", 8_000_000_000),
            ("64 MiB", 64 << 20),
            ("1.5kB", 1500),
            ("1gib", 1 << 30),
            ("1_000", 1000),
        ] {
            assert_eq!(parse(text).unwrap(), bytes, "{text}");
        }
        for text in [
            "",
            "GB",
            "-1",
            "1XB",
            "1.2.3",
            "99999999999999999999",
            "20000000TiB",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print() {
        assert_eq!(human(999), "999 B");
        assert_eq!(human(1000), "1.00 kB");
        assert_eq!(human(138_200_000_000), "138 GB");
        assert_eq!(human(999_999), "1.00 MB");
        assert_eq!(human(u64::MAX), "18.4 EB");
        assert_eq!(thousands(1_281_167), "1,281,167");
        assert_eq!(thousands(12), "12");
    }
}
