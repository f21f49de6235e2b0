//! The final status of a session, and the terminal sizes that clients send.

use serde_json::{Value, json};

use base::session::{SessionOutput, TerminalSize};

/// The form of a session's final status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusForm {
    /// A `Status` in JSON, for success too (from the fourth version of the protocol on).
    Json,
    /// Text, for failures only.
    Text,
}

impl StatusForm {
    /// Returns the form of a protocol, by its name.
    pub(super) fn of_protocol(protocol: &str) -> Self {
        if protocol.starts_with("v4.") || protocol.starts_with("v5.") { Self::Json } else { Self::Text }
    }

    /// Returns the final status; `None` if there is nothing to report.
    pub(super) fn of(self, end: &SessionOutput) -> Option<String> {
        let status = status(end)?;
        match self {
            Self::Json => Some(status.to_string()),
            Self::Text => status["message"].as_str().map(Into::into),
        }
    }
}

fn status(end: &SessionOutput) -> Option<Value> {
    match end {
        SessionOutput::Exited(0) => Some(json!({"metadata": {}, "status": "Success"})),
        SessionOutput::Exited(code) => Some(json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        })),
        SessionOutput::Failed(why) => {
            let message = format!("Internal error occurred: {why}");
            Some(json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "message": message,
                "details": {"causes": [{"message": why}]}, "code": 500,
            }))
        }
        SessionOutput::Stdout(_) | SessionOutput::Stderr(_) => None,
    }
}

/// Returns a terminal size as clients send it: `{"Width":80,"Height":24}`. The case of the names does not matter, because
/// Go's JSON decoder ignores it and the JavaScript client writes them in lower case.
pub(super) fn resize(data: &[u8]) -> Option<TerminalSize> {
    size(&serde_json::from_slice(data).ok()?)
}

fn size(value: &Value) -> Option<TerminalSize> {
    let side = |name: &str| {
        let (_, length) = value.as_object()?.iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        u16::try_from(length.as_u64()?).ok().filter(|n| *n > 0)
    };
    Some(TerminalSize { columns: side("Width")?, rows: side("Height")? })
}

/// A stream of terminal sizes, cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Sizes(Vec<u8>);

impl Sizes {
    /// Longer texts are no sizes.
    const MAX_BYTES: usize = 4096;

    /// Takes more of the stream and returns the newest complete size; older ones no longer matter.
    pub(super) fn feed(&mut self, data: &[u8]) -> Option<TerminalSize> {
        self.0.extend_from_slice(data);
        let mut values = serde_json::Deserializer::from_slice(&self.0).into_iter::<Value>();
        let (mut newest, mut read) = (None, 0);
        while let Some(value) = values.next() {
            match value {
                Ok(value) => {
                    newest = size(&value).or(newest);
                    read = values.byte_offset();
                }
                // The remainder is still to come.
                Err(error) if error.is_eof() => break,
                Err(_) => {
                    read = self.0.len();
                    break;
                }
            }
        }
        self.0.drain(..read);
        if self.0.len() > Self::MAX_BYTES {
            self.0.clear();
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_reported_as_clients_expect_eph_2() {
        let json = |end| StatusForm::Json.of(&end).map(|text| serde_json::from_str::<Value>(&text).unwrap());
        assert_eq!(json(SessionOutput::Exited(0)).unwrap()["status"], "Success");
        let failed = json(SessionOutput::Exited(3)).unwrap();
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
        let broken = json(SessionOutput::Failed("no such program".into())).unwrap();
        assert_eq!(broken["message"], "Internal error occurred: no such program");

        let text = |end| StatusForm::Text.of(&end);
        assert_eq!(text(SessionOutput::Exited(0)), None);
        let expected = "command terminated with non-zero exit code: exit status 3";
        assert_eq!(text(SessionOutput::Exited(3)).as_deref(), Some(expected));
    }

    #[test]
    fn sizes_are_read_however_they_are_cut_eph_2() {
        let size = |columns, rows| Some(TerminalSize { columns, rows });
        let mut sizes = Sizes::default();
        let mut check = |data: &str, expected| assert_eq!(sizes.feed(data.as_bytes()), expected, "{data}");
        check("{\"Width\":80,", None);
        check("\"Height\":24}\n{\"Wid", size(80, 24));
        check("th\":1,\"Height\":2}{\"Width\":3,\"Height\":4}\n", size(3, 4));
        check("{\"Width\":0,\"Height\":4}", None);
        check("nonsense", None);
        check("{\"Width\":5,\"Height\":6}", size(5, 6));
        check(&"[".repeat(10_000), None);
        check("{\"Width\":7,\"Height\":8}", size(7, 8));
        assert_eq!(resize(b"{\"height\":33,\"width\":99}"), size(99, 33));
        assert_eq!(resize(b"{\"Width\":70000,\"Height\":1}"), None);
    }
}
