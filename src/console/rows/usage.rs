//! What is used, in words as `kubectl top` has them.

/// `3Mi`, as `kubectl top` has them.
pub(crate) fn bytes_in_words(bytes: i64) -> String {
    format!("{}Mi", bytes.max(0) >> 20)
}
