//! An answer of the server that was not the one hoped for, as one line for people.
//!
//! Never shortens the server's message: the user gets to read what the server said (CON-15).

/// The message of a failed request: the server's own words where it answered, else what broke.
pub fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) if !status.reason.is_empty() => {
            format!("the server answered {} {}", status.code, status.reason)
        }
        kube::Error::Api(status) => format!("the server answered {}", status.code),
        kube::Error::Service(inner) => format!("the server cannot be reached: {}", chain(inner.as_ref())),
        kube::Error::HyperError(inner) => format!("the server cannot be reached: {}", chain(inner)),
        kube::Error::UpgradeConnection(inner) => {
            format!("the server did not open a stream: {}", chain(inner))
        }
        other => chain(other),
    }
}

/// An error with its causes, without saying the same twice.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
