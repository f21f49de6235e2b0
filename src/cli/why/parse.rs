//! Parses the arguments of the command.

use super::collect::Failure;
use object::Key;
use why::{ConnectionQuestion, Destination};

pub(super) fn question(
    source: &str,
    destination: &str,
    namespace: &str,
) -> Result<ConnectionQuestion, Failure> {
    let bare = ["pod/", "pods/", "po/"].iter().find_map(|kind| source.strip_prefix(kind)).unwrap_or(source);
    let source = match bare.split_once('/') {
        None if !bare.is_empty() => Key::new(namespace, bare),
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Key::new(namespace, name)
        }
        _ => return Err(Failure::Misuse(format!("invalid pod {source:?}: use NAME or NAMESPACE/NAME"))),
    };
    let (destination, port) = Destination::parse(destination, &source.namespace)
        .map_err(|misuse| Failure::Misuse(misuse.to_string()))?;
    Ok(ConnectionQuestion { source, destination, port })
}
