//! Streams to and from other sites: how they are opened over the links of their run, and what other relays tell about them.

use std::time::{Duration, Instant};

use xmml_path::Lane;
use xmml_wire::buffer::Buffer;
use xmml_wire::methods::{TrafficClass, TrafficKind};

use super::clients::TAKEN_WITHIN;
use super::forwarding::End;
use super::{Awaited, Connection, Flow, Opener, Relay};
use crate::link_frame::{self, LinkFrame, LinkMessage, StreamId};
use crate::log::Level;
use crate::registry::Token;
use crate::routes::{Announcement, AnnouncementEffect, HOPS_MAX};

/// How often a relay corrects at most what others have heard of it.
const CORRECTED_EVERY: Duration = Duration::from_secs(1);

/// After so many corrections there is more to them than what a relay said in its former life.
const CONTRADICTED: u32 = 3;

/// Streams of a run between two other relays, at most: they take no descriptor, which would bound them.
pub const PASSING_MAX: usize = 16_384;

/// Bytes of control that may wait for a relay that does not take what it is told, as [`xmml_path::Path::kept`] counts them.
const UNREAD_MAX: u64 = 16 << 20;

/// The lane of streams of this class.
pub(super) fn lane_of(traffic: TrafficKind) -> Lane {
    match traffic.class {
        Some(TrafficClass::Control) => Lane::Control,
        Some(TrafficClass::Bulk) | None => Lane::Bulk,
    }
}

impl Relay {
    /// Tells a relay something. If it fails, so does the link, which is found out when it is driven.
    pub(super) fn tell(&mut self, link: Token, told: &LinkMessage) {
        if let Some(known) = self.links.get_mut(&link) {
            let _ = known.put(Lane::Control, link_frame::message(told));
            if known.path.kept(Lane::Control) > UNREAD_MAX {
                // Whoever tells it something is in the middle of other things: it is given up when it has its turn.
                known.wrong = Some("it does not take what it is told".to_owned());
                self.unfinished.insert(link);
            }
        }
    }

    /// A process here opens a stream to a name at another site.
    pub(super) fn open_far(
        &mut self,
        token: Token,
        run: &str,
        from: &str,
        (site, to): (&str, &str),
        traffic: TrafficKind,
    ) -> Result<Awaited, String> {
        let here = self.site.clone();
        let topology = &self.runs.get(run).ok_or("the run has ended here")?.topology;
        let route = topology.route(site).ok_or_else(|| {
            let known: Vec<String> = topology.distances().into_keys().filter(|other| *other != here).collect();
            let known = if known.is_empty() { "no other relay is linked now".to_owned() } else { known.join(", ") };
            format!("there is no way from {here} to {site} now; in reach for this run: {known}")
        })?;
        let link =
            self.link_to(run, &route[0]).ok_or_else(|| format!("the link from {here} to {} is down", route[0]))?;
        self.last_stream = self.last_stream.wrapping_add(1).max(1);
        let stream = self.last_stream;
        self.flows.insert((link, stream), Flow::Opening(token));
        let (name, from_site, from) = (to.to_owned(), here, from.to_owned());
        self.tell(link, &LinkMessage::Open { stream, route, name, from_site, from, traffic });
        Ok(Awaited::Far { link, stream, traffic })
    }

    /// A frame has come by a link.
    ///
    /// # Errors
    /// What no honest relay sends; the link must be given up.
    pub(super) fn frame_came(&mut self, link: Token, frame: Buffer) -> Result<(), String> {
        match link_frame::read(frame)? {
            LinkFrame::Data(stream, message) => {
                if let Some((pipe, side)) = self.pipe_of(link, stream) {
                    self.data_came(pipe, side, message);
                }
            }
            LinkFrame::Finish(stream) => {
                if let Some((pipe, side)) = self.pipe_of(link, stream) {
                    self.finish_came(pipe, side);
                }
            }
            LinkFrame::Message(told) => return self.told_came(link, told),
        }
        Ok(())
    }

    /// The stream that has this number on a link. (Data may overtake the word that it is open; what comes behind its end belongs to
    /// nobody.)
    fn pipe_of(&mut self, link: Token, stream: StreamId) -> Option<(u64, usize)> {
        if let Some(Flow::Opening(_)) = self.flows.get(&(link, stream)) {
            self.opened(link, stream);
        }
        match self.flows.get(&(link, stream)) {
            Some(Flow::Pipe { pipe, side }) => Some((*pipe, *side)),
            _ => None,
        }
    }

    fn told_came(&mut self, link: Token, told: LinkMessage) -> Result<(), String> {
        match told {
            LinkMessage::Hello { site, life } => return self.greeted(link, &site, life),
            LinkMessage::Neighbours(announcement) => return self.hear(link, announcement),
            LinkMessage::Open { stream, route, name, from_site, from, traffic } => {
                if route.len() > HOPS_MAX || route.first() != Some(&self.site) {
                    return Err(format!("it opens a stream with an impossible route: {route:?}"));
                }
                if let Err(reason) = self.come_by(link, stream, &route[1..], &name, (&from_site, &from), traffic) {
                    self.tell(link, &LinkMessage::Refused { stream, reason });
                }
            }
            LinkMessage::Opened { stream } => self.opened(link, stream),
            // No stream has this number: it is the link.
            LinkMessage::Refused { stream: 0, reason } => return Err(reason),
            LinkMessage::Refused { stream, reason } => self.refused(link, stream, reason),
            LinkMessage::Credit { stream, bytes } => {
                if let Some(Flow::Pipe { pipe, side }) = self.flows.get(&(link, stream)).copied() {
                    self.credit_came(pipe, side, bytes);
                }
            }
            LinkMessage::Reset { stream } => self.reset(link, stream, "the other site gave the stream up"),
            LinkMessage::Ping { number } => self.tell(link, &LinkMessage::Pong { number }),
            LinkMessage::Pong { number } => self.ponged(link, number),
        }
        Ok(())
    }

    /// Somebody at another site opens a stream, to a name here or at a site further on.
    fn come_by(
        &mut self,
        link: Token,
        stream: StreamId,
        route: &[String],
        name: &str,
        (from_site, from): (&str, &str),
        traffic: TrafficKind,
    ) -> Result<(), String> {
        if self.flows.contains_key(&(link, stream)) {
            return Err("there is a stream with this number".to_owned());
        }
        let run = self.links.get(&link).map(|link| link.run.clone()).unwrap_or_default();
        if let Some(next) = route.first() {
            let onward = self.link_to(&run, next);
            let onward = onward.ok_or_else(|| format!("the link from {} to {next} is down", self.site))?;
            if onward == link || self.flows.contains_key(&(onward, stream)) {
                return Err(format!("it would come back to {}", self.site));
            }
            if self.runs.get(&run).is_none_or(|run| run.passing >= PASSING_MAX) {
                let reason = format!("{PASSING_MAX} streams of this run pass {} already", self.site);
                self.log_refused(link, &reason);
                return Err(reason);
            }
            self.join(&run, End::far(link, stream, traffic), End::far(onward, stream, traffic));
            let (name, from_site, from) = (name.to_owned(), from_site.to_owned(), from.to_owned());
            self.tell(onward, &LinkMessage::Open { stream, route: route.to_vec(), name, from_site, from, traffic });
            return Ok(());
        }
        let token = self.token();
        let ticket = self.announce(&run, name, from_site, from, Opener::Far(token))?;
        self.connections.insert(token, Connection::Incoming { run, ticket, link, stream, traffic });
        self.flows.insert((link, stream), Flow::Incoming(token));
        self.set_deadline(token, Some(Instant::now() + TAKEN_WITHIN));
        Ok(())
    }

    /// Why a stream of another relay was refused; not again and again.
    fn log_refused(&mut self, link: Token, reason: &str) {
        let Some(link) = self.links.get(&link) else { return };
        let (run, site) = (link.run.clone(), link.site.clone().unwrap_or_default());
        let facts = [("run", run.as_str()), ("site", &site)];
        self.log.once_for(&site, reason, Level::Warning, "a stream of another relay was refused", &facts);
    }

    fn opened(&mut self, link: Token, stream: StreamId) {
        match self.flows.get(&(link, stream)).copied() {
            Some(Flow::Opening(token)) => {
                self.flows.remove(&(link, stream));
                if let Some(Connection::Opening { wire, run, awaited: Awaited::Far { traffic, .. } }) =
                    self.remove(token)
                {
                    let pipe = self.join(&run, End::wire(token, wire), End::far(link, stream, traffic));
                    self.widen(pipe);
                }
            }
            Some(Flow::Pipe { pipe, side }) => {
                let back = self.pipes.get(&pipe).and_then(|pipe| pipe.far_end(1 - side));
                if let Some((link, stream)) = back {
                    self.tell(link, &LinkMessage::Opened { stream });
                    self.widen(pipe);
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, link: Token, stream: StreamId, reason: String) {
        match self.flows.remove(&(link, stream)) {
            Some(Flow::Opening(token)) => {
                if let Some(Connection::Opening { wire, .. }) = self.remove(token) {
                    self.refuse(&wire, reason);
                }
            }
            Some(Flow::Pipe { pipe, side }) => {
                let back = self.pipes.get(&pipe).and_then(|pipe| pipe.far_end(1 - side));
                self.close_pipe(pipe);
                if let Some((link, stream)) = back {
                    self.tell(link, &LinkMessage::Refused { stream, reason });
                }
            }
            _ => {}
        }
    }

    /// A stream of a link is gone there.
    pub(super) fn reset(&mut self, link: Token, stream: StreamId, reason: &str) {
        match self.flows.get(&(link, stream)).copied() {
            Some(Flow::Pipe { pipe, side }) => self.break_pipe(pipe, Some(side)),
            Some(Flow::Opening(_)) => self.refused(link, stream, reason.to_owned()),
            Some(Flow::Incoming(token)) => {
                self.flows.remove(&(link, stream));
                if let Some(Connection::Incoming { run, ticket, .. }) = self.remove(token) {
                    if let Some(run) = self.runs.get_mut(&run) {
                        run.registry.give_up(ticket);
                    }
                }
            }
            None => {}
        }
    }

    fn hear(&mut self, link: Token, announcement: Announcement) -> Result<(), String> {
        let Some(run) = self.links.get(&link).map(|link| link.run.clone()) else { return Ok(()) };
        let Some(known) = self.runs.get_mut(&run) else { return Ok(()) };
        match known.topology.hear(announcement.clone()) {
            Ok(AnnouncementEffect::Known) => {}
            Ok(AnnouncementEffect::News) => self.tell_all(&run, &LinkMessage::Neighbours(announcement), Some(link)),
            Ok(AnnouncementEffect::Outdated) => {
                known.is_outdated = true;
                self.correct(&run, Instant::now());
            }
            Err(problem) => {
                let facts = [("run", run.as_str()), ("problem", &problem)];
                self.log.once(&run, Level::Warning, "an impossible announcement", &facts);
            }
        }
        Ok(())
    }

    /// Corrects what others have heard of this relay, if anything; not again and again, or two relays of one site would contradict each
    /// other as often as the network allows.
    pub(super) fn correct(&mut self, run: &str, now: Instant) {
        let Some(known) = self.runs.get_mut(run) else { return };
        if !known.is_outdated || known.corrected.is_some_and(|last| now < last + CORRECTED_EVERY) {
            return;
        }
        (known.is_outdated, known.corrected) = (false, Some(now));
        known.corrections += 1;
        let is_contradicted = known.corrections >= CONTRADICTED;
        let own = known.topology.correct();
        if is_contradicted {
            let facts = [("run", run), ("site", &own.site)];
            self.log.once(run, Level::Warning, "another relay of this site seems to be alive", &facts);
        }
        self.tell_all(run, &LinkMessage::Neighbours(own), None);
    }

    /// Tells every relay that is linked for a run.
    pub(super) fn tell_all(&mut self, run: &str, told: &LinkMessage, but: Option<Token>) {
        let links: Vec<Token> = self
            .links
            .iter()
            .filter(|(token, link)| link.run == run && link.is_up() && Some(**token) != but)
            .map(|(token, _)| *token)
            .collect();
        links.into_iter().for_each(|link| self.tell(link, told));
    }
}
