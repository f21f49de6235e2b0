//! The dictionary that SPDY/3 header blocks are compressed against (SPDY protocol, draft 3, section
//! 2.6.10.1).
//!
//! It is a constant of the protocol: first words, each after its length, then plain text.

use std::sync::LazyLock;

/// The Adler-32 checksum that a compressed block names the dictionary by.
#[cfg(test)]
const ADLER_32: u32 = 0xe3c6_a7c2;

const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding \
    content-language content-length content-location content-md5 content-range content-type date etag expect \
    expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified \
    location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te \
    trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200\u{a0}OK \
    version HTTP/1.1 url public set-cookie keep-alive origin";

const TEXT: &str = "1001012012022052063003023033043053063074024054064074084094104114124134144154164175025\
    04505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized\
    403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar \
    Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,\
    image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,public\
    privatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// The dictionary's bytes.
pub(super) static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::with_capacity(1423);
    for word in WORDS.split(' ') {
        // `200 OK` is one word of the dictionary; the table writes its space as a no-break space.
        let word = word.replace('\u{a0}', " ");
        bytes.extend_from_slice(&(word.len() as u32).to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes.extend_from_slice(TEXT.as_bytes());
    bytes
});

#[cfg(test)]
mod tests {
    use super::*;

    /// With one wrong byte, no peer could read our blocks.
    #[test]
    fn the_dictionary_is_the_one_of_the_protocol_api_3() {
        let (mut low, mut high) = (1_u32, 0_u32);
        for byte in DICTIONARY.iter() {
            low = (low + u32::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        assert_eq!((DICTIONARY.len(), (high << 16) | low), (1423, ADLER_32));
    }
}
