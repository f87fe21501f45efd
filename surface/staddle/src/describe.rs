//! Facts about a store in the words that the command line and Python share.

use serde_json::{Value, json};
use staddle_record::{Damage, Snapshot};

/// A named state as JSON.
pub fn snapshot(snapshot: &Snapshot) -> Value {
    json!({
        "name": snapshot.name,
        "generation": snapshot.head.generation,
        "records": snapshot.head.n,
        "live": snapshot.head.live,
        "time_ns": snapshot.head.time_ns,
    })
}

/// One damaged place in a line: what is wrong, and where.
pub fn damage(damage: &Damage) -> String {
    let mut text = match damage.index {
        Some(index) => format!("record {index}: {}", damage.what),
        None => damage.what.clone(),
    };
    if let Some(chunk) = damage.chunk {
        text.push_str(&format!(" (chunk {chunk}"));
        if let Some(offset) = damage.offset {
            text.push_str(&format!(", offset {offset}"));
        }
        text.push(')');
    }
    text
}
