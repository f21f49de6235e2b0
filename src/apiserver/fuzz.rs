//! The property of request lines, for `lab::fuzz`: a path has one meaning, which can be encoded again.

use std::fmt::Write as _;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use api::served_kinds::Kinds;

use super::query::Query;
use super::request::{ResourceTarget, Target};

/// A path and a query, separated by `?`.
pub fn request(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let kinds = Kinds::default();
    let target = Target::parse(&kinds, path);
    if let Ok(Target::Resource(resource)) = &target {
        let written = write(resource);
        assert_eq!(Target::parse(&kinds, &written).ok().as_ref(), target.as_ref().ok(), "{written:?}");
        assert_eq!(resource.key().is_some(), resource.name.is_some());
    }
    let query = Query::parse(query);
    let _ = (query.include_object(), query.number::<u64>("limit"));
    if let Ok(Target::Resource(resource)) = target
        && let Ok(selection) = query.selection(&kinds, resource.served)
    {
        assert!(selection.fields.len() <= text.len() && selection.labels.requirements().len() <= text.len());
    }
}

fn write(target: &ResourceTarget) -> String {
    let ResourceTarget { served, namespace, name, subresource, watched } = target;
    let mut path = match served.group() {
        "" => format!("/api/{}", served.version()),
        group => format!("/apis/{group}/{}", served.version()),
    };
    let mut part = |text: &str| {
        let _ = write!(path, "/{}", utf8_percent_encode(text, NON_ALPHANUMERIC));
    };
    if *watched {
        part("watch");
    }
    if let Some(namespace) = namespace {
        part("namespaces");
        part(namespace);
    }
    part(served.kind().info().plural);
    if let Some(name) = name {
        part(name);
    }
    if let Some(subresource) = subresource {
        part(subresource.path());
    }
    path
}
