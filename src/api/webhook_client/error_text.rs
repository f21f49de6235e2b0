//! Errors from external servers, and errors in their responses, cut to bounded length.

/// The limit on a webhook's error message, or on the problem with its response, that is passed on to clients,
/// watches and the log. Kubernetes has no limit.
const MAX_BYTES: usize = 4 * 1024;

/// Cuts a message to the limit.
pub(crate) fn truncate_error(mut message: String) -> String {
    if message.len() > MAX_BYTES {
        message.truncate(message.floor_char_boundary(MAX_BYTES));
        message.push_str("...");
    }
    message
}

/// Returns the first of several messages, as many as the limit allows together.
pub(crate) fn first_errors_within_limit<T>(all: Vec<T>, length: impl Fn(&T) -> usize) -> Vec<T> {
    let mut left = MAX_BYTES;
    let fits = |one: &T| {
        let rest = left.checked_sub(length(one).max(1));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    all.into_iter().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_cut_between_characters_api_16() {
        assert_eq!(truncate_error("no".into()), "no");
        let cut = truncate_error(format!("a{}", "é".repeat(MAX_BYTES)));
        assert_eq!(cut.len(), MAX_BYTES - 1 + 3);
        assert!(cut.ends_with("é..."));
        let retained = first_errors_within_limit(vec!["x".repeat(MAX_BYTES / 2); 3], String::len);
        assert_eq!(retained.len(), 2);
        assert_eq!(first_errors_within_limit(vec![""; MAX_BYTES * 2], |text| text.len()).len(), MAX_BYTES);
    }
}
