//! The live view, on stderr.

use std::collections::VecDeque;
use std::fmt;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressStyle};
use sendoff::metrics::LaneDepths;

use crate::output;

/// Rates are those of the last seconds.
const RATE_SPAN: Duration = Duration::from_secs(2);
/// Time between two lines where no terminal is watching.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Everything there is to see at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) phase: Phase,
    /// Events of all runs, so far.
    pub(crate) written: u64,
    pub(crate) delivered: u64,
    /// Events there will be, where that is known.
    pub(crate) total: Option<u64>,
    pub(crate) rolled_back: u64,
    pub(crate) failed: u64,
    pub(crate) new: u64,
    pub(crate) retry: u64,
    pub(crate) dead: u64,
    pub(crate) lanes: LaneDepths,
    pub(crate) lag: Duration,
}

impl Snapshot {
    fn done(&self) -> u64 {
        self.written.saturating_sub(self.new + self.retry + self.dead)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Writing,
    Delivering,
    Checking,
    Idle,
    Closing,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writing => "placing orders and delivering",
            Self::Delivering => "all written, delivering the rest",
            Self::Checking => "pausing the writers to check what was delivered",
            Self::Idle => "all delivered; Ctrl-C ends it",
            Self::Closing => "delivering what was written; Ctrl-C again ends it at once",
        })
    }
}

#[derive(Debug)]
pub(crate) struct View {
    surface: Surface,
    rates: Rates,
}

#[derive(Debug)]
enum Surface {
    Screen(Screen),
    Lines { began: Instant, next: Instant, phase: Option<Phase> },
}

impl View {
    pub(crate) fn new(screen: &MultiProgress) -> Self {
        let surface = if std::io::stderr().is_terminal() {
            Surface::Screen(Screen::new(screen))
        } else {
            let now = Instant::now();
            Surface::Lines { began: now, next: now, phase: None }
        };
        Self { surface, rates: Rates::default() }
    }

    pub(crate) fn show(&mut self, now: &Snapshot) {
        let rates = self.rates.after(now.written, now.delivered);
        match &mut self.surface {
            Surface::Screen(screen) => screen.draw(now, rates),
            Surface::Lines { began, next, phase } => {
                let turned = phase.replace(now.phase) != Some(now.phase);
                if turned || Instant::now() >= *next {
                    *next = Instant::now() + LINE_INTERVAL;
                    output::note(&line(began.elapsed(), now, rates));
                }
            }
        }
    }

    pub(crate) fn clear(self) {
        if let Surface::Screen(screen) = self.surface {
            screen.clear();
        }
    }
}

fn line(elapsed: Duration, now: &Snapshot, [written, delivered]: [u64; 2]) -> String {
    format!(
        "{:6.1} s  written {} ({written}/s)  delivered {} ({delivered}/s)  lag {}  \
         new {} retry {} done {} dead {}  hot {} cold {}  {}",
        elapsed.as_secs_f64(),
        now.written,
        now.delivered,
        Lag(now.lag),
        now.new,
        now.retry,
        now.done(),
        now.dead,
        now.lanes.hot,
        now.lanes.cold,
        now.phase,
    )
}

const BAR: &str = "\n  {wide_bar:.green/8} {percent:>3} %  {msg} \n";
/// Where there is no end, nothing fills up.
const NO_BAR: &str = "\n  {msg}\n";

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; a plain bar is still better than none.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

/// A bar and five lines of text.
#[derive(Debug)]
struct Screen {
    bar: ProgressBar,
    texts: [ProgressBar; 5],
}

impl Screen {
    fn new(screen: &MultiProgress) -> Self {
        let bar = screen.add(ProgressBar::new(0));
        bar.set_style(style(NO_BAR));
        let texts = ["written", "delivered", "states", "lanes", "now"].map(|name| {
            let text = screen.add(ProgressBar::new(0));
            text.set_style(style("  {prefix:>9.cyan}  {wide_msg}"));
            text.set_prefix(name);
            text
        });
        Self { bar, texts }
    }

    fn draw(&self, now: &Snapshot, [written, delivered]: [u64; 2]) {
        let count = |number| HumanCount(number).to_string();
        let total = now.total.unwrap_or(now.written);
        let finished = now.done() + now.dead;
        if now.total.is_some() && self.bar.length() != Some(total) {
            self.bar.set_style(style(BAR));
        }
        self.bar.set_length(total);
        self.bar.set_position(finished.min(total));
        self.bar.set_message(match now.total {
            Some(total) => format!("{} of {}", count(finished), count(total)),
            None => format!("{} of {} delivered so far", count(finished), count(total)),
        });
        let rated = |number, rate, more: String| {
            format!("{:>10} {:>9}   {more}", count(number), format!("{}/s", count(rate)))
        };
        let lines = [
            rated(
                now.written,
                written,
                format!("{} rolled back on purpose", count(now.rolled_back)),
            ),
            rated(now.delivered, delivered, format!("{} attempts failed", count(now.failed))),
            format!(
                "NEW {:<7} RETRY {:<7} DONE {:<11} DEAD {}",
                count(now.new),
                count(now.retry),
                count(now.done()),
                count(now.dead)
            ),
            format!("hot {:<7} cold {:<8} lag {}", now.lanes.hot, now.lanes.cold, Lag(now.lag)),
            now.phase.to_string(),
        ];
        for (text, line) in self.texts.iter().zip(lines) {
            text.set_message(line);
        }
    }

    fn clear(self) {
        self.texts.iter().for_each(ProgressBar::finish_and_clear);
        self.bar.finish_and_clear();
        // Between what was announced and the report.
        output::note("");
    }
}

struct Lag(Duration);

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs_f64() {
            seconds if seconds < 1.0 => write!(f, "{:.0} ms", seconds * 1_000.0),
            seconds => write!(f, "{seconds:.1} s"),
        }
    }
}

/// Two counters over the last moments.
#[derive(Debug, Default)]
struct Rates(VecDeque<(Instant, [u64; 2])>);

impl Rates {
    /// Each counter's growth in a second, now that they have come to this.
    fn after(&mut self, written: u64, delivered: u64) -> [u64; 2] {
        let now = Instant::now();
        while self.0.len() > 1 && self.0.front().is_some_and(|(at, _)| now - *at > RATE_SPAN) {
            self.0.pop_front();
        }
        self.0.push_back((now, [written, delivered]));
        let Some(&(then, before)) = self.0.front() else { return [0, 0] };
        let seconds = (now - then).as_secs_f64();
        let rate = |after: u64, before: u64| match seconds {
            0.0 => 0,
            seconds => (after.saturating_sub(before) as f64 / seconds).round() as u64,
        };
        [rate(written, before[0]), rate(delivered, before[1])]
    }
}
