//! CustomResourceDefinitions of a test: from types, texts and files; established before the test continues.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use api::Api;
use manifest::{Document, ManifestError};
use object::{Key, Kind, conditions};

use super::error::Error;
use super::wait::until;

/// Returns the definitions among the documents of a text. Other documents are skipped, since charts and generators
/// write definitions and other objects into one file.
pub(super) fn of_text(text: &str, source: &str) -> Result<Vec<CustomResourceDefinition>, Error> {
    of_documents(manifest::parse(text, source), source)
}

/// Returns the definitions of a file, or of all files of a directory.
pub(super) fn of_files(path: &str) -> Result<Vec<CustomResourceDefinition>, Error> {
    let (documents, errors) = manifest::read_all(&[path.to_string()], true);
    of_documents(errors.into_iter().map(Err).chain(documents.into_iter().map(Ok)), path)
}

fn of_documents(
    documents: impl IntoIterator<Item = Result<Document, ManifestError>>,
    source: &str,
) -> Result<Vec<CustomResourceDefinition>, Error> {
    let mut definitions = Vec::new();
    for document in documents {
        let document = document.map_err(|error| Error::Manifest(error.to_string()))?;
        if document.kind().ok() != Some(Kind::CustomResourceDefinition) {
            continue;
        }
        let object = document.object().map_err(|error| Error::Manifest(error.to_string()))?;
        definitions.extend(object.get::<CustomResourceDefinition>().cloned());
    }
    if definitions.is_empty() {
        return Err(Error::Manifest(format!("{source}: no CustomResourceDefinition in it")));
    }
    Ok(definitions)
}

/// Installs definitions, and replaces those with the same names; when this returns, all are established.
pub(super) async fn install(api: &Api, definitions: Vec<CustomResourceDefinition>) -> Result<(), Error> {
    let mut names = Vec::new();
    for definition in definitions {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let key = Key::new("", name.as_str());
        let written = if api.get(Kind::CustomResourceDefinition, &key).is_ok() {
            let replaced = api.modify::<CustomResourceDefinition>(&key, |known| {
                known.spec = definition.spec.clone();
                Ok(())
            });
            replaced.map(drop)
        } else {
            api.create_as(definition).map(drop)
        };
        written.map_err(|error| Error::Definition { name: name.clone(), reason: error.to_string() })?;
        names.push(name);
    }
    for name in names {
        established(api, name).await?;
    }
    Ok(())
}

/// Waits until a definition is established; fails with the reason if it never will be.
async fn established(api: &Api, name: String) -> Result<(), Error> {
    let key = Key::new("", name.as_str());
    let late = || format!("CustomResourceDefinition {name} is not established");
    let verdict = until(api, Kind::CustomResourceDefinition, late, || {
        let definition = api.get_as::<CustomResourceDefinition>(&key).ok()?;
        let all = definition.status.as_ref()?.conditions.as_ref();
        if conditions::is_true(all, "Established") {
            return Some(Ok(()));
        }
        let refused = conditions::get(all, "NamesAccepted").filter(|names| names.status == "False")?;
        Some(Err(refused.message.clone().unwrap_or_else(|| "its names are not accepted".into())))
    });
    let verdict = verdict.await?;
    verdict.map_err(|reason| Error::Definition { name, reason })
}
