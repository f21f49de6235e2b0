//! Resource usage as text, in the format of `kubectl top`.

/// Returns `3Mi`, as in `kubectl top`.
pub fn format_bytes(bytes: i64) -> String {
    format!("{}Mi", bytes.max(0) >> 20)
}
