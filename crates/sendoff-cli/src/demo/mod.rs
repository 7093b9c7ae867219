//! `sendoff demo`: an application, its outbox and its handler in one process, and a judge.

mod book;
mod chance;
mod crash;
mod handler;
mod judge;
mod latency;
mod options;
mod place;
mod quota;
mod record;
mod report;
mod shop;
mod stage;
mod stand;
mod tally;
mod view;

use std::process::ExitCode;

use indicatif::MultiProgress;
use tokio::sync::watch;

pub(crate) use self::options::Options;
use self::place::Place;
use self::stage::Stage;
use crate::output;
use crate::signals::Signals;

const BROKEN: u8 = 1;
/// What a shell reports for a program that Ctrl-C ended.
const ABORTED: u8 = 130;

pub(crate) async fn run(options: Options, screen: MultiProgress) -> anyhow::Result<ExitCode> {
    if options.crash {
        return crash::run(&options);
    }
    let mut signals = Signals::listen()?;
    let (stop, stopped) = watch::channel(false);
    let mut play = Box::pin(play(&options, &screen, stopped));
    tokio::select! {
        biased;
        ended = &mut play => return ended,
        () = signals.next() => {}
    }
    // Heard by the play, or it is over already.
    let _ = stop.send(true);
    tokio::select! {
        biased;
        ended = &mut play => ended,
        () = signals.next() => {
            if options.server().is_some() {
                output::note("sendoff demo: its tables are left in the database; --resume goes on");
            }
            Ok(ExitCode::from(ABORTED))
        }
    }
}

async fn play(
    options: &Options,
    screen: &MultiProgress,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<ExitCode> {
    let stage = Stage::set(options, Place::prepare(options).await?).await?;
    output::note(&stage.announcement());
    let report = stage.play(screen, stopped).await?;
    report.complaints().for_each(|line| output::note(&line));
    if options.json {
        output::data(&serde_json::to_string(&report)?)?;
    } else {
        output::data(&report.to_string())?;
    }
    report.left().into_iter().for_each(output::note);
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) })
}
