//! Resolves a request's path to a file of the served directory: pure decisions of the built-in web servers.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

/// The target of a request path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestedPath {
    /// A path below the served directory; the caller checks that it exists.
    Path(PathBuf),
    /// An invalid path: it leaves the directory, or contains bytes that no file name has.
    Bad,
}

/// Reads a request's path, which must stay below the directory in every case.
pub(super) fn named(directory: &Path, request_path: &str) -> RequestedPath {
    let Ok(decoded) = percent_decode_str(request_path).decode_utf8() else { return RequestedPath::Bad };
    if !decoded.starts_with('/') || decoded.contains('\0') {
        return RequestedPath::Bad;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in decoded.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return RequestedPath::Bad;
                }
            }
            part => parts.push(part),
        }
    }
    RequestedPath::Path(directory.join(parts.join("/")))
}

/// The media type of a file, by its name.
pub(super) fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "html" | "htm" | "shtml" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "application/javascript",
        "json" => "application/json",
        "xml" => "text/xml",
        "txt" => "text/plain",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: no request leaves the served directory.
    #[test]
    fn paths_stay_below_the_directory() {
        let table = [
            ("/", Some("/d/")),
            ("/a/b.html", Some("/d/a/b.html")),
            ("//a///b", Some("/d/a/b")),
            ("/a/./b", Some("/d/a/b")),
            ("/a/../b", Some("/d/b")),
            ("/a%20b", Some("/d/a b")),
            ("/..", None),
            ("/../etc/passwd", None),
            ("/a/../../etc/passwd", None),
            ("/%2e%2e/etc/passwd", None),
            ("/..%2fetc/passwd", None),
            ("/a%00b", None),
            ("/%ff", None),
            ("a", None),
            ("*", None),
        ];
        for (path, expect) in table {
            let expect = expect.map_or(RequestedPath::Bad, |path| RequestedPath::Path(path.into()));
            assert_eq!(named(Path::new("/d"), path), expect, "{path}");
        }
    }

    #[test]
    fn names_have_media_types() {
        assert_eq!(content_type(Path::new("/x/index.html")), "text/html");
        assert_eq!(content_type(Path::new("/x/none")), "application/octet-stream");
    }
}
