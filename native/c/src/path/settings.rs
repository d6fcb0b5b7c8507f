//! Settings of a path; 0 and null stand for what is usual.

use std::ffi::c_int;
use std::time::Duration;

use xmml_path::{LinkFigures, Settings, Streams, ZeroCopy};

use crate::argument::{optional_text, place, Out, Text};
use crate::status::{guard_or, Failure, Result};

/// See the header.
#[repr(C)]
#[allow(non_camel_case_types, missing_docs)]
pub struct xmml_path_settings<'a> {
    streams: u32,
    chunk: u64,
    window: u64,
    queue: u64,
    max_message: u64,
    socket_buffer: u64,
    pace: u64,
    congestion: Text<'a>,
    patience: f64,
    silence: f64,
    link_round_trip: f64,
    link_bandwidth: f64,
    zero_copy: c_int,
    relays: c_int,
    workers: c_int,
}

/// What a program has set; null: nothing.
pub(super) fn settings(given: Option<&xmml_path_settings>) -> Result<Settings> {
    let mut settings = Settings::default();
    let Some(given) = given else { return Ok(settings) };
    let seconds = |value: f64, name: &str, otherwise: Duration| match value {
        0.0 => Ok(otherwise),
        value => Duration::try_from_secs_f64(value)
            .map_err(|_| Failure::usage(format!("{name} is no time: {value} seconds"))),
    };
    let or = |value: u64, otherwise: u64| if value == 0 { otherwise } else { value };
    let some = |value: u64| (value != 0).then_some(value);
    settings.streams = match given.streams {
        0 => Streams::Auto,
        count => Streams::Fixed(count),
    };
    settings.chunk = some(given.chunk);
    settings.window = or(given.window, settings.window);
    settings.queue = or(given.queue, settings.queue);
    settings.max_message = or(given.max_message, settings.max_message);
    settings.socket_buffer = some(given.socket_buffer).map(|bytes| bytes as usize);
    settings.pace = some(given.pace);
    settings.congestion = optional_text(given.congestion, "congestion")?.map(str::to_owned);
    settings.patience = seconds(given.patience, "patience", settings.patience)?;
    settings.silence = seconds(given.silence, "silence", settings.silence)?;
    settings.zero_copy = match given.zero_copy {
        0 => ZeroCopy::Auto,
        1 => ZeroCopy::On,
        2 => ZeroCopy::Off,
        code => {
            let expected = "expected XMML_PATH_ZERO_COPY_AUTO, XMML_PATH_ZERO_COPY_ON or XMML_PATH_ZERO_COPY_OFF";
            return Err(Failure::usage(format!("zero_copy is {code}; {expected}")));
        }
    };
    settings.relays = given.relays != 0;
    settings.workers = match given.workers {
        0 => None,
        count => Some(usize::try_from(count).unwrap_or(0)),
    };
    if given.link_round_trip > 0.0 && given.link_bandwidth > 0.0 {
        let round_trip = seconds(given.link_round_trip, "link_round_trip", Duration::ZERO)?;
        settings.link = Some(LinkFigures { round_trip, bandwidth: given.link_bandwidth });
    }
    Ok(settings)
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_settings_init(settings: Out<xmml_path_settings>) {
    guard_or((), || {
        let place = place(settings, "settings")?;
        place.set(xmml_path_settings {
            streams: 0,
            chunk: 0,
            window: 0,
            queue: 0,
            max_message: 0,
            socket_buffer: 0,
            pace: 0,
            congestion: Text::NULL,
            patience: 0.0,
            silence: 0.0,
            link_round_trip: 0.0,
            link_bandwidth: 0.0,
            zero_copy: 0,
            relays: 0,
            workers: 0,
        });
        Ok(())
    });
}
