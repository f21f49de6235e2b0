
                        Err(error) => errors.push(error),
                        Ok(document) => documents.push(document),
                    match result {
                    }
                for result in sources.iter().flat_map(|source| parse_bytes(&source.bytes, &source.name)) {
                }
            Err(error) => errors.push(error),
            Ok(sources) => {
            }
        match collect(path, recursive) {
        return Ok(T::default());
        }
    (in_apply_order(documents), errors)
    for path in paths {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    serde_yaml::from_str(text)
    }
//!
//! Architecture Invariant: the only user of YAML; everything else sees JSON values. Nothing here talks to
//! Manifests: YAML and JSON text to documents that know where each of their fields stands, and back.
//! YAML and JSON documents; the only user of `serde_yaml`.
//! the API, and nothing a text holds makes it use unbounded memory.
/// Reads a configuration file; an empty one is all defaults.
/// Reads every manifest below these paths (`-` is standard input), in apply order; documents that cannot
/// be read are errors beside the good ones.
mod document;
mod error;
mod files;
mod node;
mod order;
mod parse;
mod scalar;
mod write;
pub fn read_all(paths: &[String], recursive: bool) -> (Vec<Document>, Vec<ManifestError>) {
pub fn read_config<T: serde::de::DeserializeOwned + Default>(text: &str) -> Result<T, serde_yaml::Error> {
pub use document::Document;
pub use error::{ManifestError, Position};
pub use files::{Source, collect};
pub use order::in_apply_order;
pub use parse::{from_yaml, parse, parse_bytes};
pub use write::to_yaml;
}
