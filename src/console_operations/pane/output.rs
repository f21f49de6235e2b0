//! Prepares the output of a container for the emulator.

use bytes::Bytes;

/// Adds carriage returns: a container without a TTY ends lines with LF only, which an emulator treats as "down".
pub(super) fn carriage_returns(bytes: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 16);
    for &byte in bytes {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_container_without_a_terminal_start_at_the_left() {
        assert_eq!(carriage_returns(b"a\nb\n"), &b"a\r\nb\r\n"[..]);
    }
}
