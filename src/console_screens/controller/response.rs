//! The result of requesting a controller's status from the server.

use serde_json::Value;

use console_data::action::error_text;
use console_data::resource::ObjectRef;
use console_data::rows::controller::{ControllerStatus, PLURAL};
use console_operations::effect::Outbox;
use console_operations::operations::controller::ABSENT;

/// The result of a request for a controller's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerResponse {
    /// The controller's status.
    Status(Box<ControllerStatus>),
    /// There is no controller of this name.
    NotFound,
    /// The server does not serve controllers.
    Absent,
    /// The user may not read the controller; contains the server's message.
    Forbidden(String),
    /// The request failed, or the response cannot be parsed.
    Failed(String),
}

impl ControllerResponse {
    /// Returns the message that explains a missing status; `None` if the response has a status.
    pub(super) fn error_message(&self) -> Option<String> {
        Some(match self {
            Self::Status(_) => return None,
            Self::NotFound => "this controller does not exist".to_owned(),
            Self::Absent => ABSENT.to_owned(),
            Self::Forbidden(why) => format!("forbidden: {why}"),
            Self::Failed(why) => why.clone(),
        })
    }
}

/// Requests a controller's status, and returns it with its resourceVersion.
pub(super) async fn fetch(out: &Outbox, target: &ObjectRef) -> (ControllerResponse, Option<String>) {
    match target.api(out.client()).get(&target.name).await {
        Ok(object) => {
            let version = object.metadata.resource_version.clone();
            (read(&object::json_of(object)), version)
        }
        Err(error) => (refused(&error), None),
    }
}

/// Parses the status of a controller object.
pub(super) fn read(object: &Value) -> ControllerResponse {
    match base::json::from_value(object["status"].clone()) {
        Ok(status) => ControllerResponse::Status(Box::new(status)),
        Err(error) => ControllerResponse::Failed(format!("cannot read its status: {error}")),
    }
}

/// Interprets a failed request. A server that serves controllers names the missing one in its 404; any other server
/// does not know the path.
pub(super) fn refused(error: &kube::Error) -> ControllerResponse {
    let kube::Error::Api(status) = error else { return ControllerResponse::Failed(error_text(error)) };
    let named = status.details.as_ref().is_some_and(|details| details.kind == PLURAL);
    match status.code {
        404 if named => ControllerResponse::NotFound,
        404 => ControllerResponse::Absent,
        403 => ControllerResponse::Forbidden(error_text(error)),
        _ => ControllerResponse::Failed(error_text(error)),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_controllers_servers_and_permissions_are_distinguished_con_18() {
        let status = |code: u16, kind: Option<&str>| {
            let details = kind.map(|kind| json!({"kind": kind, "group": "podium.dev", "name": "deployment"}));
            let status: Status = serde_json::from_value(json!({"status": "Failure", "message": "no",
                "reason": "NotFound", "code": code, "details": details}))
            .expect("a status");
            refused(&kube::Error::Api(Box::new(status)))
        };
        for (code, kind, answer) in [
            (404, Some(PLURAL), ControllerResponse::NotFound),
            (404, None, ControllerResponse::Absent),
            (403, Some(PLURAL), ControllerResponse::Forbidden("no".into())),
            (500, None, ControllerResponse::Failed("no".into())),
        ] {
            assert_eq!(status(code, kind), answer);
        }
        assert!(matches!(read(&json!({"status": {"state": 7}})), ControllerResponse::Failed(_)));
        let response = read(&json!({"status": {"state": "Running", "queue": {"depth": 3}, "new": true}}));
        let ControllerResponse::Status(reported) = response else { panic!("the response is not a status") };
        assert_eq!((reported.state.as_str(), reported.queue.expect("a queue").depth), ("Running", 3));
    }
}
