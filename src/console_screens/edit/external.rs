//! Runs `$VISUAL` or `$EDITOR` on a text or a file. The caller releases the terminal before and takes it back
//! afterwards.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Runs the editor on the text, in a temporary file that only the user can read, and returns the saved text.
pub async fn run(text: String) -> Result<String, String> {
    let name = format!("podium-edit-{}.yaml", uuid::Uuid::new_v4());
    let path = std::env::temp_dir().join(name);
    let described = |error: std::io::Error| format!("{}: {error}", path.display());
    write_private(&path, &text).map_err(described)?;
    let edited = match open(&path).await {
        Ok(()) => std::fs::read_to_string(&path).map_err(described),
        Err(why) => Err(format!("{why}; nothing was changed")),
    };
    // If the file cannot be removed, it stays in the temporary directory, readable only for the user.
    let _ = std::fs::remove_file(&path);
    edited
}

/// Runs the editor on a file in place; the error says why it failed.
pub async fn open(path: &Path) -> Result<(), String> {
    let editor = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR")).unwrap_or_else(|_| "vi".into());
    // The variable may contain arguments (`code --wait`), as in every program that honours it.
    let mut command = tokio::process::Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path);
    base::subordinate_ids::as_real_user(command.as_std_mut());
    let status = command.status().await;
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
