//! The keys and the mouse in a table: moving, marks, sorting, columns. Commands on the objects are in
//! `screen::object_commands`.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use k8s_openapi::api::core::v1::Event;

use super::Table;
use crate::object_commands;
use console_data::context::Context;
use console_data::index::{Filter, Sort};
use console_data::rows::cell::ColumnVisibility;
use console_data::rows::{Column, Row, RowKey};
use console_data::sort_memory::{Direction, SortOrder};
use console_operations::effect::Effect;
use console_toolkit::command::Command;
use console_toolkit::widget::cursor::Window;

impl Table {
    fn mark_range(&mut self) {
        let to = self.cursor_row();
        let from = self.last_mark.as_ref().and_then(|uid| self.index.position_of(uid)).unwrap_or(to);
        let (from, to) = (from.min(to), from.max(to));
        let range: Vec<RowKey> =
            self.index.visible_rows().skip(from).take(to - from + 1).map(Row::key).collect();
        self.marks.extend(range);
    }

    fn sort_by(&mut self, column: Option<usize>) -> Vec<Effect> {
        let old = self.index.sort();
        let direction = match old.direction {
            Direction::Up if old.column == column => Direction::Down,
            _ => Direction::Up,
        };
        self.index.set_sort(Sort { column, direction });
        self.restore_target.forget_sort();
        let name = column.and_then(|column| self.columns.get(column)).map(|column| column.name.to_string());
        vec![Effect::SaveSort(self.kind.resource.clone(), SortOrder { column: name, direction })]
    }

    fn sort_by_one_of(&mut self, names: &[&str]) -> Vec<Effect> {
        // Without such a column the rows stay as they are: sorting by another column would be misleading.
        let Some(column) = self.column_named(names) else {
            let note = format!("{} have no column {}", self.kind.heading(), names.join(" or "));
            return vec![Effect::info(note)];
        };
        self.sort_by(Some(column))
    }

    fn column_named(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.columns.iter().position(|column| column.name == **name))
    }

    fn pick_column(&mut self, cx: &Context<'_>, by: isize) {
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|column| self.shows(cx, &self.columns[*column])).collect();
        if shown.is_empty() {
            return;
        }
        let at = self.picked.and_then(|picked| shown.iter().position(|column| *column == picked));
        let next = at.map_or(0, |at| (at as isize + by).rem_euclid(shown.len() as isize) as usize);
        self.picked = shown.get(next).copied();
    }

    fn csv(&self, cx: &Context<'_>) -> String {
        let quote = |text: &str| {
            if text.contains([',', '"', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let mut text = String::new();
        // Without metrics, the usage columns have no values.
        let known = |column: &Column| match column.visibility {
            ColumnVisibility::Measured => self.measures(cx),
            ColumnVisibility::Never => false,
            ColumnVisibility::Always | ColumnVisibility::Wide | ColumnVisibility::Several => true,
        };
        let heads = self.columns.iter().filter(|column| known(column)).map(|column| quote(&column.name));
        // The user's columns get no additional NAMESPACE column: they may include it at another position.
        let first = self.layout.is_none().then(|| "NAMESPACE".to_owned());
        text.push_str(&first.into_iter().chain(heads).collect::<Vec<_>>().join(","));
        text.push('\n');
        for row in self.index.visible_rows() {
            let cells = row.cells.iter().zip(&self.columns).filter(|(_, column)| known(column));
            let cells = cells.map(|(cell, _)| quote(&cell.plain()));
            let namespace = self.layout.is_none().then(|| row.namespace.clone().unwrap_or_default());
            text.push_str(&namespace.into_iter().chain(cells).collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }

    pub(super) fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let place = self.cursor_row();
        if let Some(to) = self.window.step(command, place, self.index.len()) {
            self.go(to);
            return Vec::new();
        }
        match command {
            Command::Left => self.shift.set(self.shift.get().saturating_sub(1)),
            Command::Right => {
                self.shift.set((self.shift.get() + 1).min(self.columns.len().saturating_sub(1)));
            }
            Command::Mark => {
                if let Some(row) = self.index.at(place) {
                    let key = row.key();
                    if !self.marks.remove(&key) {
                        self.marks.insert(key.clone());
                        self.last_mark = Some(key);
                    }
                }
            }
            Command::MarkRange => self.mark_range(),
            Command::ClearMarks => self.marks.clear(),
            Command::Faults => {
                let filter = self.index.filter().clone();
                self.index.set_filter(Filter { faults: !filter.faults, ..filter });
                self.keep_cursor();
            }
            Command::Wide => {
                self.wide = !self.wide;
                self.shift.set(0);
            }
            Command::SortName => return self.sort_by(None),
            Command::SortAge => return self.sort_by_one_of(&["AGE", "LAST SEEN"]),
            Command::SortStatus => return self.sort_by_one_of(&["STATUS", "TYPE", "READY"]),
            Command::SortColumn => {
                let Some(column) = self.picked else {
                    let key =
                        |command| cx.bindings.key(command).map(|key| key.to_string()).unwrap_or_default();
                    let (left, right) = (key(Command::ColumnLeft), key(Command::ColumnRight));
                    return vec![Effect::info(format!(
                        "no column is selected: <{left}> and <{right}> select one"
                    ))];
                };
                // The rows are already sorted by name, with their namespaces: then the key reverses them.
                let is_name = self.columns.get(column).is_some_and(|column| column.name == "NAME");
                return self.sort_by((!is_name).then_some(column));
            }
            Command::ColumnLeft => self.pick_column(cx, -1),
            Command::ColumnRight => self.pick_column(cx, 1),
            Command::Save => {
                let then = self.displayed_time().map(|moment| format!("-{}", moment.for_a_file()));
                let name = format!("{}{}.csv", self.kind.resource.plural, then.unwrap_or_default());
                return vec![Effect::Save { name, text: self.csv(cx) }];
            }
            Command::Pause if self.kind.is::<Event>() => {
                self.paused = !self.paused;
                if !self.paused {
                    self.missed = 0;
                    self.rebuild(cx);
                }
            }
            Command::OneContext => return self.narrow(cx),
            Command::EventsGroup => self.toggle_groups(cx),
            Command::EventsWarnings => {
                self.warnings = !self.warnings;
                self.rebuild(cx);
            }
            Command::Refresh => self.rebuild(cx),
            _ if self.over.is_some() || self.is_mixed() && self.past.is_none() => {
                return self.command_over(cx, command);
            }
            _ => {
                let targets = self.targets();
                let current = self.single_target();
                if let Some(moment) = self.displayed_time() {
                    return match current {
                        None => Vec::new(),
                        Some(object)
                            if matches!(command, Command::Yaml | Command::Enter | Command::Describe) =>
                        {
                            object_commands::at(cx, command, object, moment.when())
                        }
                        current => object_commands::run(cx, command, current, &targets, 0),
                    };
                }
                return object_commands::run(cx, command, current, &targets, self.hidden_marks());
            }
        }
        Vec::new()
    }

    pub(super) fn mouse(&mut self, event: MouseEvent) -> bool {
        let body = self.body.get();
        if let Some(to) = Window::wheel(event, self.cursor_row(), self.index.len()) {
            self.go(to);
        }
        match event.kind {
            MouseEventKind::Down(MouseButton::Left) if body.contains((event.column, event.row).into()) => {
                let place = self.window.last_drawn().start + usize::from(event.row - body.y);
                if place >= self.index.len() {
                    return false;
                }
                let again = place == self.cursor_row();
                self.go(place);
                return again;
            }
            _ => {}
        }
        false
    }
}
