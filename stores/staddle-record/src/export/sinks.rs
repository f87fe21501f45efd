//! What a row looks like as files, a line, tar members or a TFRecord.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::json;
use staddle_base::checksum::crc32c_masked;
use staddle_base::{Error, Result};
use staddle_runtime::io::device::{Device, Open, check_path, parent};

use super::Row;
use super::output::{Output, from_io};
use crate::adopt::shown;

/// Where rows go.
pub trait Sink {
    /// Takes a row.
    ///
    /// # Errors
    /// `Invalid` where it does not fit the format; those of the device.
    fn put(&mut self, row: &Row<'_>) -> Result<()>;

    /// Makes everything durable; returns the names of files.
    ///
    /// # Errors
    /// Those of the device.
    fn finish(self: Box<Self>) -> Result<Vec<String>>;
}

/// The path of a field's file or member.
fn path_of(row: &Row<'_>, field: &str) -> Vec<u8> {
    let mut path = row.key.to_vec();
    if !row.named {
        path.push(b'.');
        path.extend_from_slice(field.as_bytes());
    }
    path
}

/// A file for each record. Files are not synced one by one: a tree of files has no moment at which it is complete.
#[derive(Debug)]
pub struct FilesSink {
    device: Arc<dyn Device>,
    folders: BTreeSet<String>,
}

impl FilesSink {
    /// Writes into the device's root.
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self {
            device,
            folders: BTreeSet::new(),
        }
    }
}

/// A path on a device: UTF-8, without `.` and empty parts. Bytes that are not UTF-8 are written as `%FF`.
fn device_path(path: &[u8]) -> Result<String> {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    let parts: Vec<&str> = text
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let text = parts.join("/");
    check_path(&text)?;
    if text.is_empty() {
        return Err(
            Error::denied("a record's name leaves nothing for a file's name")
                .with("name", shown(path)),
        );
    }
    Ok(text)
}

impl Sink for FilesSink {
    fn put(&mut self, row: &Row<'_>) -> Result<()> {
        for (field, record) in &row.fields {
            let Some(record) = record else {
                continue;
            };
            let path = device_path(&path_of(row, field))?;
            let folder = parent(&path);
            if !folder.is_empty() && !self.folders.contains(folder) {
                self.device.create_dir(folder)?;
                self.folders.insert(folder.to_owned());
            }
            self.device.open(&path, Open::Create)?.write_at(record, 0)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// What a line of JSON Lines holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonlAs {
    /// The record, which is JSON itself.
    #[default]
    Json,
    /// `{"text": …}`: the record is UTF-8.
    Text,
    /// `{"base64": …}`: any record.
    Base64,
}

impl JsonlAs {
    /// From a name.
    ///
    /// # Errors
    /// `Invalid` with the known names.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            "base64" => Ok(Self::Base64),
            _ => Err(Error::invalid(format!("unknown `{}`", name.escape_debug()))
                .hint("use json, text or base64")),
        }
    }
}

/// A line for each record.
#[derive(Debug)]
pub struct JsonlSink {
    output: Output,
    how: JsonlAs,
}

impl JsonlSink {
    /// Writes the file `name`.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn new(device: &Arc<dyn Device>, name: &str, how: JsonlAs) -> Result<Self> {
        let output = Output::create(device, name)?;
        Ok(Self { output, how })
    }
}

impl Sink for JsonlSink {
    fn put(&mut self, row: &Row<'_>) -> Result<()> {
        for (_, record) in &row.fields {
            let Some(record) = record else {
                continue;
            };
            let line = match self.how {
                JsonlAs::Json => one_line(record)?,
                JsonlAs::Text => {
                    let text = std::str::from_utf8(record).map_err(|_| {
                        Error::invalid("the record is not UTF-8, so it is no text")
                            .hint("export it as base64")
                    })?;
                    json!({ "text": text }).to_string().into_bytes()
                }
                JsonlAs::Base64 => json!({ "base64": base64(record) }).to_string().into_bytes(),
            };
            self.output.put(&line)?;
            self.output.put(b"\n")?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>> {
        Ok(vec![self.output.finish()?])
    }
}

/// JSON on one line: outside of strings, where JSON allows no line ends, they are spaces.
fn one_line(record: &[u8]) -> Result<Vec<u8>> {
    let wrong = |why: String| {
        Error::invalid(format!("the record is not JSON: {why}"))
            .hint("export records that are not JSON as text or base64")
    };
    let text = std::str::from_utf8(record).map_err(|e| wrong(e.to_string()))?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|e| wrong(e.to_string()))?;
    Ok(text.replace(['\n', '\r'], " ").into_bytes())
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (position, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = usize::try_from(bits >> shift & 63).unwrap_or(0);
            let digit = DIGITS.get(digit).copied().unwrap_or(b'=');
            out.push(char::from(if position <= group.len() {
                digit
            } else {
                b'='
            }));
        }
    }
    out
}

/// A member for each record.
pub struct TarSink {
    builder: tar::Builder<Output>,
    name: String,
}

impl TarSink {
    /// Writes the archive `name`.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn new(device: &Arc<dyn Device>, name: &str) -> Result<Self> {
        Ok(Self {
            builder: tar::Builder::new(Output::create(device, name)?),
            name: name.to_owned(),
        })
    }
}

impl Sink for TarSink {
    fn put(&mut self, row: &Row<'_>) -> Result<()> {
        for (field, record) in &row.fields {
            let Some(record) = record else {
                continue;
            };
            let path = path_of(row, field);
            let mut header = tar::Header::new_gnu();
            header.set_size(record.len() as u64);
            header.set_mode(0o644);
            self.builder
                .append_data(&mut header, Path::new(OsStr::from_bytes(&path)), *record)
                .map_err(|e| {
                    from_io(e, "writing a tar member", &self.name).with("member", shown(&path))
                })?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>> {
        let output = self
            .builder
            .into_inner()
            .map_err(|e| from_io(e, "writing a tar archive", &self.name))?;
        Ok(vec![output.finish()?])
    }
}

/// A TFRecord for each record.
#[derive(Debug)]
pub struct TfRecordSink {
    output: Output,
}

impl TfRecordSink {
    /// Writes the file `name`.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn new(device: &Arc<dyn Device>, name: &str) -> Result<Self> {
        let output = Output::create(device, name)?;
        Ok(Self { output })
    }
}

impl Sink for TfRecordSink {
    fn put(&mut self, row: &Row<'_>) -> Result<()> {
        for (_, record) in &row.fields {
            let Some(record) = record else {
                continue;
            };
            let length = (record.len() as u64).to_le_bytes();
            self.output.put(&length)?;
            self.output.put(&crc32c_masked(&length).to_le_bytes())?;
            self.output.put(record)?;
            self.output.put(&crc32c_masked(record).to_le_bytes())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>> {
        Ok(vec![self.output.finish()?])
    }
}

#[cfg(test)]
mod tests {
    use super::{base64, device_path};

    #[test]
    fn base64_is_the_standard_one() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn paths_stay_in_their_folder() {
        assert_eq!(device_path(b"./a//b/./c").unwrap(), "a/b/c");
        assert_eq!(device_path(b"/etc/passwd").unwrap(), "etc/passwd");
        assert_eq!(device_path(b"a\xffb").unwrap(), "a%FFb");
        for path in [&b"../a"[..], b"a/../b", b"", b"/", b"a\0b"] {
            assert!(device_path(path).is_err());
        }
    }
}
