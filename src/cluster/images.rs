//! The user's own images: entries of the config file, and of `DATA/images/*.yaml` (IMG-1).

use std::path::{Path, PathBuf};

use super::start::StartError;
use crate::kubelet::images::{Catalogue, ImageEntry};
use crate::manifest;

/// A file holds one entry or a list of them.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<ImageEntry>),
    One(Box<ImageEntry>),
}

/// The catalogue of a cluster; the config file's entries come first.
pub(super) fn catalogue(configured: &[ImageEntry], data_dir: &Path) -> Result<Catalogue, StartError> {
    let directory = data_dir.join("images");
    let mut entries = configured.to_vec();
    for file in files(&directory) {
        let text = std::fs::read_to_string(&file).map_err(|e| failed(&file, &e))?;
        // A syntax error names its line; one of an entry's fields names the field.
        let value = manifest::from_yaml(&text).map_err(|e| failed(&file, &e))?;
        match serde_json::from_value(value).map_err(|e| failed(&file, &e))? {
            OneOrMany::Many(many) => entries.extend(many),
            OneOrMany::One(one) => entries.push(*one),
        }
    }
    Ok(Catalogue::new(entries, directory.join("*.yaml").display().to_string()))
}

/// The YAML files of a directory by name; none when it is not there.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml" || e == "yml"))
        .collect();
    files.sort();
    files
}

fn failed(file: &Path, error: &dyn std::fmt::Display) -> StartError {
    StartError::Image { file: file.to_path_buf(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_data_directory_are_known_img_1() {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir(data.path().join("images")).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(data.path().join("images").join(name), text).unwrap();
        write("one.yaml", "name: mine\ntags: ['1']\nentrypoint: [sleep, '5']\n");
        write("more.yaml", "- {name: a, entrypoint: [sh]}\n- {name: b, entrypoint: [sh]}\n");
        write("notes.txt", "not an image");
        let known = catalogue(&[], data.path()).unwrap();
        assert!(known.resolve("mine:1").is_ok());
        assert!(known.resolve("mine:2").is_err());
        assert!(known.resolve("b").is_ok());
        write("broken.yaml", "name: [\n");
        let error = catalogue(&[], data.path()).err().unwrap().to_string();
        assert!(error.contains("broken.yaml"), "{error}");
    }
}
