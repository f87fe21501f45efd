//! How results look to people: aligned fields, tables, sizes, and record bytes as text.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use staddle_base::size;

/// `name  value` lines of an object, nested objects with dotted names, lists of objects as tables below.
pub(crate) fn fields(document: &Value) -> String {
    let mut rows = Vec::new();
    let mut tables = Vec::new();
    if let Value::Object(map) = document {
        collect("", map, &mut rows, &mut tables);
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, value) in rows {
        let _ = writeln!(out, "{name:<width$}  {value}");
    }
    for (name, list) in tables {
        let _ = write!(out, "\n{name}\n{}", table(list));
    }
    out.truncate(out.trim_end().len());
    out
}

fn collect<'a>(
    prefix: &str,
    map: &'a Map<String, Value>,
    rows: &mut Vec<(String, String)>,
    tables: &mut Vec<(String, &'a [Value])>,
) {
    for (key, value) in map {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            Value::Object(inner) if !inner.is_empty() => collect(&name, inner, rows, tables),
            Value::Array(list) if list.first().is_some_and(Value::is_object) => {
                tables.push((name, list))
            }
            _ => rows.push((name, cell(key, value))),
        }
    }
}

/// A table of objects that share their keys.
pub(crate) fn table(rows: &[Value]) -> String {
    let Some(Value::Object(first)) = rows.first() else {
        return String::new();
    };
    let columns: Vec<&String> = first.keys().collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            columns
                .iter()
                .map(|column| cell(column, &row[column.as_str()]))
                .collect()
        })
        .collect();
    let mut out = String::new();
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(i, name)| {
            cells
                .iter()
                .map(|row| row[i].len())
                .max()
                .unwrap_or(0)
                .max(name.len())
        })
        .collect();
    let mut line = |values: &mut dyn Iterator<Item = &str>| {
        let joined: Vec<String> = values
            .zip(&widths)
            .map(|(value, width)| format!("{value:>width$}"))
            .collect();
        let _ = writeln!(out, "{}", joined.join("  ").trim_end());
    };
    line(&mut columns.iter().map(|name| name.as_str()));
    for row in &cells {
        line(&mut row.iter().map(String::as_str));
    }
    out
}

/// One value as people read it; the name says whether a number is a size or a share.
fn cell(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(bytes)
                if name == "bytes" || name.ends_with("_bytes") || name.starts_with("bytes_") =>
            {
                size::human(bytes)
            }
            Some(whole) => size::thousands(whole),
            None => match number.as_f64() {
                Some(share) if name.ends_with("utilization") || name.ends_with("_share") => {
                    format!("{:.1} %", 100.0 * share)
                }
                Some(real) => format!("{real:.3}"),
                None => number.to_string(),
            },
        },
        Value::Array(list) if list.is_empty() => "-".into(),
        Value::Array(list) => list
            .iter()
            .map(|item| cell(name, item))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Object(_) => "-".into(),
    }
}

/// The start of a record on one line: text where it is text, else hex; never a control character.
pub(crate) fn preview(bytes: &[u8], width: usize) -> String {
    let shown = &bytes[..bytes.len().min(width * 4)];
    if let Some(text) = as_text(shown, shown.len() < bytes.len()) {
        let escaped: String = text.escape_debug().take(width + 1).collect();
        return if escaped.chars().count() > width || shown.len() < bytes.len() {
            let cut: String = escaped.chars().take(width.saturating_sub(1)).collect();
            format!("{cut}…")
        } else {
            escaped
        };
    }
    let pairs = bytes.len().min(width / 3);
    let mut out: Vec<String> = bytes[..pairs]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if pairs < bytes.len() {
        out.push("…".into());
    }
    out.join(" ")
}

/// The bytes as text; a character cut off at the end is forgiven where `cut` says that bytes are missing.
fn as_text(bytes: &[u8], cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) if cut && e.error_len().is_none() => {
            std::str::from_utf8(&bytes[..e.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    (!text.contains(control)).then_some(text)
}

/// One record as a JSON object: text where the bytes are UTF-8, else base64.
pub(crate) fn record_json(index: u64, field: Option<&str>, bytes: Option<&[u8]>) -> Value {
    let mut map = Map::new();
    map.insert("index".into(), index.into());
    if let Some(field) = field {
        map.insert("field".into(), field.into());
    }
    map.insert("present".into(), bytes.is_some().into());
    if let Some(bytes) = bytes {
        map.insert("bytes".into(), bytes.len().into());
        match std::str::from_utf8(bytes) {
            Ok(text) => map.insert("text".into(), text.into()),
            Err(_) => map.insert("base64".into(), base64(bytes).into()),
        };
    }
    Value::Object(map)
}

/// Standard base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut word = 0_u32;
        for i in 0..3 {
            word = word << 8 | u32::from(group.get(i).copied().unwrap_or(0));
        }
        for i in 0..4_usize {
            if i <= group.len() {
                let six = (word >> (18 - 6 * i)) & 63;
                out.push(char::from(ALPHABET[six as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
