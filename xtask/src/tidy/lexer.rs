//! Splits a source file into code and comments, line by line, so that a rule about code is not fooled by prose or strings.

/// One line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The code, with comments and the insides of strings left out.
    pub(super) code: String,
    /// The comments of the line, with their marks.
    pub(super) comment: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    /// Rust's block comments nest.
    Block(u32),
    /// A string with escapes, up to this mark.
    Quoted(&'static str),
    /// A raw string, up to a quote and this many `#`.
    Raw(usize),
}

/// Rust: `//`, nested `/* */`, strings, raw strings, characters told from lifetimes.
pub(super) fn rust(text: &str) -> Vec<Line> {
    let mut state = State::Code;
    text.lines()
        .map(|line| rust_line(line, &mut state))
        .collect()
}

fn rust_line(line: &str, state: &mut State) -> Line {
    let mut out = Line::default();
    let mut rest = line;
    while let Some(char) = rest.chars().next() {
        let mut width = char.len_utf8();
        match *state {
            State::Code => {
                if rest.starts_with("//") {
                    *state = State::LineComment;
                    continue;
                } else if rest.starts_with("/*") {
                    *state = State::Block(1);
                    out.comment.push_str("/*");
                    width = 2;
                } else if let Some((open, hashes)) = raw_string(rest, &out.code) {
                    *state = State::Raw(hashes);
                    out.code.push('"');
                    width = open;
                } else if char == '"' {
                    *state = State::Quoted("\"");
                    out.code.push('"');
                } else if let Some(literal) = character(rest) {
                    out.code.push_str("' '");
                    width = literal;
                } else {
                    out.code.push(char);
                }
            }
            State::LineComment => {
                out.comment.push_str(rest);
                width = rest.len();
            }
            State::Block(depth) => {
                if rest.starts_with("*/") {
                    *state = if depth == 1 {
                        State::Code
                    } else {
                        State::Block(depth - 1)
                    };
                    out.comment.push_str("*/");
                    width = 2;
                } else if rest.starts_with("/*") {
                    *state = State::Block(depth + 1);
                    out.comment.push_str("/*");
                    width = 2;
                } else {
                    out.comment.push(char);
                }
            }
            State::Quoted(end) => {
                if char == '\\' {
                    width += rest[width..].chars().next().map_or(0, char::len_utf8);
                } else if rest.starts_with(end) {
                    *state = State::Code;
                    out.code.push('"');
                }
            }
            State::Raw(hashes) => {
                let end = format!("\"{}", "#".repeat(hashes));
                if rest.starts_with(&end) {
                    *state = State::Code;
                    out.code.push('"');
                    width = end.len();
                }
            }
        }
        rest = &rest[width..];
    }
    if *state == State::LineComment {
        *state = State::Code;
    }
    out
}

/// Length of the opening of a raw string (`r"`, `br#"`, `cr##"`) and its number of `#`, unless an identifier ends in that `r`.
fn raw_string(rest: &str, before: &str) -> Option<(usize, usize)> {
    if before
        .chars()
        .next_back()
        .is_some_and(|char| char.is_alphanumeric() || char == '_')
    {
        return None;
    }
    let prefix = ["br", "cr", "r"]
        .into_iter()
        .find(|prefix| rest.starts_with(prefix))?;
    let after = &rest[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..]
        .starts_with('"')
        .then_some((prefix.len() + hashes + 1, hashes))
}

/// Length of a character literal; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if let Some(escaped) = inside.strip_prefix('\\') {
        // The escaped character itself may be a quote, so the search starts behind it.
        let end = escaped
            .char_indices()
            .skip(1)
            .find(|(_, char)| *char == '\'')?;
        return Some(end.0 + 3);
    }
    let first = inside.chars().next()?;
    inside[first.len_utf8()..]
        .starts_with('\'')
        .then_some(first.len_utf8() + 2)
}

/// Python: `#`, strings and triple-quoted strings. A docstring is a string, so it is neither code nor comment.
pub(super) fn python(text: &str) -> Vec<Line> {
    let mut state = State::Code;
    text.lines()
        .map(|line| python_line(line, &mut state))
        .collect()
}

fn python_line(line: &str, state: &mut State) -> Line {
    const MARKS: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];
    let mut out = Line::default();
    let mut rest = line;
    while let Some(char) = rest.chars().next() {
        let mut width = char.len_utf8();
        match *state {
            State::Quoted(end) => {
                if char == '\\' {
                    width += rest[width..].chars().next().map_or(0, char::len_utf8);
                } else if rest.starts_with(end) {
                    *state = State::Code;
                    out.code.push('"');
                    width = end.len();
                }
            }
            _ => {
                if char == '#' {
                    out.comment.push_str(rest);
                    width = rest.len();
                } else if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
                    *state = State::Quoted(mark);
                    out.code.push('"');
                    width = mark.len();
                } else {
                    out.code.push(char);
                }
            }
        }
        rest = &rest[width..];
    }
    if matches!(*state, State::Quoted("\"" | "'")) && !line.ends_with('\\') {
        *state = State::Code; // a one-quote string ends with its line
    }
    out
}

/// Whether `word` stands in `code` as a word of its own; returns where each occurrence starts.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| {
            !part(code[..*at].chars().next_back()) && !part(code[*at + word.len()..].chars().next())
        })
}

#[cfg(test)]
mod tests;
