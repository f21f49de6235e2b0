//! Writes texts as JSON.

/// Appends a text as JSON.
pub(super) fn write_text(text: &str, json: &mut Vec<u8>) {
    if needs_escapes(text.as_bytes()) {
        serde_json::to_writer(json, text).expect("writing to memory cannot fail");
    } else {
        json.reserve(text.len() + 2);
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
    }
}

/// Returns true if the text contains quotes, backslashes or control characters. Looks at eight bytes at once.
fn needs_escapes(text: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH_BITS: u64 = ONES << 7;
    // A byte below `bound`, which is at most 0x80, borrows and so sets its high bit; a borrow that reaches a higher byte
    // comes from such a byte.
    let has_below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGH_BITS != 0;
    let has = |word: u64, byte: u8| has_below(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = text.as_chunks::<8>();
    words
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .any(|word| has_below(word, 0x20) || has(word, b'"') || has(word, b'\\'))
        || rest.iter().any(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_as_by_serde_json() {
        let signs = ('\0'..='\u{ff}').chain(['€', '😀', '\u{2028}']);
        for (sign, length) in signs.flat_map(|sign| (0..18).map(move |length| (sign, length))) {
            for before in 0..=length {
                let text = format!("{}{sign}{}", "x".repeat(before), "é".repeat(length - before));
                let mut json = b"[".to_vec();
                write_text(&text, &mut json);
                assert_eq!(
                    str::from_utf8(&json),
                    Ok(&*format!("[{}", serde_json::to_string(&text).unwrap()))
                );
            }
        }
    }
}
