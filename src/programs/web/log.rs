//! The logs of the built-in web servers: requests on standard output in the combined format, errors on standard error
//! in each server's own words.
#![expect(clippy::disallowed_methods, reason = "a program in a container lives in real time")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;

use http::{HeaderName, Method, Request, StatusCode, header};

use super::ServerFlavor;
use super::response::SiteResponse;

/// Logs a message about the server itself.
pub(super) fn notice(flavour: &ServerFlavor, text: &str) {
    error_line(flavour, "notice", text);
}

/// Logs one request: its line, and its error if it had one. A closed log is no reason to stop serving.
pub(super) fn request<B>(
    flavour: &ServerFlavor,
    request: &Request<B>,
    peer: IpAddr,
    connection: u64,
    site_response: &SiteResponse,
) {
    if let Some(trouble) = &site_response.error_log {
        let place = format!(
            "*{connection} {trouble}, client: {}, server: localhost, request: \"{} {} {:?}\", host: \"{}\"",
            peer,
            request.method(),
            plain(&request.uri().to_string()),
            request.version(),
            header_text(request, &header::HOST),
        );
        error_line(flavour, "error", &place);
    }
    let time = jiff::Timestamp::now().strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
    let _ = writeln!(std::io::stdout(), "{}", access_line(flavour, request, peer, &time, site_response));
}

/// Formats `ADDRESS - - [TIME] "REQUEST" STATUS BYTES "REFERER" "AGENT"`, for nginx with `X-Forwarded-For` at the end.
fn access_line<B>(
    flavour: &ServerFlavor,
    request: &Request<B>,
    peer: IpAddr,
    time: &str,
    site_response: &SiteResponse,
) -> String {
    let status = site_response.response.status();
    let sent = request.method() != Method::HEAD && status != StatusCode::NOT_MODIFIED;
    let length = site_response.response.headers().get(header::CONTENT_LENGTH).filter(|_| sent);
    let line = format!(
        "{} - - [{time}] \"{} {} {:?}\" {} {} \"{}\" \"{}\"",
        peer,
        request.method(),
        plain(&request.uri().to_string()),
        request.version(),
        status.as_u16(),
        length.and_then(|length| length.to_str().ok()).unwrap_or("0"),
        header_text(request, &header::REFERER),
        header_text(request, &header::USER_AGENT),
    );
    match flavour.program {
        "nginx" => {
            let forwarded = header_text(request, &HeaderName::from_static("x-forwarded-for"));
            format!("{line} \"{forwarded}\"")
        }
        _ => line,
    }
}

/// A header's text, `-` when there is none.
fn header_text<B>(request: &Request<B>, name: &HeaderName) -> String {
    let value = request.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    value.map_or_else(|| "-".to_owned(), |value| plain(&value))
}

/// Removes characters that end a quoted text, or control a terminal.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_control() || matches!(letter, '"' | '\\') => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\x{:02X}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out
}

fn error_line(flavour: &ServerFlavor, level: &str, text: &str) {
    let now = jiff::Timestamp::now();
    let pid = std::process::id();
    let line = match flavour.program {
        "nginx" => format!("{} [{level}] {pid}#{pid}: {text}", now.strftime("%Y/%m/%d %H:%M:%S")),
        _ => format!("[{}] [core:{level}] [pid {pid}] {text}", now.strftime("%a %b %d %H:%M:%S.%6f %Y")),
    };
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;

    /// IMG-2: lines as nginx and httpd write them, for any input of a client.
    #[test]
    fn a_request_is_one_line() {
        let request = Request::get("/a?b=%22c")
            .header("user-agent", "curl/8 \"x\"\t")
            .header("x-forwarded-for", "10.1.2.3")
            .body(())
            .unwrap();
        let response = Response::builder()
            .status(404)
            .header("content-length", "153")
            .body(crate::web::response::full(""));
        let answer = SiteResponse { response: response.unwrap(), error_log: None };
        let peer = "127.0.0.9".parse().unwrap();
        let line = |flavour| access_line(&flavour, &request, peer, "21/Nov/2026:07:00:00 +0000", &answer);
        let begin = "127.0.0.9 - - [21/Nov/2026:07:00:00 +0000] \"GET /a?b=%22c HTTP/1.1\" 404 153 \"-\" ";
        let agent = r#""curl/8 \x22x\x22\x09""#;
        assert_eq!(line(ServerFlavor::nginx()), format!("{begin}{agent} \"10.1.2.3\""));
        assert_eq!(line(ServerFlavor::httpd()), format!("{begin}{agent}"));
    }
}
