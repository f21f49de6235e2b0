//! The available themes: the shipped ones and those in the user's configuration directories.

use std::path::{Path, PathBuf};

pub use super::builtin::DEFAULT;
use super::builtin::SHIPPED;
use super::{Theme, ThemeError};
use base::sort::SliceOrder;

/// Maximum size of a theme file in bytes.
const LARGEST: u64 = 1 << 20;

/// Returns the shipped themes, the user's themes (`themes/*.toml`), and skins of k9s (`skins/*.yaml`) in these
/// directories. Files are read at each call, so that edits take effect. A user's theme replaces the shipped one of the
/// same name, and earlier directories take precedence.
pub fn all(dirs: &[PathBuf]) -> Vec<(String, Result<Theme, ThemeError>)> {
    let mut themes: Vec<(String, Result<Theme, ThemeError>)> = SHIPPED
        .iter()
        .map(|(name, text)| ((*name).to_owned(), Theme::parse(name, &format!("{name}.toml"), text)))
        .collect();
    let mut own: Vec<(String, Result<Theme, ThemeError>)> = Vec::new();
    for dir in dirs {
        let found = files(&dir.join("themes"), &["toml"], Theme::parse);
        let found = found.into_iter().chain(files(&dir.join("skins"), &["yaml", "yml"], Theme::parse_skin));
        for (name, theme) in found {
            if !own.iter().any(|(known, _)| *known == name) {
                own.push((name, theme));
            }
        }
    }
    for (name, theme) in own {
        match themes.iter_mut().find(|(known, _)| *known == name) {
            Some(place) => place.1 = theme,
            None => themes.push((name, theme)),
        }
    }
    themes
}

type Parse = fn(&str, &str, &str) -> Result<Theme, ThemeError>;

/// Returns the themes in the files of a directory with these extensions, by name.
fn files(folder: &Path, ends: &[&str], parse: Parse) -> Vec<(String, Result<Theme, ThemeError>)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.order();
    let mut themes = Vec::new();
    for path in paths {
        let (Some(stem), Some(end)) =
            (path.file_stem().and_then(|s| s.to_str()), path.extension().and_then(|e| e.to_str()))
        else {
            continue;
        };
        let is_file = |meta: &std::fs::Metadata| meta.is_file() && meta.len() <= LARGEST;
        if !ends.contains(&end) || !std::fs::metadata(&path).is_ok_and(|meta| is_file(&meta)) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        themes.push((stem.to_owned(), parse(stem, &path.display().to_string(), &text)));
    }
    themes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;
    use crate::theme::depth::{Depth, READABLE_OF_16, contrast, rgb};
    use crate::theme::least_contrast;
    use ratatui::style::{Color, Modifier, Style};

    /// Returns the background of a part without its own background.
    fn ground(theme: &Theme, section: &str) -> Style {
        match section {
            "dialog" | "toast" => theme.dialog.text,
            "header" => theme.header.bar,
            _ => theme.body.text,
        }
    }

    fn check(name: &str, subject: &str, front: Option<Color>, back: Option<Color>, least: f64) {
        // The contrast of the terminal's default colours is unknown.
        let (Some(front), Some(back)) = (front.and_then(rgb), back.and_then(rgb)) else { return };
        let found = contrast(front, back);
        assert!(found >= least, "{name}: {subject} has contrast {found:.1}, wants {least}");
    }

    fn check_all(name: &str, mut theme: Theme, factor: f64) {
        let body = theme.body.text;
        for (section, keys) in crate::theme::KEYS {
            let ground = ground(&theme, section);
            for key in *keys {
                let Some(least) = least_contrast(section, key) else { continue };
                let style = *theme.style_mut(section, key).expect("a key of the table");
                let subject = format!("{section}.{key}");
                let (mut front, mut back) =
                    (style.fg.or(ground.fg).or(body.fg), style.bg.or(ground.bg).or(body.bg));
                if style.add_modifier.contains(Modifier::REVERSED) {
                    std::mem::swap(&mut front, &mut back);
                }
                check(name, &subject, front, back, least * factor);
            }
        }
        // These are drawn on other backgrounds, too.
        check(name, "dim in the header", theme.body.dim.fg, theme.header.bar.bg, 3.0);
        check(name, "dim in a dialog", theme.body.dim.fg, theme.dialog.text.bg, 3.0);
        for health in Health::ALL {
            let style = theme.health(health);
            check(name, &format!("{} in the header", health.label()), style.fg, theme.header.bar.bg, 3.0);
            if !theme.table.cursor.add_modifier.contains(Modifier::REVERSED) {
                check(
                    name,
                    &format!("{} under the cursor", health.label()),
                    style.fg,
                    theme.table.cursor.bg,
                    3.0,
                );
            }
        }
    }

    #[test]
    fn themes_and_skins_of_the_user_go_before_con_16() {
        let (own, k9s) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (dir, name, text) in [
            (&own, "themes/dusk.toml", "[body]\ntext = \"red\"\n"),
            (&own, "skins/sea.yaml", "k9s: {body: {fgColor: navy}}\n"),
            (&k9s, "skins/sea.yaml", "k9s: {body: {fgColor: white}}\n"),
            (&k9s, "skins/sand.yml", "k9s: {body: {fgColor: nope}}\n"),
            (&k9s, "skins/readme.md", "no skin"),
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let themes = all(&[own.path().to_owned(), k9s.path().to_owned()]);
        let of = |name: &str| &themes.iter().find(|(known, _)| known == name).expect(name).1;
        assert_eq!(of("dusk").as_ref().unwrap().body.text.fg, Some(Color::Red));
        assert_eq!(of("sea").as_ref().unwrap().body.text.fg, Some(Color::Rgb(0, 0, 0x80)));
        let error = of("sand").as_ref().unwrap_err().to_string();
        assert!(error.contains("sand.yml:1: k9s.body.fgColor: unknown colour"), "{error}");
        assert_eq!(themes.len(), all(&[]).len() + 2);
    }

    #[test]
    fn every_text_of_every_shipped_theme_can_be_read_con_13() {
        let themes = all(&[]);
        assert!(themes.len() >= 8);
        for (name, theme) in themes {
            let factor: f64 = if name == "contrast" { 1.5 } else { 1.0 };
            let theme = theme.expect("a shipped theme parses");
            check_all(&format!("{name} in 256"), theme.clone().in_depth(Depth::Indexed), factor.min(1.0));
            check_all(&name, theme, factor);
        }
    }

    #[test]
    fn sixteen_colours_can_be_read_and_tell_states_and_cursor_con_1() {
        for (name, theme) in all(&[]) {
            let theme = theme.expect("a shipped theme parses").in_depth(Depth::Sixteen);
            check_all(&format!("{name} in 16"), theme.clone(), READABLE_OF_16 / 4.5);
            assert!(
                theme.table.cursor.add_modifier.contains(Modifier::REVERSED),
                "{name}: the cursor is not seen"
            );
            let dark = theme.body.text.bg != Some(Color::White);
            let [running, pending, failed] =
                [theme.status.running.fg, theme.status.pending.fg, theme.status.failed.fg];
            assert_ne!(running, failed, "{name}");
            assert!(!dark || (running != pending && pending != failed), "{name}");
        }
    }
}
