//! The user's own images: entries of the config file, and of `DATA/images/*.yaml` (IMG-1).

use std::path::{Path, PathBuf};

use super::start::StartError;
use crate::kubelet::images::{Catalogue, ImageEntry};
use crate::manifest::ConfigText;

/// The catalogue of a cluster; the config file's entries come first.
pub(super) fn catalogue(configured: &[ImageEntry], data_dir: &Path) -> Result<Catalogue, StartError> {
    let directory = data_dir.join("images");
    let mut entries = configured.to_vec();
    for file in files(&directory) {
        let text = std::fs::read_to_string(&file)
            .map_err(|error| StartError::Image { file: file.clone(), reason: error.to_string() })?;
        let text = ConfigText::parse(&text, &file.display().to_string())?;
        // A file holds one entry or a list of them.
        if text.value().is_array() {
            entries.extend(text.decode::<Vec<ImageEntry>>()?.into_iter().flatten());
        } else {
            entries.extend(text.decode::<ImageEntry>()?);
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
        assert!(error.contains("broken.yaml:1:7: "), "{error}");
        write("broken.yaml", "- name: c\n  entrypoin: [sh]\n");
        let error = catalogue(&[], data.path()).err().unwrap().to_string();
        assert!(
            error.ends_with(
                "broken.yaml:2:3: [0].entrypoin: unknown field \"entrypoin\", did you mean entrypoint?"
            ),
            "{error}"
        );
    }
}
