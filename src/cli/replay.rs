//! `podium console --replay FILE --screens DIR` writes a recorded session as text, pictures and a cast (CON-21).

use std::path::Path;

use anyhow::{Context, Result};
use console::recording::{Recording, ReplayOptions, Screen, replay};

use super::output;

/// Writes the session's screens into a directory, which is created.
pub(super) fn run(file: &Path, to: &Path, options: &ReplayOptions) -> Result<()> {
    let of_file = || file.display().to_string();
    let recording = Recording::read(file).with_context(of_file)?;
    let (screens, cast) = replay(recording, options).with_context(of_file)?;
    std::fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    let write = |name: String, text: String| {
        let path = to.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    };
    for (number, screen) in screens.iter().enumerate() {
        let name = name(number, screen);
        write(format!("{name}.txt"), screen.text())?;
        write(format!("{name}.svg"), screen.svg())?;
        output::print_line(&format!("{name}  at {:.1} s", screen.at.as_secs_f64()));
    }
    write("session.cast".to_owned(), cast.text())
}

/// `007-ctrl-d`: the number, and the key that led to this screen.
fn name(number: usize, screen: &Screen) -> String {
    let key = screen.after.as_deref().unwrap_or("start");
    let letter = |letter: char| match letter {
        '/' => "slash".to_owned(),
        letter if letter.is_alphanumeric() || "-_:.?".contains(letter) => letter.to_string(),
        letter => format!("{:x}", u32::from(letter)),
    };
    format!("{number:03}-{}", key.chars().take(20).map(letter).collect::<String>())
}
