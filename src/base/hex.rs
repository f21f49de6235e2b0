//! Bytes in hexadecimal, the form of digests in text.

/// The digits, by their value.
const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

/// Returns two lowercase digits for each byte.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    let halves = bytes.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.map(|half| DIGITS[usize::from(half)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex([0x00, 0x0a, 0xf0, 0xff]), "000af0ff");
    }
}
