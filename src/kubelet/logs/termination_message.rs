//! The end of a container's log as its termination message (POD-9).

use std::path::PathBuf;

use super::entry::entry;
use crate::runtime::{ContainerId, Runtime};

/// The part of a log that may become a termination message.
const MAX_MESSAGE_BYTES: usize = 2048;
const MAX_MESSAGE_LINES: usize = 80;

/// Returns the last lines of a container's log in the form of a termination message.
pub(crate) async fn termination_message(runtime: &dyn Runtime, id: &ContainerId) -> String {
    let unread = |error: &dyn std::fmt::Display| {
        tracing::warn!("cannot read the end of the log of container {}: {error}", id.0);
        String::new()
    };
    let files = match runtime.log_files(id).await {
        Ok(files) => files,
        Err(error) => return unread(&error),
    };
    base::task::blocking(move || read_tail(&files)).await.unwrap_or_else(|error| unread(&error))
}

pub(super) fn read_tail(files: &[PathBuf]) -> String {
    let mut text: Vec<u8> = Vec::new();
    for path in files.iter().rev() {
        let Ok(bytes) = std::fs::read(path) else { continue };
        let mut part = Vec::new();
        let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
        for line in lines.iter().skip(lines.len().saturating_sub(MAX_MESSAGE_LINES)) {
            let entry = entry(line);
            part.extend_from_slice(entry.text);
            if !entry.partial {
                part.push(b'\n');
            }
        }
        part.extend_from_slice(&text);
        text = part;
        if text.len() >= MAX_MESSAGE_BYTES {
            break;
        }
    }
    last_lines(&text)
}

/// Returns the last 80 lines, 2 KiB at most.
fn last_lines(text: &[u8]) -> String {
    let from = text.len().saturating_sub(MAX_MESSAGE_BYTES);
    let text = String::from_utf8_lossy(&text[from..]);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines[lines.len().saturating_sub(MAX_MESSAGE_LINES)..].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_short_pod_9() {
        let long = (0..200).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let message = last_lines(long.as_bytes());
        assert!(message.starts_with("120\n") && message.ends_with("199\n"), "{message}");
        assert_eq!(last_lines(&[b'x'; 5000]).len(), 2048);
    }
}
