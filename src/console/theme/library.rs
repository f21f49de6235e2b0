//! The themes there are: those shipped and those in the user's configuration directory.

use std::path::Path;

pub(crate) use super::shipped::DEFAULT;
use super::shipped::SHIPPED;
use super::{Theme, ThemeError};

/// Shipped themes and the user's, read anew at each call so that a file being edited is seen.
/// A user's theme of the same name comes in place of the shipped one.
pub(crate) fn all(config_dir: Option<&Path>) -> Vec<(String, Result<Theme, ThemeError>)> {
    let mut themes: Vec<(String, Result<Theme, ThemeError>)> = SHIPPED
        .iter()
        .map(|(name, text)| ((*name).to_owned(), Theme::parse(name, &format!("{name}.toml"), text)))
        .collect();
    let folder = config_dir.map(|dir| dir.join("themes"));
    let Some(entries) = folder.and_then(|folder| std::fs::read_dir(folder).ok()) else { return themes };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let (Some(stem), Some("toml")) =
            (path.file_stem().and_then(|s| s.to_str()), path.extension().and_then(|e| e.to_str()))
        else {
            continue;
        };
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let theme = Theme::parse(stem, &path.display().to_string(), &text);
        match themes.iter_mut().find(|(name, _)| name == stem) {
            Some(place) => place.1 = theme,
            None => themes.push((stem.to_owned(), theme)),
        }
    }
    themes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;
    use crate::theme::depth::{Depth, contrast, rgb};
    use ratatui::style::{Color, Modifier, Style};

    /// Parts that matter less may be fainter; borders and empty bars say nothing at all.
    fn least(section: &str, key: &str) -> Option<f64> {
        match (section, key) {
            ("frame", "border" | "focus") | ("chart", _) | ("terminal", "frame") => None,
            ("body", "dim")
            | ("prompt", "suggestion")
            | ("help", "text")
            | ("terminal", "hint")
            | ("yaml", "comment")
            | ("log", "timestamp")
            | ("table", "header") => Some(3.0),
            _ => Some(4.5),
        }
    }

    /// What a part is drawn on, where it names no ground of its own.
    fn ground(theme: &Theme, section: &str) -> Style {
        match section {
            "dialog" | "toast" => theme.dialog.text,
            "header" => theme.header.bar,
            _ => theme.body.text,
        }
    }

    fn check(name: &str, what: &str, front: Option<Color>, back: Option<Color>, least: f64) {
        // What is the terminal's own cannot be judged.
        let (Some(front), Some(back)) = (front.and_then(rgb), back.and_then(rgb)) else { return };
        let found = contrast(front, back);
        assert!(found >= least, "{name}: {what} has contrast {found:.1}, wants {least}");
    }

    fn check_all(name: &str, mut theme: Theme, factor: f64) {
        let body = theme.body.text;
        for (section, keys) in crate::theme::KEYS {
            let ground = ground(&theme, section);
            for key in *keys {
                let Some(least) = least(section, key) else { continue };
                let style = *theme.style_mut(section, key).expect("a key of the table");
                let what = format!("{section}.{key}");
                let (mut front, mut back) =
                    (style.fg.or(ground.fg).or(body.fg), style.bg.or(ground.bg).or(body.bg));
                if style.add_modifier.contains(Modifier::REVERSED) {
                    std::mem::swap(&mut front, &mut back);
                }
                check(name, &what, front, back, least * factor);
            }
        }
        // These are drawn over other grounds too.
        check(name, "dim in the header", theme.body.dim.fg, theme.header.bar.bg, 3.0);
        check(name, "dim in a dialog", theme.body.dim.fg, theme.dialog.text.bg, 3.0);
        for health in Health::ALL {
            let style = theme.health(health);
            check(name, &format!("{} in the header", health.word()), style.fg, theme.header.bar.bg, 3.0);
            if !theme.table.cursor.add_modifier.contains(Modifier::REVERSED) {
                check(
                    name,
                    &format!("{} under the cursor", health.word()),
                    style.fg,
                    theme.table.cursor.bg,
                    3.0,
                );
            }
        }
    }

    #[test]
    fn every_text_of_every_shipped_theme_can_be_read_con_13() {
        let themes = all(None);
        assert!(themes.len() >= 8);
        for (name, theme) in themes {
            let factor = if name == "contrast" { 1.5 } else { 1.0 };
            check_all(&name, theme.expect("a shipped theme parses"), factor);
        }
    }

    #[test]
    fn sixteen_colours_can_be_read_and_tell_states_and_cursor_con_1() {
        for (name, theme) in all(None) {
            let theme = theme.expect("a shipped theme parses").in_depth(Depth::Sixteen);
            check_all(&format!("{name} in 16"), theme.clone(), 3.0 / 4.5);
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
