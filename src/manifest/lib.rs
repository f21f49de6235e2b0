//! Manifests: parses YAML and JSON into documents that know the position of each field, and writes them.
//!
//! Architecture Invariant: this is the only user of YAML; all other code sees JSON values. Nothing here calls the API,
//! and no input makes it use unbounded memory.

mod config_text;
mod document;
pub mod drills;
mod error;
mod files;
mod node;
mod order;
mod parse;
mod scalar;
#[cfg(test)]
mod tests;
mod write;

pub use config_text::{ConfigText, from_yaml, from_yaml_with_duplicates};
pub use document::Document;
pub use error::{ManifestError, Position};
pub(crate) use files::collect;
pub use node::DuplicateKey;
pub(crate) use order::in_apply_order;
pub use parse::{parse, parse_bytes, parse_values};
pub use write::to_yaml;

/// Reads every manifest below these paths (`-` is standard input), in apply order. Returns the valid documents, and the
/// errors of the others.
pub fn read_all(paths: &[String], recursive: bool) -> (Vec<Document>, Vec<ManifestError>) {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        match collect(path, recursive) {
            Ok(sources) => {
                for result in sources.iter().flat_map(|source| parse_bytes(&source.bytes, &source.name)) {
                    match result {
                        Ok(document) => documents.push(document),
                        Err(error) => errors.push(error),
                    }
                }
            }
            Err(error) => errors.push(error),
        }
    }
    (in_apply_order(documents), errors)
}
