//! The operations available for a kind: those for which the server has the verb or the subresource, according to
//! discovery. The console does not offer other operations, and gives the reason if the user requests one.

use k8s_openapi::api::core::v1::{Event, Pod};

use super::operations;
use console_data::catalogue::Catalogue;
use console_data::kind_view::{self, Pods, Template};
use console_data::resource::Kind;
use console_data::rows::controller;
use console_toolkit::command::Command;

/// A command's requirement on the server.
enum ServerRequirement {
    /// A verb of the object's own resource.
    Verb(&'static str),
    /// A subresource of the object's resource, with a verb.
    Subresource(&'static str, &'static str),
    /// A subresource of pods, with one of these verbs.
    OfPods(&'static str, &'static [&'static str]),
}

fn needs(command: Command) -> Option<ServerRequirement> {
    Some(match command {
        Command::Describe | Command::Yaml | Command::Decode => ServerRequirement::Verb("get"),
        Command::Edit => ServerRequirement::Verb("update"),
        Command::Delete | Command::Kill | Command::Heal | Command::Unfence => {
            ServerRequirement::Verb("delete")
        }
        Command::Label
        | Command::Taint
        | Command::Cordon
        | Command::Uncordon
        | Command::Restart
        | Command::SetImage
        | Command::Undo
        | Command::Pause
        | Command::Suspend => ServerRequirement::Verb("patch"),
        Command::PortForward => ServerRequirement::OfPods("portforward", &["get", "create"]),
        Command::ControllerStep => ServerRequirement::Subresource("step", "create"),
        Command::Scale => ServerRequirement::Subresource("scale", "patch"),
        Command::Logs | Command::PreviousLogs => ServerRequirement::OfPods("log", &["get"]),
        // kubectl opens these with either verb: GET for WebSockets, POST for SPDY.
        Command::Shell | Command::Transfer => ServerRequirement::OfPods("exec", &["get", "create"]),
        Command::Attach => ServerRequirement::OfPods("attach", &["get", "create"]),
        Command::Debug => ServerRequirement::OfPods("ephemeralcontainers", &["patch"]),
        Command::OpenDrain | Command::DrainStart => ServerRequirement::OfPods("eviction", &["create"]),
        _ => return None,
    })
}

/// Returns the reason, from discovery, why the server cannot execute a command on objects of a kind.
fn server_refuses(catalogue: &Catalogue, kind: &Kind, command: Command) -> Option<String> {
    let heading = kind.heading();
    match needs(command)? {
        ServerRequirement::Verb(verb) if kind.has_verb(verb) => None,
        ServerRequirement::Verb(verb) => Some(format!("this server cannot {verb} {heading}")),
        ServerRequirement::Subresource(name, verb) if kind.has_subresource(name, verb) => None,
        ServerRequirement::Subresource("scale", _) => Some(format!("{heading} cannot be scaled")),
        ServerRequirement::Subresource(name, verb) => {
            Some(format!("this server cannot {verb} {name} of {heading}"))
        }
        ServerRequirement::OfPods(name, verbs) => {
            let pods = catalogue.kind::<Pod>();
            let has = verbs.iter().any(|verb| pods.has_subresource(name, verb));
            (!has).then(|| format!("this server has no {name} of pods"))
        }
    }
}

/// Returns the reason why a command cannot work on objects of a kind.
pub fn refuses(catalogue: &Catalogue, kind: &Kind, command: Command) -> Option<String> {
    let kind = catalogue.current(kind);
    let heading = kind.heading();
    let view = kind_view::of(&kind.resource);
    match command {
        // As `kubectl rollout restart`; the Deployment owns a ReplicaSet's template.
        Command::Restart if view.template != Template::Rolls => {
            Some(format!("{heading} cannot be restarted: they do not roll out new pods"))
        }
        Command::SetImage if view.template == Template::None && view.pods != Pods::Itself => {
            Some(format!("the images of {heading} are set by editing them"))
        }
        Command::Explain if matches!(view.pods, Pods::None | Pods::InNamespace) => {
            Some(format!("{heading} have no readiness to explain"))
        }
        Command::Decode if &*kind.resource.plural != "secrets" => {
            Some("only a Secret has data to decode".into())
        }
        Command::Fence => operations::fence::refuses(catalogue),
        // The table of events pauses itself.
        Command::Pause if kind.is::<Event>() => None,
        Command::Pause if kind.resource == controller::resource() => {
            operations::controller::refuses(catalogue)
        }
        Command::Logs if !has_logs(view.pods) => Some(format!("{heading} have no pods with logs")),
        _ => server_refuses(catalogue, kind, command),
    }
}

/// Reports whether logs can be read from pods with this relation to an object.
fn has_logs(pods: Pods) -> bool {
    matches!(pods, Pods::Itself | Pods::Owned | Pods::Selected)
}
