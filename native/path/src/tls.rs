//! TLS 1.3 on a stream. Nothing here waits: what the socket does not take is kept and goes first the next time.
//!
//! Between two records of TLS there may be bytes that need no encryption ([`Clear`]). The record in front of them says how many they are,
//! so that whoever adds or removes one has the next record not be one, which ends the stream.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard};

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Connection};

use xmml_wire::lock::lock;
use xmml_wire::methods::{Clear, Stream as Wire};

use super::credentials::{Fingerprint, Tls, SERVER};

/// Bytes that are read from the socket at once.
const READ: usize = 128 * 1024;

/// Bytes that are encrypted ahead of what the socket takes.
const AHEAD: usize = 256 * 1024;

/// The same while the two ends have not come to terms: a stranger costs no more memory than this.
const READ_OF_STRANGERS: usize = 4 * 1024;

/// Bytes of a record of TLS in front of its content: the last two say how much follows.
const RECORD_HEAD: usize = 5;

/// The label under which the channel is taken out of TLS (RFC 5705).
const CHANNEL: &[u8] = b"EXPORTER-xmml-channel";

/// A stream of bytes inside TLS.
pub struct TlsWire {
    socket: Box<dyn Wire>,
    /// Of the certificate of this end, and whether this is the end that dialled.
    mine: Fingerprint,
    dialled: bool,
    state: Mutex<TlsState>,
}

struct TlsState {
    connection: Connection,
    /// Read and not decrypted yet.
    staging: Box<[u8]>,
    from: usize,
    to: usize,
    /// The record that is being handed to TLS.
    record: RecordLength,
    /// Encrypted, and to go out in front of open bytes; so many of them are out.
    before_open: Vec<u8>,
    out: usize,
    /// So many open bytes go out before anything that is encrypted from now on.
    open: usize,
    /// The last read of the socket got less than it asked for: more is told by the descriptor.
    is_drained: bool,
    /// The other end has closed its direction.
    is_at_end: bool,
    /// Bytes that came by the socket.
    received: u64,
}

impl TlsWire {
    /// The side that dials.
    ///
    /// # Errors
    /// If TLS cannot begin; no bytes have passed then.
    pub fn client(socket: Box<dyn Wire>, tls: &Tls) -> io::Result<TlsWire> {
        let name = ServerName::try_from(SERVER).map_err(io::Error::other)?;
        let connection = rustls::ClientConnection::new(tls.client.clone(), name).map_err(io::Error::other)?;
        Ok(TlsWire::over(socket, connection.into(), tls.fingerprint(), true))
    }

    /// The side that was dialled; `first` is what has been read from the socket already, to see that it is TLS.
    ///
    /// # Errors
    /// If TLS cannot begin; no bytes have passed then.
    pub fn server(socket: Box<dyn Wire>, tls: &Tls, first: &[u8]) -> io::Result<TlsWire> {
        let connection = rustls::ServerConnection::new(tls.server.clone()).map_err(io::Error::other)?;
        let wire = TlsWire::over(socket, connection.into(), tls.fingerprint(), false);
        let mut state = wire.state();
        let Some(staged) = state.staging.get_mut(..first.len()) else {
            return Err(io::Error::other("more was read than belongs before TLS"));
        };
        staged.copy_from_slice(first);
        state.to = first.len();
        state.received = first.len() as u64;
        drop(state);
        Ok(wire)
    }

    fn over(socket: Box<dyn Wire>, mut connection: Connection, mine: Fingerprint, dialled: bool) -> TlsWire {
        connection.set_buffer_limit(Some(AHEAD));
        let staging = vec![0; READ_OF_STRANGERS].into_boxed_slice();
        let state = TlsState {
            connection,
            staging,
            from: 0,
            to: 0,
            record: RecordLength::default(),
            before_open: Vec::new(),
            out: 0,
            open: 0,
            is_drained: false,
            is_at_end: false,
            received: 0,
        };
        TlsWire { socket, mine, dialled, state: Mutex::new(state) }
    }

    /// Bytes that came by the socket, so that whoever takes strangers in can bound them.
    pub fn received(&self) -> u64 {
        self.state().received
    }

    fn state(&self) -> MutexGuard<'_, TlsState> {
        lock(&self.state)
    }
}

/// Where the record of TLS that is under way ends: what stands behind it may be open.
#[derive(Default)]
struct RecordLength {
    head: [u8; RECORD_HEAD],
    known: usize,
    left: usize,
}

impl RecordLength {
    /// How many of these bytes belong to the record that is under way, or begins with them.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let mut passed = 0;
        if self.left == 0 {
            passed = bytes.len().min(RECORD_HEAD - self.known);
            self.head[self.known..self.known + passed].copy_from_slice(&bytes[..passed]);
            self.known += passed;
            if self.known < RECORD_HEAD {
                return passed;
            }
            let [.., high, low] = self.head;
            (self.known, self.left) = (0, usize::from(u16::from_be_bytes([high, low])));
        }
        let rest = self.left.min(bytes.len() - passed);
        self.left -= rest;
        passed + rest
    }
}

impl TlsState {
    /// The certificate of the other end, once that has shown it.
    fn shown_certificate(&self) -> Option<Fingerprint> {
        self.connection.peer_certificates()?.first().map(|certificate| Fingerprint::of(certificate))
    }
}

/// What a connection writes its records to.
struct Socket<'a>(&'a dyn Wire);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsState {
    /// Writes what is encrypted; `WouldBlock` while the socket does not take all of it.
    fn flush(&mut self, socket: &dyn Wire) -> io::Result<()> {
        if self.open > 0 {
            return Ok(()); // nothing may come between the record that announces open bytes and these
        }
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Decrypts what has been read.
    fn decrypt(&mut self, socket: &dyn Wire) -> io::Result<()> {
        while self.from < self.to {
            let end = self.from + self.record.pass(&self.staging[self.from..self.to]);
            while self.from < end {
                let mut staged = &self.staging[self.from..end];
                self.from += self.connection.read_tls(&mut staged)?;
            }
            match self.connection.process_new_packets() {
                Ok(status) if status.plaintext_bytes_to_read() > 0 => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    let _ = self.flush(socket); // the other end learns why, if it still listens
                    return Err(io::Error::new(io::ErrorKind::InvalidData, explained(&error)));
                }
            }
        }
        Ok(())
    }
}

impl Wire for TlsWire {
    fn fd(&self) -> RawFd {
        self.socket.fd()
    }

    fn peer(&self) -> &str {
        self.socket.peer()
    }

    fn reads_ahead(&self) -> bool {
        let state = self.state();
        !state.is_drained || state.from < state.to
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        loop {
            match state.connection.reader().read(into) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            if state.from < state.to {
                state.decrypt(&*self.socket)?;
                if state.connection.wants_write() {
                    would_block_is_fine(state.flush(&*self.socket))?;
                }
                continue;
            }
            if state.is_at_end {
                return Ok(0);
            }
            if !state.connection.is_handshaking() && state.staging.len() < READ {
                state.staging = vec![0; READ].into_boxed_slice();
            }
            let TlsState { staging, .. } = &mut *state;
            let most = staging.len();
            let count = self.socket.read(staging)?;
            (state.from, state.to) = (0, count);
            state.is_drained = count < most;
            state.received += count as u64;
            if count == 0 {
                state.is_at_end = true;
                let mut nothing: &[u8] = &[];
                state.connection.read_tls(&mut nothing)?;
            }
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state();
        if !state.connection.is_handshaking() {
            state.flush(&*self.socket)?;
        }
        // As one record, if it is short: each costs the other end as much to open as a message does.
        let count = state.connection.writer().write_vectored(parts)?;
        would_block_is_fine(state.flush(&*self.socket))?;
        match count {
            0 if parts.iter().any(|part| !part.is_empty()) => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.state().flush(&*self.socket)
    }

    fn channel(&self) -> io::Result<Option<[u8; 32]>> {
        let state = self.state();
        let Some(theirs) = state.shown_certificate() else {
            return Err(io::Error::other("the other end has shown no certificate yet"));
        };
        let (dialler, listener) = if self.dialled { (self.mine, theirs) } else { (theirs, self.mine) };
        let both = [dialler.bytes(), listener.bytes()].concat();
        state.connection.export_keying_material([0; 32], CHANNEL, Some(&both)).map(Some).map_err(io::Error::other)
    }

    fn shown_certificate(&self) -> Option<[u8; 32]> {
        self.state().shown_certificate().map(|certificate| certificate.bytes())
    }

    fn clear(&self) -> Option<&dyn Clear> {
        Some(self)
    }

    fn can_fall_silent(&self) -> bool {
        self.socket.can_fall_silent()
    }

    fn shut(&self) {
        self.socket.shut();
    }
}

impl Clear for TlsWire {
    fn write(&self, closed: &[IoSlice<'_>], open: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        let state = &mut *state;
        let wanted: usize = closed.iter().map(|part| part.len()).sum();
        if wanted > 0 {
            state.flush(&*self.socket)?;
            let count = state.connection.writer().write_vectored(closed)?;
            if count < wanted {
                would_block_is_fine(state.flush(&*self.socket))?;
                return if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) };
            }
            while state.connection.wants_write() {
                state.connection.write_tls(&mut state.before_open)?;
            }
            state.open = open.len();
        }
        match state.write_open(&*self.socket, open) {
            Ok(count) => Ok(wanted + count),
            // What announces the open bytes is taken; these are offered again.
            Err(error) if wanted > 0 && is_for_now(&error) => Ok(wanted),
            Err(error) => Err(error),
        }
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        if state.from < state.to {
            let count = into.len().min(state.to - state.from);
            into[..count].copy_from_slice(&state.staging[state.from..state.from + count]);
            state.from += count;
            return Ok(count);
        }
        let count = self.socket.read(into)?;
        state.is_drained = count < into.len();
        state.received += count as u64;
        Ok(count)
    }
}

impl TlsState {
    /// Writes what announces open bytes, and of these as many as there is room for.
    fn write_open(&mut self, socket: &dyn Wire, open: &[u8]) -> io::Result<usize> {
        loop {
            let before = &self.before_open[self.out..];
            let written = socket.write(&[IoSlice::new(before), IoSlice::new(open)])?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let opened = written.saturating_sub(before.len());
            self.out += written - opened;
            if self.out == self.before_open.len() {
                self.before_open.clear();
                self.out = 0;
            }
            if opened > 0 {
                self.open -= opened;
                return Ok(opened);
            }
        }
    }
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What is not out goes the next time; a socket that is not connected yet takes nothing either.
fn would_block_is_fine(status: io::Result<()>) -> io::Result<()> {
    match status {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => Ok(()),
        status => status,
    }
}

/// Why the two ends do not come together, and what to do.
fn explained(error: &rustls::Error) -> String {
    let theirs = |what: &str| format!("its certificate {what}");
    let mine = |what: &str| format!("it refuses the certificate of this end, which {what} there");
    const UNKNOWN: &str = "is not one of those that are trusted";
    match error {
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => theirs(UNKNOWN),
        rustls::Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            theirs("has expired; make new ones for the run, and compare the clocks of the two hosts")
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => theirs("is not valid yet; compare the clocks of the two hosts"),
        rustls::Error::NoCertificatesPresented => "it shows no certificate".to_owned(),
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => mine("has expired"),
        rustls::Error::AlertReceived(
            AlertDescription::AccessDenied | AlertDescription::BadCertificate | AlertDescription::CertificateUnknown,
        ) => mine(UNKNOWN),
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS: encrypt the path at both ends, or at none".to_owned()
        }
        other => format!("it cannot be spoken to in TLS: {other}"),
    }
}
