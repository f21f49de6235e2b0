//! What belongs to a request while it is answered, wherever in the API that is: the warnings for its client, and the time
//! that others may still keep it waiting. An actor of this process has no such context: nobody reads its warnings.

use std::cell::{Cell, RefCell};
use std::time::Duration;

/// All that a request waits for others: Kubernetes' request time-out. Without it a collection of many objects would be
/// held once an object.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// So many different warnings are kept; the header holds fewer (`http::respond`).
const MAX_WARNINGS: usize = 256;

struct Request {
    warnings: RefCell<Vec<String>>,
    patience: Cell<Duration>,
}

tokio::task_local! {
    static REQUEST: Request;
}

/// Does what a request asks; with it, what its client should hear.
pub(crate) fn of_request<T>(answer: impl FnOnce() -> T) -> (T, Vec<String>) {
    let request = Request { warnings: RefCell::default(), patience: Cell::new(PATIENCE) };
    REQUEST.sync_scope(request, || {
        let answered = answer();
        (answered, REQUEST.with(|request| request.warnings.take()))
    })
}

/// Tells the client of the request, if there is one, once.
pub(crate) fn warn(text: String) {
    // Nobody listens: fine.
    let _ = REQUEST.try_with(|request| {
        let mut warnings = request.warnings.borrow_mut();
        if !text.is_empty() && warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    });
}

/// How long the request may still wait for others; none where there is no request.
pub(crate) fn patience() -> Option<Duration> {
    REQUEST.try_with(|request| request.patience.get()).ok()
}

/// The request has waited so long.
pub(crate) fn waited(time: Duration) {
    let _ = REQUEST.try_with(|request| request.patience.set(request.patience.get().saturating_sub(time)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_hears_each_warning_once_and_an_actor_none_api_16() {
        warn("nobody".into());
        assert_eq!(patience(), None);
        let (left, warnings) = of_request(|| {
            warn("a".into());
            warn("a".into());
            warn(String::new());
            warn("b".into());
            waited(Duration::from_secs(59));
            waited(Duration::from_secs(2));
            patience()
        });
        assert_eq!((left, warnings), (Some(Duration::ZERO), vec!["a".to_string(), "b".into()]));
    }
}
