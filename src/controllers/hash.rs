//! The short names of templates: a hash, spelled in letters that form no words.

use object::names::ALPHABET;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// FNV-1a, 32 bits, over all parts in turn.
pub(super) fn fnv_1a(parts: &[&[u8]]) -> u32 {
    parts.iter().copied().flatten().fold(OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

/// FNV-1, 32 bits, over all parts in turn.
pub(super) fn fnv_1(parts: &[&[u8]]) -> u32 {
    parts.iter().copied().flatten().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(*byte))
}

/// Spells a hash in Kubernetes' format: in decimal, each digit as a letter.
pub(super) fn spelled(hash: u32) -> String {
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_what_everybody_else_computes() {
        // The authors' own test vectors.
        assert_eq!(fnv_1a(&[b"foo", b"bar"]), 0xbf9c_f968);
        assert_eq!(fnv_1(&[b"foo", b"bar"]), 0x31f0_b262);
        assert_eq!(spelled(0), "4");
        assert_eq!(spelled(1_234_567_890), "56789bcdf4");
    }
}
