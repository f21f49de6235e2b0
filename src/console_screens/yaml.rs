//! An object as YAML: loaded again at each change, searched with `/`, with managedFields hidden by default; also at a
//! point in the past (CON-12).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::View;
use crate::object_commands;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::past::{self, HistoryScope, TimePosition};
use console_data::point_in_time::{PointInTime, TimeSelector, TimeTravel, WayBack};
use console_data::resource::{ObjectRef, Uid};
use console_operations::command_availability;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, fit};
use console_toolkit::widget::notice;
use console_toolkit::widget::text_pane::TextPane;
use console_toolkit::widget::title::title_line;
use console_toolkit::yaml_text;

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum YamlData {
    /// The object.
    Object(Box<Value>),
    /// The object could not be loaded.
    Failed(String),
    /// The result of a step of time travel: the point in time and the object then, or why it failed.
    Travelled(Result<(TimePosition, Option<Box<Value>>), String>),
}

/// The screen that shows an object as YAML.
#[derive(Debug)]
pub struct Yaml {
    target: ObjectRef,
    object: Option<Value>,
    pane: TextPane,
    managed: bool,
    /// True if a Secret's data is shown decoded.
    decoded: bool,
    failed: Option<String>,
    /// The shown point in the past; `None` for the present.
    moment: Option<PointInTime>,
    /// The point in time to show first.
    opens_at: Option<TimeSelector>,
    back_target: WayBack,
}

impl Yaml {
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self {
            target,
            object: None,
            pane: TextPane::default(),
            managed: false,
            decoded: false,
            failed: None,
            moment: None,
            opens_at: None,
            back_target: WayBack::Now,
        }
    }

    /// Creates the screen for a Secret, with its data decoded.
    pub(crate) fn decoded(target: ObjectRef) -> Self {
        Self { decoded: true, ..Self::new(target) }
    }

    /// Creates the screen for an object at a point in the past.
    pub(crate) fn at(target: ObjectRef, when: TimeSelector) -> Self {
        Self { opens_at: Some(when), back_target: WayBack::ViewBelow, ..Self::new(target) }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    fn travel(&mut self, cx: &Context<'_>, go: TimeTravel) -> Vec<Effect> {
        if go == TimeTravel::Live {
            (self.moment, self.back_target) = (None, WayBack::Now);
            return vec![Effect::Cancel("past"), self.load()];
        }
        let (target, from, now) = (self.target.clone(), self.moment, cx.now);
        vec![Effect::task("past", move |out| async move {
            let client = out.client();
            let request = async {
                let place = past::step(&client, &[HistoryScope::from(&target)], from, go, now).await?;
                let Some(moment) = place.moment() else { return Ok((place, None)) };
                let object = past::object_at(&client, &target, moment.revision).await?;
                Ok((place, object.map(Box::new)))
            };
            let result = request.await;
            out.data(YamlData::Travelled(result)).await;
        })]
    }

    fn travelled(&mut self, result: Result<(TimePosition, Option<Box<Value>>), String>) -> Vec<Effect> {
        let (place, object) = match result {
            Ok(gone) => gone,
            Err(why) => return vec![Effect::failed(why)],
        };
        let Some(moment) = place.moment() else {
            (self.moment, self.back_target) = (None, WayBack::Now);
            return vec![self.load()];
        };
        self.moment = Some(moment);
        self.failed = object.is_none().then(|| format!("{} did not exist then", self.target.describe()));
        self.object = object.map(|object| *object);
        self.pane.set_lines(Vec::new());
        self.write();
        match place {
            TimePosition::Beginning(_) => {
                vec![Effect::info("the server has no earlier states")]
            }
            _ => Vec::new(),
        }
    }

    fn load(&self) -> Effect {
        let target = self.target.clone();
        Effect::task("load", move |out| async move {
            let loaded = match out.fetch(&target).await {
                Ok(object) => YamlData::Object(Box::new(object)),
                Err(error) => YamlData::Failed(error),
            };
            out.data(loaded).await;
        })
    }

    fn write(&mut self) {
        let Some(mut object) = self.object.clone() else { return };
        if !self.managed
            && let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            meta.remove("managedFields");
        }
        if self.decoded {
            decode(&mut object);
        }
        self.pane.set_lines(yaml_text::write(&object).lines().map(str::to_owned).collect());
    }
}

impl View for Yaml {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · yaml", self.target.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Yaml, KeyContext::Text, KeyContext::TimeTravel, KeyContext::List]
    }

    fn full_screen(&self) -> bool {
        self.pane.is_full()
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        command_availability::refuses(cx.catalogue, &self.target.kind, command)
    }

    fn moment(&self) -> Option<PointInTime> {
        self.moment
    }

    fn back_target(&self) -> WayBack {
        self.back_target
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => {
                return match self.opens_at.take() {
                    Some(when) => self.travel(cx, TimeTravel::To(when)),
                    None => vec![self.load()],
                };
            }
            ScreenMessage::Travel(go) => return self.travel(cx, go),
            // The past does not change.
            ScreenMessage::Shown | ScreenMessage::Changed(..) if self.moment.is_some() => {}
            ScreenMessage::Shown => return vec![self.load()],
            ScreenMessage::Changed(resource, touched)
                if self.target.kind.resource == resource && touched.contains(&self.target) =>
            {
                return vec![self.load()];
            }
            ScreenMessage::Data(data) => match data.take() {
                Some(YamlData::Travelled(gone)) => return self.travelled(gone),
                // The request was sent before the time travel.
                Some(YamlData::Object(_) | YamlData::Failed(_)) if self.moment.is_some() => {}
                Some(YamlData::Object(object)) => {
                    // An object opened by name is followed by uid from now on.
                    if self.target.uid.is_none() {
                        self.target.uid = object["metadata"]["uid"].as_str().map(Uid::from);
                    }
                    self.object = Some(*object);
                    self.failed = None;
                    self.write();
                }
                Some(YamlData::Failed(why)) => self.failed = Some(why),
                None => {}
            },
            ScreenMessage::Mouse(event) => self.pane.mouse(event),
            ScreenMessage::Command(command) => {
                if self.pane.command(command) {
                    return Vec::new();
                }
                match command {
                    Command::ManagedFields => {
                        self.managed = !self.managed;
                        self.write();
                    }
                    Command::Decode => {
                        self.decoded = !self.decoded;
                        self.write();
                    }
                    Command::Copy => return vec![Effect::Copy(self.pane.text())],
                    Command::Save => {
                        let then = self.moment.map(|moment| format!("-{}", moment.for_a_file()));
                        let then = then.unwrap_or_default();
                        let name = format!("{}-{}{then}.yaml", self.target.kind.singular, self.target.name);
                        return vec![Effect::Save { name, text: self.pane.text() + "\n" }];
                    }
                    Command::Refresh if self.moment.is_none() => return vec![self.load()],
                    // The past does not change, and a text has no rows to open.
                    Command::Refresh | Command::Enter => {}
                    _ => {
                        let target = self.target.clone();
                        return match self.moment {
                            Some(moment) => object_commands::at(cx, command, target, moment.when()),
                            None => object_commands::on(cx, command, Some(target)),
                        };
                    }
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let mut title = vec![
            Span::styled(format!(" {} ", self.target.describe()), theme.frame.title),
            Span::styled("yaml ", theme.body.accent),
        ];
        if !self.managed {
            title.push(Span::styled("managedFields hidden ", theme.body.dim));
        }
        if self.decoded {
            title.push(Span::styled("data decoded ", theme.status.pending));
        }
        let found = self.pane.match_label();
        title.extend(found.map(|found| Span::styled(found, theme.status.pending)));
        let mut block = theme.block("").title_top(title_line(title, area.width));
        if let Some(why) = self.failed.as_ref().filter(|_| !self.pane.is_empty()) {
            let reason = fit(&clean(why), usize::from(area.width).saturating_sub(8)).into_owned();
            block = block.title_bottom(Line::styled(format!(" ✖ {reason} "), theme.status.failed));
        }
        let inner = block.inner(area);
        frame.render_widget(block, area);
        if self.pane.is_empty() {
            return match &self.failed {
                None => notice::draw("loading…", theme.body.dim, frame, inner),
                Some(why) => notice::draw(&format!("✖ {why}"), theme.status.failed, frame, inner),
            };
        }
        let digits = self.pane.len().to_string().len();
        self.pane.draw(theme, frame, inner, |number, line| {
            let mut spans = vec![Span::styled(format!("{:>digits$}  ", number + 1), theme.body.dim)];
            spans.extend(yaml_text::colour(line, theme).spans);
            Line::from(spans)
        });
    }

    fn query(&self) -> Option<&str> {
        Some(self.pane.query())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.pane.set_query(text)
    }
}

/// Decodes a Secret's data; values that are not UTF-8 stay encoded, with a note.
fn decode(object: &mut Value) {
    let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) else { return };
    for value in data.values_mut() {
        let Some(bytes) = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok()) else { continue };
        *value = match String::from_utf8(bytes) {
            Ok(text) => Value::String(text),
            Err(error) => {
                let count = error.as_bytes().len();
                Value::String(format!(
                    "({count} bytes of binary data) {}",
                    value.as_str().unwrap_or_default()
                ))
            }
        };
    }
}
