//! `$VISUAL` or `$EDITOR` on a text or a file. The caller lends the terminal and takes it back.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Runs the editor on the text, in a file that only we can read, and returns what was saved.
pub(crate) async fn run(text: String) -> Result<String, String> {
    let name = format!("podium-edit-{}.yaml", uuid::Uuid::new_v4());
    let path = std::env::temp_dir().join(name);
    let described = |error: std::io::Error| format!("{}: {error}", path.display());
    write_private(&path, &text).map_err(described)?;
    let edited = match open(&path).await {
        Ok(()) => std::fs::read_to_string(&path).map_err(described),
        Err(why) => Err(format!("{why}; nothing was changed")),
    };
    // A file that cannot be removed is in the temporary directory and ours alone to read.
    let _ = std::fs::remove_file(&path);
    edited
}

/// Runs the editor on a file in its place; why it did not end well.
pub(crate) async fn open(path: &Path) -> Result<(), String> {
    let editor = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR")).unwrap_or_else(|_| "vi".into());
    // The variable may hold arguments (`code --wait`), as every program that honours it allows.
    let status = tokio::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(path)
        .status()
        .await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{editor}: {status}")),
        Err(error) => Err(format!("{editor}: {error}")),
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
