//! Names of many files at once: `s-{000..146}.tar`, `part-*.tfrecord`, `[ab]?.tar`.

use staddle_base::{Error, Result};

/// The most names that braces may stand for.
const NAMES_MAX: usize = 1_000_000;

/// Expands braces: `{a,b}` and `{000..146}` (as wide as written), nested ones too. Text without braces stands for
/// itself.
///
/// # Errors
/// `Invalid` for a brace without its end, or for more than a million names.
pub fn braces(text: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    expand("", text, &mut names)?;
    Ok(names)
}

fn expand(done: &str, rest: &str, names: &mut Vec<String>) -> Result<()> {
    let Some((before, inside, after)) = first_brace(rest)? else {
        if names.len() >= NAMES_MAX {
            return Err(Error::invalid(
                "the braces stand for more than a million names",
            ));
        }
        names.push(format!("{done}{rest}"));
        return Ok(());
    };
    for choice in choices(inside)? {
        expand(
            &format!("{done}{before}"),
            &format!("{choice}{after}"),
            names,
        )?;
    }
    Ok(())
}

/// The text before, in and after the first brace pair.
fn first_brace(text: &str) -> Result<Option<(&str, &str, &str)>> {
    let Some((before, rest)) = text.split_once('{') else {
        return Ok(None);
    };
    let mut depth = 1_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (inside, after) = rest.split_at(at);
            return Ok(Some((
                before,
                inside,
                after.strip_prefix('}').unwrap_or(after),
            )));
        }
    }
    Err(Error::invalid(format!(
        "`{text}` has a brace that is not closed"
    )))
}

fn choices(inside: &str) -> Result<Vec<String>> {
    if let Some((from, to)) = inside.split_once("..")
        && let (Ok(first), Ok(last)) = (from.parse::<u64>(), to.parse::<u64>())
    {
        let width = from.len().max(to.len());
        let padded = from.starts_with('0') || to.starts_with('0');
        if first.abs_diff(last) >= NAMES_MAX as u64 {
            return Err(Error::invalid(format!(
                "`{{{inside}}}` stands for more than a million names"
            )));
        }
        let name = |n: u64| {
            if padded {
                format!("{n:0width$}")
            } else {
                n.to_string()
            }
        };
        return Ok(if first <= last {
            (first..=last).map(name).collect()
        } else {
            (last..=first).rev().map(name).collect()
        });
    }
    let mut parts = vec![String::new()];
    let mut depth = 0_usize;
    for c in inside.chars() {
        match c {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    Ok(parts)
}

/// Whether a name has a wildcard.
pub fn is_wild(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Whether `name` fits `pattern`: `*` any characters, `?` one, `[a-c]` one of, `[!a-c]` none of. A leading dot must be
/// written out.
pub fn fits(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // The usual two-pointer match: on a mismatch go back to the last star and let it take one character more.
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = name.get(n) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => {
                p += 1;
                n += 1;
                continue;
            }
            Some('[') => {
                if let Some((true, after)) = class(&pattern, p, *c) {
                    p = after;
                    n += 1;
                    continue;
                }
            }
            Some(same) if same == c => {
                p += 1;
                n += 1;
                continue;
            }
            _ => {}
        }
        let Some((star_p, star_n)) = star else {
            return false;
        };
        star = Some((star_p, star_n + 1));
        p = star_p + 1;
        n = star_n + 1;
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

/// Whether the class at `at` has `c`, and where it ends.
fn class(pattern: &[char], at: usize, c: char) -> Option<(bool, usize)> {
    let mut p = at + 1;
    let negated = matches!(pattern.get(p), Some('!' | '^'));
    p += usize::from(negated);
    let first = p;
    let mut found = false;
    loop {
        let low = *pattern.get(p)?;
        if low == ']' && p > first {
            return Some((found != negated, p + 1));
        }
        let high = match (pattern.get(p + 1), pattern.get(p + 2)) {
            (Some('-'), Some(high)) if *high != ']' => {
                p += 2;
                *high
            }
            _ => low,
        };
        found |= (low..=high).contains(&c);
        p += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_stand_for_lists_and_ranges() {
        for (text, names) in [
            ("a.tar", "a.tar"),
            ("s-{08..11}.tar", "s-08.tar s-09.tar s-10.tar s-11.tar"),
            ("s-{2..0}", "s-2 s-1 s-0"),
            ("{a,b{1..2}}-{x,y}", "a-x a-y b1-x b1-y b2-x b2-y"),
            ("{,a}", " a"),
        ] {
            assert_eq!(braces(text).unwrap().join(" "), names, "{text}");
        }
        for text in ["{a", "{0..1000000}", "{0..999}{0..999}{0..9}"] {
            assert!(braces(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wildcards_fit() {
        for (pattern, name, expected) in [
            ("*.tar", "a.tar", true),
            ("*.tar", ".tar", false),
            (".*", ".tar", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("s-?.tar", "s-1.tar", true),
            ("s-?.tar", "s-10.tar", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[ab", "a", false),
            ("*", "", true),
            ("ä*", "äö", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
