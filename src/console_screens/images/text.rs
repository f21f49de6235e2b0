//! A text about an image of a node, which its kubelet writes: the details, or the explanation of its name.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::View;
use base::decimal_size::decimal_size;
use console_data::action::error_text;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_operations::effect::{Effect, ImageContent, ImageTextRoute, Outbox};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, fit};
use console_toolkit::widget::text_pane::TextPane;
use console_toolkit::widget::title::title_line;
use object::node_image::{NodeImageDetails, details_path, explanation_path};

/// The time for the answer: the node asks the image's registry.
const PATIENCE: Duration = Duration::from_secs(40);

/// The lines of the text, or the reason why there are none.
#[derive(Debug)]
pub struct TextData(pub Result<Vec<String>, String>);

/// The screen of a text about an image.
#[derive(Debug)]
pub struct ImageText {
    route: ImageTextRoute,
    /// The lines, sanitized for drawing.
    pane: TextPane,
    /// The reason why the node gave no text; `None` until its answer.
    result: Option<Result<(), String>>,
}

impl ImageText {
    pub(crate) fn new(route: ImageTextRoute) -> Self {
        let mut pane = TextPane::default();
        pane.set_lines(route.known.iter().map(|line| clean(line).into_owned()).collect());
        if route.content == ImageContent::Explanation {
            // Its lines are sentences.
            pane.command(Command::Wrap);
        }
        Self { route, pane, result: None }
    }

    fn load(&self) -> Effect {
        let route = self.route.clone();
        Effect::task("read", move |out| async move {
            let lines = match tokio::time::timeout(PATIENCE, fetch(&out, &route)).await {
                Ok(lines) => lines,
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            };
            out.data(TextData(lines)).await;
        })
    }

    fn heading(&self) -> &'static str {
        match self.route.content {
            ImageContent::Details => "Image",
            ImageContent::Explanation => "Source of",
        }
    }
}

/// Reads the text from the node's kubelet.
async fn fetch(out: &Outbox, route: &ImageTextRoute) -> Result<Vec<String>, String> {
    let ImageTextRoute { node, image, content, .. } = route;
    let path = match content {
        ImageContent::Details => details_path(node, image),
        ImageContent::Explanation => explanation_path(node, image),
    };
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let text = out.client().request_text(request).await;
    let text = text.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 404 && status.message.contains("page not found") => {
            format!("the kubelet of {node} does not describe its images")
        }
        _ => error_text(&error),
    })?;
    match content {
        ImageContent::Explanation => Ok(text.lines().map(str::to_owned).collect()),
        ImageContent::Details => {
            let read: NodeImageDetails = base::json::from_str(&text)
                .map_err(|error| format!("cannot read the details that {node} gives: {error}"))?;
            Ok(details(&read))
        }
    }
}

/// Returns the lines of an image's details.
fn details(read: &NodeImageDetails) -> Vec<String> {
    /// Width of the longest key with its colon, and two spaces.
    const KEY: usize = 16;
    let image = &read.image;
    let mut lines = Vec::new();
    let mut field = |key: &str, values: Vec<String>| {
        let values: Vec<String> = values.into_iter().filter(|value| !value.is_empty()).collect();
        for (at, value) in values.iter().enumerate() {
            let key = if at == 0 { format!("{key}:") } else { String::new() };
            lines.push(format!("{key:<KEY$}{value}"));
        }
        if values.is_empty() {
            lines.push(format!("{:<KEY$}<none>", format!("{key}:")));
        }
    };
    let time = |time: Option<jiff::Timestamp>| {
        vec![time.map(|time| time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()).unwrap_or_default()]
    };
    field("Names", image.names.clone());
    field("ID", vec![image.id.clone()]);
    field("Digests", image.digests.clone());
    field("Manifest", read.manifest_digest.iter().cloned().collect());
    field("Source", vec![image.source.word().to_owned()]);
    field("Platform", vec![read.platform.clone()]);
    field("Size", vec![decimal_size(image.size_bytes)]);
    field("Created", time(read.created));
    field("Added", time(read.added_at));
    field("Last Used", time(image.last_used));
    field("Pods", image.pods.clone());
    // Each word in a line, as describe shows commands: words may have spaces.
    field("Entrypoint", read.entrypoint.clone());
    field("Cmd", read.cmd.clone());
    field("Env", read.env.clone());
    field("Working Dir", vec![read.working_dir.clone()]);
    field("User", vec![read.user.clone()]);
    field("Stop Signal", vec![read.stop_signal.clone()]);
    field("Exposed Ports", read.exposed_ports.clone());
    field("Labels", read.labels.iter().map(|(key, value)| format!("{key}={value}")).collect());
    let layers = read.layers.iter().map(|layer| {
        let size = layer.size_bytes.map_or_else(|| "-".to_owned(), decimal_size);
        format!("{}  {size}", layer.digest)
    });
    field("Layers", layers.collect());
    lines
}

impl View for ImageText {
    fn title(&self, _cx: &Context<'_>) -> String {
        clean(&format!("{} · image", self.route.image)).into_owned()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Text, KeyContext::List]
    }

    fn full_screen(&self) -> bool {
        self.pane.is_full()
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Mouse(event) => self.pane.mouse(event),
            ScreenMessage::Data(data) => match data.take() {
                Some(TextData(Ok(lines))) => {
                    // A value may have line ends of its own.
                    let lines = lines.iter().flat_map(|line| line.split('\n'));
                    self.pane.set_lines(lines.map(|line| clean(line).into_owned()).collect());
                    self.result = Some(Ok(()));
                }
                // The facts from the list stay readable.
                Some(TextData(Err(why))) => self.result = Some(Err(why)),
                None => {}
            },
            ScreenMessage::Command(command) if self.pane.command(command) => {}
            ScreenMessage::Opened | ScreenMessage::Command(Command::Refresh) => return vec![self.load()],
            ScreenMessage::Command(Command::Copy) => return vec![Effect::Copy(self.pane.text())],
            ScreenMessage::Command(Command::Save) => {
                return vec![Effect::Save { name: "image.txt".to_owned(), text: self.pane.text() + "\n" }];
            }
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let width = usize::from(area.width).saturating_sub(8);
        let heading = format!("{} {} on {}", self.heading(), self.route.image, self.route.node);
        let mut title = vec![Span::styled(format!(" {} ", fit(&clean(&heading), width)), theme.frame.title)];
        let found = self.pane.match_label();
        title.extend(found.map(|found| Span::styled(found, theme.status.pending)));
        let mut block = theme.block_focused("").title_top(title_line(title, area.width));
        match &self.result {
            Some(Err(why)) => {
                let reason = fit(&clean(why), width).into_owned();
                block = block.title_bottom(Line::styled(format!(" ✖ {reason} "), theme.status.failed));
            }
            None => block = block.title_bottom(Line::styled(" asking the node… ", theme.status.pending)),
            Some(Ok(())) => {}
        }
        let inner = block.inner(area);
        frame.render_widget(block, area);
        self.pane.draw(theme, frame, inner, |_, line| Line::raw(line));
    }

    fn query(&self) -> Option<&str> {
        Some(self.pane.query())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.pane.set_query(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::node_image::{NodeImage, NodeImageLayer};

    #[test]
    fn details_list_the_configuration_and_the_layers_con_22() {
        let read = NodeImageDetails {
            image: NodeImage {
                names: vec!["redis:7".into(), "redis:latest".into()],
                id: "sha256:12".into(),
                size_bytes: 4_261_502,
                ..NodeImage::default()
            },
            entrypoint: vec!["docker-entrypoint.sh".into()],
            env: vec!["PATH=/bin".into()],
            created: "2026-01-02T03:04:05Z".parse().ok(),
            layers: vec![
                NodeImageLayer { digest: "sha256:aa".into(), size_bytes: Some(999) },
                NodeImageLayer { digest: "sha256:bb".into(), size_bytes: None },
            ],
            ..NodeImageDetails::default()
        };
        let lines = details(&read);
        for expected in [
            "Names:          redis:7",
            "                redis:latest",
            "Size:           4.3MB",
            "Created:        Fri, 02 Jan 2026 03:04:05 +0000",
            "Entrypoint:     docker-entrypoint.sh",
            "Cmd:            <none>",
            "Layers:         sha256:aa  999B",
            "                sha256:bb  -",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected:?} is not in {lines:#?}");
        }
    }
}
