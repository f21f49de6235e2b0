//! Resource usage as text, in the format of `kubectl top`.

/// `3Mi`, as in `kubectl top`.
pub(crate) fn bytes_in_words(bytes: i64) -> String {
    format!("{}Mi", bytes.max(0) >> 20)
}
