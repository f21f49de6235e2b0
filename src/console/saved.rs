//! Files the user asks for. What is there already stays: the next one gets a number.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt as _;

/// Names that are tried; who has saved as often finds the directory full.
const TRIES: u32 = 1_000;

/// Writes a new file of this name, or of the first free one of `NAME-2.EXT` and so on; says where it is.
pub(crate) async fn write_new(dir: &Path, name: &str, text: &str) -> std::io::Result<PathBuf> {
    for number in 1..=TRIES {
        let path = dir.join(numbered(name, number));
        match tokio::fs::File::options().write(true).create_new(true).open(&path).await {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).await?;
                file.flush().await?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::new(ErrorKind::AlreadyExists, format!("there are {TRIES} of this name already")))
}

fn numbered(name: &str, number: u32) -> String {
    if number == 1 {
        return name.to_owned();
    }
    match name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()) {
        Some((stem, ending)) => format!("{stem}-{number}.{ending}"),
        None => format!("{name}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONSOLE-FOUND 29: the second `pods.csv` took the place of the first.
    #[tokio::test]
    async fn what_was_saved_before_stays_con_3() {
        let dir = tempfile::tempdir().unwrap();
        for (text, name) in [("one", "pods.csv"), ("two", "pods-2.csv"), ("three", "pods-3.csv")] {
            let path = write_new(dir.path(), "pods.csv", text).await.unwrap();
            assert_eq!(path, dir.path().join(name));
            assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        }
        assert_eq!(numbered("plain", 2), "plain-2");
        assert_eq!(numbered(".hidden", 2), ".hidden-2");
        assert!(write_new(&dir.path().join("nowhere"), "a", "").await.is_err());
    }
}
