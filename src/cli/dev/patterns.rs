//! Patterns for paths of source files, in the language of `.dockerignore`: `*` and `?` within a name, `**` for any
//! directories, `!` before an exception. Knows no file system.

/// The rules of one `watch:` list and the ignore files beside it.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchRules {
    /// The watched files; empty means all.
    included: Vec<Pattern>,
    /// The ignored files; of several that match, the last one decides.
    ignored: Vec<IgnoreRule>,
}

#[derive(Clone, Debug)]
struct IgnoreRule {
    pattern: Pattern,
    is_exception: bool,
}

/// A pattern by its parts between slashes.
#[derive(Clone, Debug)]
struct Pattern(Vec<String>);

/// Names that are ignored in every directory: repositories, build outputs, and the temporary files of editors.
const ALWAYS_IGNORED: [&str; 9] =
    [".git", "target", "node_modules", "__pycache__", "*.swp", "*.swx", "*~", ".#*", "4913"];

impl WatchRules {
    /// Reads the patterns of a `watch:` list and the lines of an ignore file.
    pub(super) fn new<'a>(
        watch: impl IntoIterator<Item = &'a str>,
        ignore_lines: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut rules = Self::default();
        for line in ignore_lines {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (line, is_exception) = line.strip_prefix('!').map_or((line, false), |line| (line, true));
            rules.ignored.push(IgnoreRule { pattern: Pattern::new(line), is_exception });
        }
        for pattern in watch {
            match pattern.strip_prefix('!') {
                Some(pattern) => {
                    rules.ignored.push(IgnoreRule { pattern: Pattern::new(pattern), is_exception: false });
                }
                None => rules.included.push(Pattern::new(pattern)),
            }
        }
        rules
    }

    /// Ignores one more path.
    pub(super) fn ignore(&mut self, path: &str) {
        self.ignored.push(IgnoreRule { pattern: Pattern::literal(path), is_exception: false });
    }

    /// Returns true if a change of the file is a change of the sources.
    pub(super) fn watches_file(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        !self.is_ignored(&parts)
            && (self.included.is_empty() || self.included.iter().any(|pattern| pattern.covers(&parts)))
    }

    /// Returns true if the directory may contain watched files.
    pub(super) fn enters_directory(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        if is_always_ignored(&parts) {
            return false;
        }
        let has_exceptions = self.ignored.iter().any(|rule| rule.is_exception);
        (has_exceptions || !self.is_ignored(&parts))
            && (self.included.is_empty() || self.included.iter().any(|pattern| pattern.reaches(&parts)))
    }

    fn is_ignored(&self, parts: &[&str]) -> bool {
        let last = self.ignored.iter().rev().find(|rule| rule.pattern.covers(parts));
        is_always_ignored(parts) || last.is_some_and(|rule| !rule.is_exception)
    }
}

fn is_always_ignored(parts: &[&str]) -> bool {
    parts.iter().any(|part| ALWAYS_IGNORED.iter().any(|pattern| name_matches(pattern, part)))
}

impl Pattern {
    fn new(text: &str) -> Self {
        let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
        Self(parts.map(str::to_owned).collect())
    }

    /// A pattern for exactly this path.
    fn literal(path: &str) -> Self {
        // Names with wildcards are matched by them, too: the pattern covers at least the path itself.
        Self::new(path)
    }

    /// Returns true if the pattern matches the path or a directory above it.
    fn covers(&self, parts: &[&str]) -> bool {
        (1..=parts.len()).any(|count| self.steps(&parts[..count])[self.0.len()]) || self.0.is_empty()
    }

    /// Returns true if the pattern may match something in this directory, or covers it.
    fn reaches(&self, parts: &[&str]) -> bool {
        self.covers(parts) || self.steps(parts).iter().any(|reached| *reached)
    }

    /// For each number of the pattern's first parts: do they match the whole path?
    fn steps(&self, parts: &[&str]) -> Vec<bool> {
        let mut reached = vec![false; self.0.len() + 1];
        reached[0] = true;
        self.skip_stars(&mut reached);
        for part in parts {
            let mut next = vec![false; self.0.len() + 1];
            for (at, pattern) in self.0.iter().enumerate().filter(|(at, _)| reached[*at]) {
                if pattern == "**" {
                    next[at] = true;
                } else if name_matches(pattern, part) {
                    next[at + 1] = true;
                }
            }
            self.skip_stars(&mut next);
            reached = next;
        }
        reached
    }

    /// `**` also stands for no directory.
    fn skip_stars(&self, reached: &mut [bool]) {
        for (at, _) in self.0.iter().enumerate().filter(|(_, pattern)| *pattern == "**") {
            reached[at + 1] |= reached[at];
        }
    }
}

/// Matches a name with `*` and `?`, in time proportional to the product of both lengths.
fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((star_at, consumed)) = star else { return false };
                star = Some((star_at, consumed + 1));
                at = star_at + 1;
                from = consumed + 1;
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_dockerignore_dev_2() {
        let table: [(&[&str], &[&str], &str, bool); 25] = [
            (&[], &[], "src/main.rs", true),
            (&[], &[], "target/debug/app", false),
            (&[], &[], "web/node_modules/x/index.js", false),
            (&[], &[], ".git/index", false),
            (&[], &[], "src/.main.rs.swp", false),
            (&[], &[], "app/__pycache__/main.cpython-311.pyc", false),
            (&[], &["*.log", "", "# note"], "app.log", false),
            (&[], &["*.log"], "logs/app.log", true),
            (&[], &["**/*.log"], "logs/deep/app.log", false),
            (&[], &["**/*.log"], "app.log", false),
            (&[], &["docs"], "docs/use/dev.md", false),
            (&[], &["/docs/"], "docs/use/dev.md", false),
            (&[], &["docs", "!docs/keep.md"], "docs/keep.md", true),
            (&[], &["!docs/keep.md", "docs"], "docs/keep.md", false),
            (&[], &["a/**/z"], "a/z", false),
            (&[], &["a/**/z"], "a/b/c/z", false),
            (&[], &["a/**/z"], "a/b/c/y", true),
            (&["src", "Cargo.toml"], &[], "src/main.rs", true),
            (&["src", "Cargo.toml"], &[], "README.md", false),
            (&["**/*.rs", "!src/generated"], &[], "src/generated/x.rs", false),
            (&["**/*.rs", "!src/generated"], &[], "src/x.rs", true),
            (&["**/*.rs"], &[], "x.rs", true),
            (&["ma?n.py"], &[], "main.py", true),
            (&["."], &[], "any/file", true),
            (&["*"], &["*"], "any", false),
        ];
        for (watch, ignored, path, expect) in table {
            let rules = WatchRules::new(watch.iter().copied(), ignored.iter().copied());
            assert_eq!(rules.watches_file(path), expect, "{watch:?} {ignored:?} {path}");
        }
    }

    #[test]
    fn directories_without_watched_files_are_not_entered_dev_2() {
        let table: [(&[&str], &[&str], &str, bool); 9] = [
            (&[], &[], "src", true),
            (&[], &[], "a/target", false),
            (&["src/**/*.rs"], &[], "src", true),
            (&["src/**/*.rs"], &[], "src/a/b", true),
            (&["src/**/*.rs"], &[], "docs", false),
            (&["src"], &[], "src/a/b", true),
            (&[], &["docs"], "docs", false),
            (&[], &["docs", "!docs/keep.md"], "docs", true),
            (&["a/b/c"], &[], "a", true),
        ];
        for (watch, ignored, path, expect) in table {
            let rules = WatchRules::new(watch.iter().copied(), ignored.iter().copied());
            assert_eq!(rules.enters_directory(path), expect, "{watch:?} {ignored:?} {path}");
        }
    }

    #[test]
    fn hostile_patterns_take_no_exponential_time_dev_2() {
        let stars = "*a".repeat(500) + "b";
        assert!(!name_matches(&stars, &"a".repeat(2000)));
        let deep = "**/".repeat(200) + "x";
        let path = vec!["d"; 500].join("/");
        assert!(WatchRules::new([], [deep.as_str()]).watches_file(&path));
    }
}
